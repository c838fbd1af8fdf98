package dynamolog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"mneme/internal/testing/awstest"
	"mneme/internal/testing/fault"
	"mneme/memory"
	"mneme/versionlog"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// deadlines is a database that notes until when each batch may be written.
type deadlines struct {
	database
	seen map[time.Time]bool
}

func (d *deadlines) BatchWriteItem(ctx context.Context, in *dynamodb.BatchWriteItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.BatchWriteItemOutput, error) {
	at, _ := ctx.Deadline()
	d.seen[at] = true
	return d.database.BatchWriteItem(ctx, in, opts...)
}

// TestDeleteHasTheTimeItNeeds holds that the deletion of a store is bounded
// request by request, not as a whole: the remains of a large store whose deletion ends in
// the middle cannot be found.
func TestDeleteHasTheTimeItNeeds(t *testing.T) {
	b := newBackend(t, awstest.DynamoDB(t))
	l := b.open(t, nil, nil)
	s := addStore(t, l, "large")
	for i := range 2 * maxBatchWrite / 4 {
		write(t, l, s.ID, fmt.Sprintf("/file-%d", i), "text")
	}
	l.work.Wait() // nothing else writes batches
	d := &deadlines{database: l.table.db, seen: map[time.Time]bool{}}
	l.table.db = d
	if err := l.DeleteStore(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	if len(d.seen) < 2 || d.seen[time.Time{}] {
		t.Errorf("the batches had the deadlines %v, want one each", d.seen)
	}
}

// TestDeleteGoesOn interrupts deletions at every request that follows the store's
// end, and holds that the command that the error names removes what is left.
func TestDeleteGoesOn(t *testing.T) {
	t.Parallel()
	for _, site := range []string{"s3 DELETE store.json", "Query store", "BatchWriteItem / delete", "s3 LIST other", "s3 DELETE log", "s3 DELETE blobs"} {
		t.Run(site, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			b := newBackend(t, awstest.DynamoDB(t))
			transport := newSites()
			l, err := b.openOnce(t, transport)
			if err != nil {
				t.Fatal(err)
			}
			defer closeOnce(t, l)
			s := addStore(t, l, "notes")
			write(t, l, s.ID, "/a", "text")
			blob := storePrefix(s.ID) + "blobs/98/text"
			if _, err := l.records.s3.PutObject(ctx, &s3.PutObjectInput{Bucket: &b.bucket, Key: &blob, Body: strings.NewReader("text")}); err != nil {
				t.Fatal(err)
			}
			l.work.Wait()
			transport.Arm(fault.Fault{Site: site, Action: fault.FailBefore})
			err = l.DeleteStore(ctx, s.ID)
			if !errors.Is(err, ErrLeft) {
				t.Fatalf("the interrupted deletion: %v", err)
			}
			again := b.open(t, nil, nil)
			adopted := s
			adopted.Name, adopted.Limits = "notes", versionlog.Limits{MaxMemoryBytes: memory.DefaultMaxMemoryBytes, Content: versionlog.ContentText}
			adopt := func() error { return memory.NewLibrary(again, nil).Adopt(ctx, adopted) }
			if err := adopt(); !errors.Is(err, ErrLeft) {
				t.Errorf("a store of the id is made beside what is left: %v", err)
			}
			if err := again.DeleteStore(ctx, s.ID); err != nil {
				t.Fatal(err)
			}
			if rows := b.dump(t, s); len(rows) != 1 { // FORMAT
				t.Errorf("rows are left: %v", rows)
			}
			if some, err := again.records.any(ctx, storePrefix(s.ID)); some || err != nil {
				t.Errorf("objects are left: %v, %v", some, err)
			}
			if err := again.DeleteStore(ctx, s.ID); !errors.Is(err, versionlog.ErrNotFound) {
				t.Errorf("when nothing is left: %v, want ErrNotFound", err)
			}
			if err := adopt(); err != nil {
				t.Errorf("when nothing is left: %v", err)
			}
		})
	}
}

// TestDeleteSparesARebuild holds that a store which only a rebuild has hidden is
// not taken for one that was deleted.
func TestDeleteSparesARebuild(t *testing.T) {
	t.Parallel()
	b := newBackend(t, awstest.DynamoDB(t))
	l := b.open(t, nil, nil)
	s := addStore(t, l, "notes")
	write(t, l, s.ID, "/a", "text")
	l.work.Wait()
	m, err := l.table.meta(t.Context(), s.ID)
	if err == nil {
		err = l.closeStore(t.Context(), s.ID, m)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := l.DeleteStore(t.Context(), s.ID); !errors.Is(err, ErrRebuilding) {
		t.Errorf("the error is %v, want one that names the rebuild", err)
	}
	if err := b.rebuild(t, s.ID); err != nil {
		t.Fatal(err)
	}
	if err := b.open(t, nil, nil).DeleteStore(t.Context(), s.ID); err != nil {
		t.Error(err)
	}
}
