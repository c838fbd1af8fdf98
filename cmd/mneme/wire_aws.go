package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"mneme/cache"
	"mneme/cas"
	"mneme/cas/s3cas"
	"mneme/internal/awsconf"
	"mneme/internal/awssetup"
	"mneme/internal/safepath"
	"mneme/memory"
	"mneme/versionlog/dynamolog"
)

// awsTable is a bucket for blobs and records, and a table for the index.
type awsTable struct{ bucket, table string }

// What S3 and DynamoDB allow as names.
var (
	bucketName = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)
	tableName  = regexp.MustCompile(`^[A-Za-z0-9_.-]{3,255}$`)
)

const tableKey = "table" // of the URL's query

// insecureVariable names the environment variable that stands in for --insecure.
const insecureVariable = "MNEME_INSECURE"

// connect makes the clients. Nil requests count nothing.
func (t awsTable) connect(ctx context.Context, requests *awsconf.Requests) (*awsconf.Clients, error) {
	insecure, _ := strconv.ParseBool(os.Getenv(insecureVariable)) // kong has refused what is neither
	clients, err := awsconf.Load(ctx, &awsconf.Options{Requests: requests, PlainHTTP: insecure})
	if errors.Is(err, awsconf.ErrPlainHTTP) {
		return nil, fmt.Errorf("%w, or allow it with --insecure or %s=1", err, insecureVariable)
	}
	return clients, err
}

// locateAWS reads an aws URL.
func locateAWS(raw string, u *url.URL) (location, error) {
	wrong := func(format string, args ...any) error {
		return usagef("store URL %q: %s; want aws://BUCKET?table=TABLE", raw, fmt.Sprintf(format, args...))
	}
	query, err := url.ParseQuery(u.RawQuery)
	switch {
	case u.Opaque != "" || u.Host == "":
		return nil, wrong("it names no bucket")
	case err != nil || u.Fragment != "":
		return nil, wrong("what follows the bucket is no query")
	case strings.Trim(u.Path, "/") != "":
		return nil, wrong("it has a path, %q; the stores of a table have the whole bucket below stores/", u.Path)
	case !bucketName.MatchString(u.Host):
		return nil, wrong("%q is no bucket's name (3 to 63 lower-case letters, digits, - and .)", u.Host)
	}
	for key, values := range query {
		if key != tableKey {
			return nil, wrong("there is no setting %q (region, credentials and endpoints come from AWS_REGION, AWS_PROFILE, AWS_ENDPOINT_URL_S3 …)", key)
		}
		if len(values) > 1 {
			return nil, wrong("it names %d tables", len(values))
		}
	}
	table := query.Get(tableKey)
	if table == "" {
		return nil, wrong("it names no table")
	}
	if !tableName.MatchString(table) {
		return nil, wrong("%q is no table's name (3 to 255 letters, digits, _, - and .)", table)
	}
	return awsTable{u.Host, table}, nil
}

func (t awsTable) String() string { return "aws://" + t.bucket + "?" + tableKey + "=" + t.table }

func (t awsTable) opened(int) bool { return false }

func (t awsTable) remote() bool { return true }

func (t awsTable) plan(region, owner string) *awssetup.Plan {
	return awssetup.NewPlan(t.bucket, t.table, region, owner)
}

// The parts of the user's cache directory.
const (
	blobCacheDir = "blobs"
	headCacheDir = "heads"
)

func (t awsTable) open(ctx context.Context, opts openOptions) (*library, error) {
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
		ReadOnly: opts.readOnly, Refresh: opts.refresh, SnapshotDir: heads,
		Logger: slog.New(slog.NewTextHandler(shownLines{os.Stderr}, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		return nil, fmt.Errorf("%v: %w", t, err)
	}
	clients.ExpectBucketOwner(log.BucketOwner())
	l := newLibrary(log, caches)
	l.doIndex = "`mneme fsck --rebuild-index` makes the index from them, or tells why it cannot"
	l.check = func(ctx context.Context, storeID string, report func(memory.Problem)) error {
		return t.check(ctx, clients, storeID, report)
	}
	l.reach = func(ctx context.Context, storeID string, toWrite bool) error {
		if toWrite {
			return log.CheckBucket(ctx, storeID)
		}
		return s3cas.Open(clients.S3, t.bucket, "stores/"+storeID).Reach(ctx)
	}
	l.caller = clients.Caller
	l.requests = requests.Snapshot
	return l, nil
}

// caches returns the blobs of every store behind a cache on disk, which all
// mounts of the user share, and the directory for copies of heads. Without a
// home there is neither. As root it has to be root's alone.
func (t awsTable) caches(clients *awsconf.Clients, opts openOptions) (caches *blobCaches, heads string, err error) {
	o := &cache.Options{}
	dir := opts.cache.dir
	if base, err := xdgDir("XDG_CACHE_HOME", ".cache"); dir == "" && err == nil {
		dir = filepath.Join(base, "mneme")
	}
	if dir != "" {
		o.Dir, heads = filepath.Join(dir, blobCacheDir), filepath.Join(dir, headCacheDir)
		if err := errors.Join(safepath.Check(o.Dir), safepath.Check(heads)); err != nil {
			return nil, "", fmt.Errorf("cache: %w", adviseOwner(err, "--cache-dir or $XDG_CACHE_HOME name another place"))
		}
	}
	if size := opts.cache.size; size != nil {
		if o.DiskBytes = int64(*size); o.DiskBytes == 0 {
			o.Dir = ""
		}
	}
	return &blobCaches{
		backend: func(storeID string) (cas.Store, error) {
			return s3cas.Open(clients.S3, t.bucket, "stores/"+storeID), nil
		},
		direct: opts.direct, options: o,
	}, heads, nil
}

func (t awsTable) rebuild(ctx context.Context, store string, progress func(step string, done, total int)) error {
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

func (t awsTable) losses(context.Context, bool) ([]loss, string, error) { return nil, "", nil }

func (t awsTable) backup(context.Context, string, []string, func(string, int, int)) (*backupResult, error) {
	return nil, usagef("%v: mneme backup copies embedded stores; the history of these is in the bucket, so turn on its versioning and copy or replicate it (see docs/AWS.md), from which `mneme fsck --rebuild-index` makes the table", t)
}

func (t awsTable) check(ctx context.Context, clients *awsconf.Clients, storeID string, report func(memory.Problem)) error {
	return dynamolog.Check(ctx, clients.DynamoDB, t.table, clients.S3, t.bucket, storeID, func(p dynamolog.Problem) {
		report(memory.Problem{Kind: problemIndex, Subject: p.Subject, What: p.What, Do: p.Do})
	})
}

func (t awsTable) setup(ctx context.Context, opts setupOptions, report func(awssetup.Step)) (orphaned bool, err error) {
	clients, err := t.connect(ctx, nil)
	if err != nil {
		return false, err
	}
	// Before anything is made: the bucket's name may be a slip.
	named, err := dynamolog.MaySetup(ctx, clients.DynamoDB, t.table, t.bucket, opts.move)
	if err != nil {
		return false, err
	}
	owner, err := awssetup.Run(ctx, clients, t.bucket, t.table, &awssetup.Options{BucketOwner: firstNonEmpty(opts.owner, named)}, report)
	if errors.Is(err, awssetup.ErrForeignBucket) {
		return false, fmt.Errorf("%w: correct the URL, or, if you mean it, say whose it is: `mneme setup --bucket-owner ACCOUNT`", err)
	}
	if err != nil {
		return false, err
	}
	if err := dynamolog.Setup(ctx, clients.DynamoDB, t.table, t.bucket, &dynamolog.SetupOptions{Move: opts.move, BucketOwner: owner}); err != nil {
		return false, err
	}
	report(awssetup.Step{What: "format of table " + t.table, Outcome: awssetup.Ready})
	orphaned, err = dynamolog.Orphaned(ctx, clients.DynamoDB, t.table, clients.S3, t.bucket)
	if orphaned {
		report(awssetup.Step{
			What: "stores of bucket " + t.bucket, Outcome: awssetup.Differs,
			Note: "the bucket has objects of stores, the table lists none; `mneme fsck --rebuild-index` brings them back",
		})
	}
	return orphaned, err
}
