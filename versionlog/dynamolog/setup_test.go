package dynamolog

import (
	"errors"
	"strings"
	"testing"

	"mneme/internal/awstest"
	"mneme/versionlog"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// TestTableKnowsItsBucket holds that nobody writes to a table's stores with the
// bytes in another bucket, and that moving them takes saying so.
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
	must("set up for another bucket without stores", Setup(ctx, clients.DynamoDB, b.table, other, false))
	must("open with it", opens(other))
	refused("open with the first", opens(b.bucket))
	must("set up for the first again", Setup(ctx, clients.DynamoDB, b.table, b.bucket, false))

	l := b.open(t, nil, nil)
	s := addStore(t, l, "notes")
	closeOnce(t, l)
	refused("set up for another bucket with stores", Setup(ctx, clients.DynamoDB, b.table, other, false))
	refused("ask whether that may be", MaySetup(ctx, clients.DynamoDB, b.table, other, false))
	refused("rebuild from another bucket", Rebuild(ctx, clients.DynamoDB, b.table, clients.S3, other, "", nil))
	must("open with the first", opens(b.bucket))
	must("move", Setup(ctx, clients.DynamoDB, b.table, other, true))
	refused("open with the first after that", opens(b.bucket))
	must("move back", Setup(ctx, clients.DynamoDB, b.table, b.bucket, true))

	b.empty(t, s)
	must("lose the FORMAT row", l.table.write(ctx, []types.WriteRequest{deleteRequest(formatPartition, formatSort)}))
	if err := opens(b.bucket); !errors.Is(err, errNotSetUp) || !strings.Contains(err.Error(), "mneme fsck --rebuild-index") {
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
	if _, err := Open(t.Context(), clients.DynamoDB, b.table, clients.S3, b.bucket, nil); !errors.Is(err, errNotSetUp) {
		t.Errorf("the error is %v, want errNotSetUp", err)
	}
	if err := Setup(t.Context(), clients.DynamoDB, b.table, b.bucket, false); err != nil {
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
