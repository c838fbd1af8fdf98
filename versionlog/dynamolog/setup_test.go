package dynamolog

import (
	"errors"
	"strings"
	"testing"

	"mneme/internal/testing/awstest"
	"mneme/versionlog"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// TestTableKnowsItsBucket checks that no process writes to a table's stores with the bytes
// in another bucket, and that moving them needs an explicit option.
func TestTableKnowsItsBucket(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	b := newBackend(t, awstest.DynamoDB(t))
	clients := b.clients(t, nil)
	other := awstest.Name("bucket")
	awstest.MakeBucket(t, clients.S3, other)
	opens := func(bucket string) error {
		l, err := Open(ctx, clients.DynamoDB, b.table, clients.S3, bucket, nil)
		if err == nil {
			closeOnce(t, l)
		}
		return err
	}
	refused := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, ErrOtherBucket) || !strings.Contains(err.Error(), b.bucket) || !strings.Contains(err.Error(), other) {
			t.Errorf("%s: the error is %v, want one that names both buckets", what, err)
		}
	}
	must := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	refused("open with another bucket", opens(other))
	must("set up for another bucket without stores", Setup(ctx, clients.DynamoDB, b.table, other, nil))
	must("open with it", opens(other))
	refused("open with the first", opens(b.bucket))
	must("set up for the first again", Setup(ctx, clients.DynamoDB, b.table, b.bucket, nil))

	l := b.open(t, nil, nil)
	s := addStore(t, l, "notes")
	closeOnce(t, l)
	refused("set up for another bucket with stores", Setup(ctx, clients.DynamoDB, b.table, other, nil))
	_, err := MaySetup(ctx, clients.DynamoDB, b.table, other, false)
	refused("ask whether that may be", err)
	refused("rebuild from another bucket", Rebuild(ctx, clients.DynamoDB, b.table, clients.S3, other, "", nil))
	must("open with the first", opens(b.bucket))
	must("move", Setup(ctx, clients.DynamoDB, b.table, other, &SetupOptions{Move: true}))
	refused("open with the first after that", opens(b.bucket))
	must("move back", Setup(ctx, clients.DynamoDB, b.table, b.bucket, &SetupOptions{Move: true}))

	b.empty(t, s)
	must("lose the FORMAT row", l.table.write(ctx, []types.WriteRequest{deleteRequest(formatPartition, formatSort)}))
	if err := opens(b.bucket); !errors.Is(err, ErrNotSetUp) {
		t.Errorf("without its FORMAT row: %v", err)
	}
	must("rebuild", b.rebuild(t, ""))
	refused("open what was rebuilt with another bucket", opens(other))
	must("open what was rebuilt", opens(b.bucket))
}

// TestTableWithoutBucket holds that a table of before tables knew their bucket
// is set up again, not trusted.
func TestTableWithoutBucket(t *testing.T) {
	t.Parallel()
	b := newBackend(t, awstest.DynamoDB(t))
	l := b.open(t, nil, nil)
	old := key(formatPartition, formatSort)
	old["format"] = number(1)
	if err := l.table.write(t.Context(), []types.WriteRequest{putRequest(old)}); err != nil {
		t.Fatal(err)
	}
	clients := b.clients(t, nil)
	if _, err := Open(t.Context(), clients.DynamoDB, b.table, clients.S3, b.bucket, nil); !errors.Is(err, ErrNotSetUp) {
		t.Errorf("the error is %v, want ErrNotSetUp", err)
	}
	if err := Setup(t.Context(), clients.DynamoDB, b.table, b.bucket, nil); err != nil {
		t.Fatal(err)
	}
	b.open(t, nil, nil)
}

// TestOrphaned holds that stores which only the bucket has are noticed.
func TestOrphaned(t *testing.T) {
	t.Parallel()
	b := newBackend(t, awstest.DynamoDB(t))
	clients := b.clients(t, nil)
	is := func(want bool) {
		t.Helper()
		got, err := Orphaned(t.Context(), clients.DynamoDB, b.table, clients.S3, b.bucket)
		if err != nil || got != want {
			t.Errorf("%v, %v; want %v", got, err, want)
		}
	}
	is(false)
	l := b.open(t, nil, nil)
	s := addStore(t, l, "notes")
	write(t, l, s.ID, "/a", "text")
	closeOnce(t, l)
	is(false)
	b.empty(t, s)
	is(true)
	if err := b.rebuild(t, ""); err != nil {
		t.Fatal(err)
	}
	is(false)
	if _, err := l.table.meta(t.Context(), s.ID); errors.Is(err, versionlog.ErrNotFound) {
		t.Error("the rebuild did not bring the store back")
	}
}

// TestTableKnowsTheOwner holds that the account of the bucket stays in the table
// until another is named, and is not that of a bucket that is moved to.
func TestTableKnowsTheOwner(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	b := newBackend(t, awstest.DynamoDB(t))
	clients := b.clients(t, nil)
	want := func(when, bucket, owner string) {
		t.Helper()
		l, err := Open(ctx, clients.DynamoDB, b.table, clients.S3, bucket, nil)
		if err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		defer l.Close()
		named, err := MaySetup(ctx, clients.DynamoDB, b.table, bucket, false)
		if l.BucketOwner() != owner || named != owner || err != nil {
			t.Errorf("%s: the owner is %q and %q, want %q; %v", when, l.BucketOwner(), named, owner, err)
		}
	}
	setUp := func(bucket string, opts *SetupOptions) {
		t.Helper()
		if err := Setup(ctx, clients.DynamoDB, b.table, bucket, opts); err != nil {
			t.Fatal(err)
		}
	}
	want("before one is named", b.bucket, "")
	setUp(b.bucket, &SetupOptions{BucketOwner: "111111111111"})
	want("once it is", b.bucket, "111111111111")
	setUp(b.bucket, nil)
	want("set up again", b.bucket, "111111111111")
	setUp(b.bucket, &SetupOptions{BucketOwner: "222222222222"})
	want("another is named", b.bucket, "222222222222")
	older := key(formatPartition, formatSort)
	older["format"], older["bucket"], older["bucket_owner"] = number(format-1), text(b.bucket), text("222222222222")
	if err := (table{db: clients.DynamoDB, name: b.table}).write(ctx, []types.WriteRequest{putRequest(older)}); err != nil {
		t.Fatal(err)
	}
	setUp(b.bucket, nil)
	want("brought up to date", b.bucket, "222222222222")
	setUp("other-bucket", nil)
	want("of another bucket", "other-bucket", "")
	if named, err := MaySetup(ctx, clients.DynamoDB, b.table, b.bucket, true); named != "" || err != nil {
		t.Errorf("the owner of a bucket that is moved to is %q, %v", named, err)
	}
}
