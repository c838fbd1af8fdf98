package backend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"mneme/cas"
	"mneme/cas/s3cas"
	"mneme/internal/awsconf"
	"mneme/internal/awssetup"
	"mneme/internal/objectversions"
	"mneme/verify"
	"mneme/versionlog/dynamolog"
)

var errOldKept = errors.New("old versions of them stay for as long as the rules of the bucket say, if it keeps any, for the credentials may not list and delete those; those of the policy redact may")

// awsTable is a bucket for blobs and records, and a table for the index.
type awsTable struct{ bucket, table string }

// The names that S3 and DynamoDB allow. The expressions are compiled when first used, since
// few commands need them.
var (
	bucketName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`) })
	tableName  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_.-]{3,255}$`) })
)

const tableKey = "table" // of the URL's query

// InsecureVariable names the environment variable that allows endpoints of other machines
// in plain HTTP, a boolean.
const InsecureVariable = "MNEME_INSECURE"

// connect makes the clients. Nil requests count nothing.
func (t awsTable) connect(ctx context.Context, requests *awsconf.Requests) (*awsconf.Clients, error) {
	insecure, _ := strconv.ParseBool(os.Getenv(InsecureVariable)) // what is no boolean allows nothing
	clients, err := awsconf.Load(ctx, &awsconf.Options{Requests: requests, PlainHTTP: insecure})
	if errors.Is(err, ErrPlainHTTP) {
		return nil, fmt.Errorf("%w, or allow it with %s=1", err, InsecureVariable)
	}
	return clients, err
}

// locateAWS reads an aws URL.
func locateAWS(u *url.URL) (*Location, error) {
	query, err := url.ParseQuery(u.RawQuery)
	switch {
	case u.Opaque != "" || u.Host == "":
		return nil, errors.New("it names no bucket")
	case err != nil || u.Fragment != "":
		return nil, errors.New("what follows the bucket is no query")
	case strings.Trim(u.Path, "/") != "":
		return nil, fmt.Errorf("it has a path, %q; the stores of a table have the whole bucket below stores/", u.Path)
	case !bucketName().MatchString(u.Host):
		return nil, fmt.Errorf("%q is no bucket's name (3 to 63 lower-case letters, digits, - and .)", u.Host)
	}
	for key, values := range query {
		if key != tableKey {
			return nil, fmt.Errorf("there is no setting %q (region, credentials and endpoints come from AWS_REGION, AWS_PROFILE, AWS_ENDPOINT_URL_S3 …)", key)
		}
		if len(values) > 1 {
			return nil, fmt.Errorf("it names %d tables", len(values))
		}
	}
	table := query.Get(tableKey)
	if table == "" {
		return nil, errors.New("it names no table")
	}
	if !tableName().MatchString(table) {
		return nil, fmt.Errorf("%q is no table's name (3 to 255 letters, digits, _, - and .)", table)
	}
	return awsTable{u.Host, table}.location(), nil
}

func (t awsTable) String() string { return "aws://" + t.bucket + "?" + tableKey + "=" + t.table }

func (t awsTable) location() *Location {
	return &Location{URL: t.String(), open: t.open, Probe: t.probe, Setup: &Setup{Run: t.setup, Plan: t.plan}, Recovery: Recovery{Rebuild: t.rebuild}}
}

func (t awsTable) open(ctx context.Context, opts *Options) (*Library, error) {
	requests := &awsconf.Requests{}
	clients, err := t.connect(ctx, requests)
	if err != nil {
		return nil, err
	}
	caches, heads, err := t.caches(clients, opts)
	if err != nil {
		return nil, err
	}
	log, err := dynamolog.Open(ctx, clients.DynamoDB, t.table, clients.S3, t.bucket, &dynamolog.Options{
		ReadOnly: opts.ReadOnly, Refresh: opts.Refresh, SnapshotDir: heads, Logger: opts.Logger,
		Blobs:  func(storeID string) dynamolog.Blobs { return s3cas.Open(clients.S3, t.bucket, "stores/"+storeID) },
		Forget: caches.forget,
	})
	if err != nil {
		return nil, fmt.Errorf("%v: %w", t, err)
	}
	clients.ExpectBucketOwner(log.BucketOwner())
	return newLibrary(log, caches, parts{
		check: func(ctx context.Context, storeID string, report func(verify.Problem)) error {
			return t.check(ctx, clients, storeID, report)
		},
		checkShared: func(ctx context.Context, report func(verify.Problem)) error {
			return dynamolog.CheckNames(ctx, clients.DynamoDB, t.table, clients.S3, t.bucket, reportTo(report))
		},
		reach: func(ctx context.Context, storeID string, toWrite bool) error {
			if toWrite {
				return log.CheckBucket(ctx, storeID)
			}
			return s3cas.Open(clients.S3, t.bucket, "stores/"+storeID).Reach(ctx)
		},
		caller: clients.Caller,
		requests: func() (counts []RequestCount) {
			for _, c := range requests.Snapshot() {
				counts = append(counts, RequestCount(c))
			}
			return counts
		},
		eraseOrphans: log.EraseOrphans,
		collect: func(ctx context.Context, storeID string, opts *CollectOptions) (*Garbage, error) {
			orphans, err := log.Collect(ctx, storeID, &dynamolog.CollectOptions{Grace: opts.Grace, Keep: opts.Keep, Progress: opts.contents})
			found := &Garbage{Contents: orphans.Contents, Bytes: orphans.Bytes, Pages: orphans.Pages}
			if errors.Is(err, objectversions.ErrLeft) {
				found.Left, err = errOldKept, nil
			}
			return found, err
		},
	}), nil
}

// caches returns the blobs of every store behind a cache on disk, and the directory for copies
// of heads.
func (t awsTable) caches(clients *awsconf.Clients, opts *Options) (caches *blobCaches, heads string, err error) {
	o, heads, err := cacheDirs(opts)
	if err != nil {
		return nil, "", err
	}
	return &blobCaches{
		backend: func(storeID string) (cas.Store, error) {
			return s3cas.Open(clients.S3, t.bucket, "stores/"+storeID), nil
		},
		direct: opts.Direct, options: o,
	}, heads, nil
}

func (t awsTable) rebuild(ctx context.Context, store string, progress Progress) error {
	clients, err := t.connect(ctx, nil)
	if err != nil {
		return err
	}
	owner, err := dynamolog.MaySetup(ctx, clients.DynamoDB, t.table, t.bucket, false)
	if err != nil {
		return err
	}
	clients.ExpectBucketOwner(owner)
	return dynamolog.Rebuild(ctx, clients.DynamoDB, t.table, clients.S3, t.bucket, store, func(done, total int) {
		progress("records", done, total)
	})
}

func (t awsTable) check(ctx context.Context, clients *awsconf.Clients, storeID string, report func(verify.Problem)) error {
	return dynamolog.Check(ctx, clients.DynamoDB, t.table, clients.S3, t.bucket, storeID, reportTo(report))
}

func reportTo(report func(verify.Problem)) func(dynamolog.Problem) {
	return func(p dynamolog.Problem) {
		report(verify.Problem{Kind: ProblemIndex, Finding: p.Finding, Subject: p.Subject, What: p.What, Do: p.Do})
	}
}

func (t awsTable) setup(ctx context.Context, opts *SetupOptions, report func(SetupStep)) (orphaned bool, err error) {
	if opts == nil {
		opts = &SetupOptions{}
	}
	clients, err := t.connect(ctx, nil)
	if err != nil {
		return false, err
	}
	// Before anything is made: the bucket's name may be a slip.
	named, err := dynamolog.MaySetup(ctx, clients.DynamoDB, t.table, t.bucket, opts.Move)
	if err != nil {
		return false, err
	}
	owner, err := awssetup.Run(ctx, clients, t.bucket, t.table, &awssetup.Options{BucketOwner: cmp.Or(opts.Owner, named)}, func(s awssetup.Step) {
		report(SetupStep{What: s.What, Outcome: SetupOutcome(s.Outcome), Note: s.Note})
	})
	if err != nil {
		return false, err
	}
	if err := dynamolog.Setup(ctx, clients.DynamoDB, t.table, t.bucket, &dynamolog.SetupOptions{Move: opts.Move, BucketOwner: owner}); err != nil {
		return false, err
	}
	report(SetupStep{What: "format of table " + t.table, Outcome: SetupReady})
	orphaned, err = dynamolog.Orphaned(ctx, clients.DynamoDB, t.table, clients.S3, t.bucket)
	if orphaned {
		report(SetupStep{
			What: "stores of bucket " + t.bucket, Outcome: SetupDiffers,
			Note: "the bucket has objects of stores, the table lists none; rebuilding the index brings them back",
		})
	}
	return orphaned, err
}

// probe tries what this backend needs of its servers.
func (t awsTable) probe(ctx context.Context, report func(Probed)) error {
	clients, err := t.connect(ctx, nil)
	if err != nil {
		return err
	}
	awssetup.Probe(ctx, clients, t.bucket, t.table, func(p awssetup.Probed) { report(Probed(p)) })
	return nil
}

func (t awsTable) plan(opts *SetupOptions) *SetupPlan {
	if opts == nil {
		opts = &SetupOptions{}
	}
	p := awssetup.NewPlan(t.bucket, t.table, cmp.Or(os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION")), opts.Owner)
	plan := &SetupPlan{Commands: p.Commands, StoreID: awssetup.StoreIDPlaceholder, StoreSlug: awssetup.SlugPlaceholder}
	for _, policy := range p.Policies {
		plan.Policies = append(plan.Policies, Policy{policy.Name, policy.For, policy.Policy})
	}
	return plan
}
