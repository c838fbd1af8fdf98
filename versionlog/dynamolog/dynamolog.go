// Package dynamolog keeps version logs in a DynamoDB table, and their commit
// records in an S3 bucket, from which alone the table can be made again. Any
// number of machines may use one table.
//
// A commit is one transaction: it advances the store's META row from the
// sequence number and digest that the commit was judged at, so any commit in between makes
// it fail, and puts the heads and the record. A commit is judged by a view that the Log
// keeps of each store; the Log learns commits of others from their records. So a write of a
// path that the view knows costs one transaction and no read.
package dynamolog

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"time"

	"mneme/cas"
	"mneme/errkind"
	"mneme/internal/awsconf"
	"mneme/internal/wallclock"
	"mneme/versionlog"

	"github.com/aws/aws-sdk-go-v2/service/s3"
)

const (
	// drainTimeout bounds how long Close waits for the remaining writes after commits.
	drainTimeout = 10 * time.Second

	// settleTimeout bounds one transaction and what it takes to settle it. It
	// is less than callers wait, so that they hear the cause.
	settleTimeout = 9 * time.Second

	// payTimeout is how long after a commit what its process has sent to pay may arrive, see
	// behind.
	payTimeout = time.Minute

	// leaseTimeout is longer than most snapshots take.
	leaseTimeout = 10 * time.Second

	// snapshotDistance makes the past of a store of any length readable with one listing,
	// one manifest and a few pages of the table, some 2,000 commits; a snapshot costs as many
	// objects as pages have changed, of 10,000 memories some 40 of 15 KB.
	snapshotDistance = 2048
)

// Options adjust a Log. Nil is the default.
type Options struct {
	ReadOnly bool             // refuse commits and changes of stores with versionlog.ErrReadOnly; send only reads
	Refresh  time.Duration    // how often Wait looks for commits of others; 0 is 1 s
	Now      func() time.Time // the clock that stamps commits; nil is that of the table's servers
	Logger   *slog.Logger     // gets messages about retries in the background; nil: none
	// SnapshotDir is a directory for copies of the heads, which spare the next
	// Log a walk over the table. "" is none.
	SnapshotDir string
	// Blobs returns the contents of a store. Redactions and collections delete from them, and
	// commits to a store where they have make sure of theirs. Nil leaves contents alone.
	Blobs func(storeID string) Blobs
	// Forget has copies of the contents of a store go that this machine keeps, since some were
	// erased. It is called by a process that has SnapshotDir, unless another one here has
	// done so. Nil: there are none.
	Forget func(storeID string) error
}

// Blobs are what a collector needs of the contents of a store.
type Blobs interface {
	Has(ctx context.Context, d cas.Digest) (bool, error)
	Delete(ctx context.Context, d cas.Digest) error
	// DeleteOld removes what the bucket keeps of a content that was deleted, or an
	// objectversions.ErrLeft says that it may not.
	DeleteOld(ctx context.Context, d cas.Digest) error
	// Stored yields all contents.
	Stored(ctx context.Context) iter.Seq2[cas.Stored, error]
}

// objects is what a Log needs of the bucket. *s3.Client is one.
type objects interface {
	PutObject(context.Context, *s3.PutObjectInput, ...func(*s3.Options)) (*s3.PutObjectOutput, error)
	GetObject(context.Context, *s3.GetObjectInput, ...func(*s3.Options)) (*s3.GetObjectOutput, error)
	DeleteObject(context.Context, *s3.DeleteObjectInput, ...func(*s3.Options)) (*s3.DeleteObjectOutput, error)
	ListObjectsV2(context.Context, *s3.ListObjectsV2Input, ...func(*s3.Options)) (*s3.ListObjectsV2Output, error)
	ListObjectVersions(context.Context, *s3.ListObjectVersionsInput, ...func(*s3.Options)) (*s3.ListObjectVersionsOutput, error)
}

// Log is a versionlog.Log in a table and a bucket.
type Log struct {
	table    table
	records  records
	owner    string // of the bucket
	readOnly bool
	refresh  time.Duration
	now      func() time.Time
	clock    *wallclock.Clock // of which now is the own one
	logger   *slog.Logger

	// life is the context of background work; Close ends it.
	life    context.Context
	endLife context.CancelFunc
	closing chan struct{}  // closed when Close begins
	work    sync.WaitGroup // what goes on behind the calls

	bounds   bounds
	distance uint64        // how many commits lie between the snapshots in the bucket
	drain    time.Duration // how long Close waits
	settling time.Duration // how long a transaction may take, until it is settled

	ownerPays time.Duration // see behind
	leasing   time.Duration // how long a purge waits for another process that makes a snapshot

	serverTime func(context.Context) (time.Time, error) // by which GONE and SNAP rows are judged; tests have another

	blobs func(storeID string) Blobs // nil: they are no matter

	forget    func(storeID string) error // see Options.Forget
	snapshots string                     // directory of this table's snapshots, "" for none

	mu     sync.Mutex // guards stores; never held during I/O
	stores map[string]*store
}

var _ versionlog.Log = (*Log)(nil)

// Open opens the log that Setup made in a table, for that bucket. Errors:
// ErrOtherBucket, ErrNotSetUp, versionlog.ErrFormat when a newer mneme made it,
// ErrOlder when an older one did and it is not to be read only, and those of the AWS
// SDK, explained.
func Open(ctx context.Context, db database, tableName string, s3 objects, bucket string, opts *Options) (*Log, error) {
	if opts == nil {
		opts = &Options{}
	}
	l := &Log{
		table: table{db: db, name: tableName}, records: records{s3: s3, bucket: bucket},
		readOnly: opts.ReadOnly, refresh: opts.Refresh, now: opts.Now, logger: opts.Logger,
		bounds: defaultBounds, distance: snapshotDistance, drain: drainTimeout, settling: settleTimeout, ownerPays: payTimeout, blobs: opts.Blobs, forget: opts.Forget, snapshots: snapshotDir(opts.SnapshotDir, bucket, tableName), stores: map[string]*store{}, closing: make(chan struct{}),
	}
	if l.refresh <= 0 {
		l.refresh = time.Second
	}
	if l.now == nil {
		l.now = time.Now
	}
	l.clock = wallclock.New(func() time.Time { return l.now() })
	if opts.Now == nil {
		l.table.db = timed{db, l.clock}
	}
	l.serverTime, l.leasing = l.table.now, leaseTimeout
	if l.logger == nil {
		l.logger = slog.New(slog.DiscardHandler)
	}
	ctx, cancel := awsconf.WithTimeout(ctx)
	defer cancel()
	var err error
	if l.owner, err = l.table.checkFormat(ctx, bucket); err != nil && !(l.readOnly && errors.Is(err, ErrOlder)) {
		return nil, fmt.Errorf("open log in table %s: %w", tableName, awsconf.Explain(err))
	}
	l.life, l.endLife = context.WithCancel(context.WithoutCancel(ctx))
	return l, nil
}

// BucketOwner returns the account that the table names as the bucket's, "" for
// none. Open sends nothing to the bucket, so its client can be told before it is
// first used.
func (l *Log) BucketOwner() string { return l.owner }

// Close waits until what was committed is in the bucket, too, 10 seconds at
// most; what is left then is done by the next Log that writes to the store.
func (l *Log) Close() error {
	close(l.closing)
	done := make(chan struct{})
	go func() {
		l.work.Wait()
		close(done)
	}()
	timer := time.NewTimer(l.drain)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
	l.endLife()
	<-done
	for _, s := range l.stores {
		s.saveSnapshot()
	}
	return nil
}

// store is what a Log keeps of one store.
type store struct {
	log *Log
	id  string

	// catching is held by the call that brings the view up to date, so that concurrent calls
	// share the reads. It is taken before mu.
	catching chan struct{}
	agreeing chan struct{} // held by the caller that compares bucket and table
	erasing  chan struct{} // held by the caller that finishes redactions
	hurry    chan struct{} // holds a token when a caller waits for the next attempt to finish them

	saving sync.Mutex // held while the snapshot on disk is replaced or removed; taken before mu

	mu         sync.Mutex // guards the fields below; never held during I/O
	newest     *meta      // the newest META row that was read, nil for none; the view may be ahead
	agreed     bool       // whether the bucket was found not to be ahead of the table
	parted     *meta      // where the view was when a commit did not follow it, nil for never
	stopped    error      // why nothing more is written to the store, nil while it may be
	view       *view      // nil until the store is first used
	queue      []*request
	committing bool          // whether a committer runs
	folding    bool          // whether snapshots are being put into the bucket
	finishing  *finishing    // the attempt to finish redactions behind the calls, nil for none
	arrived    chan struct{} // holds a token when the queue has grown
	last       struct {      // the last transaction
		size int
		end  time.Time
	}

	resumed       bool   // whether a snapshot was looked for
	savedAt       uint64 // the tip of the snapshot on disk
	redacted      uint64 // the newest redaction that was seen
	disagreements int    // how often in a row a transaction was refused though the view was right

	wait   waiting
	outbox outbox
}

// finishing is one attempt to finish redactions behind the calls.
type finishing struct {
	attempted chan struct{}
	err       error // once attempted
}

// store returns what the log keeps of a store, which need not exist.
func (l *Log) store(id string) *store {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.stores[id]
	if s == nil {
		s = &store{log: l, id: id, catching: make(chan struct{}, 1), agreeing: make(chan struct{}, 1), erasing: make(chan struct{}, 1), hurry: make(chan struct{}, 1), arrived: make(chan struct{}, 1)}
		s.wait.changed = make(chan struct{})
		l.stores[id] = s
	}
	return s
}

// call bounds one call of the log, and explains its error.
func call(ctx context.Context, fn func(context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	bounded, cancel := awsconf.WithTimeout(ctx)
	defer cancel()
	err := fn(bounded)
	if err != nil && ctx.Err() != nil && !isVerdict(err) {
		return ctx.Err()
	}
	return awsconf.Explain(err)
}

// isVerdict reports whether an error says what the log holds, rather than that it could
// not be asked.
func isVerdict(err error) bool {
	k := errkind.Of(err)
	return k.Final() || k == errkind.Corrupt
}

// pause waits, unless ctx ends before.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
