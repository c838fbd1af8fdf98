package dynamolog

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"mneme/internal/testing/awstest"
	"mneme/internal/testing/fault"
	"mneme/versionlog"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"
)

func refused(t *testing.T, l *Log, s versionlog.Store, want string) {
	t.Helper()
	_, err := l.Commit(t.Context(), s.ID, proposal(putChange("/new", "text", versionlog.ExpectAny())))
	if !errors.Is(err, versionlog.ErrRewritten) || !strings.Contains(err.Error(), want) {
		t.Errorf("a commit: %v, want ErrRewritten with %q", err, want)
	}
}

// unaware returns a Log that appends without having compared bucket and table, as an
// earlier mneme did.
func unaware(t *testing.T, l *Log, s versionlog.Store) *Log {
	t.Helper()
	if err := l.store(s.ID).load(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.store(s.ID).agreed, l.drain = true, 0
	return l
}

// TestBucketAhead holds that nothing is appended to a table that was restored to an
// earlier time, until it has been brought up to the bucket.
func TestBucketAhead(t *testing.T) {
	t.Parallel()
	b, _, s, _ := restored(t)
	before := b.everything(t, s)
	l := b.open(t, nil, nil)
	refused(t, l, s, "the bucket has commit 5, and the table ends with commit 3")
	if err := b.open(t, nil, nil).CheckBucket(t.Context(), s.ID); !errors.Is(err, versionlog.ErrRewritten) {
		t.Errorf("CheckBucket: %v", err)
	}
	l.settled()
	if diff := cmp.Diff(before, b.everything(t, s)); diff != "" {
		t.Errorf("it was written to all the same: want -, got +:\n%s", diff)
	}
	if err := b.rebuild(t, ""); err != nil {
		t.Fatal(err)
	}
	if c := write(t, l, s.ID, "/new", "text"); c.Seq != 6 {
		t.Errorf("after the rebuild commit %d was made, want 6", c.Seq)
	}
}

// TestBucketSaysOtherwise holds the same where the bucket goes as far as the table,
// with another commit.
func TestBucketSaysOtherwise(t *testing.T) {
	t.Parallel()
	b, _, s, _ := restored(t)
	transport := newTransport()
	transport.Arm(fault.Fault{Site: "s3 PUT log", Action: fault.FailBefore})
	other := unaware(t, b.open(t, transport, nil), s)
	write(t, other, s.ID, "/x", "text")
	write(t, other, s.ID, "/y", "text")
	closeOnce(t, other)
	refused(t, b.open(t, nil, nil), s, "commit 5 is ")
}

// TestBucketBehind checks that a bucket that lacks commits, or has a damaged record, is no
// reason to refuse, nor is one that is ahead of an earlier read.
func TestBucketBehind(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	b := newBackend(t, awstest.DynamoDB(t))
	l := b.open(t, nil, nil)
	s := addStore(t, l, "notes")
	for range maxRows + 3 {
		write(t, l, s.ID, "/a", versionlog.NewKey())
	}
	l.settled()
	if err := l.records.remove(ctx, recordKey(s.ID, span{103, 103})); err != nil {
		t.Fatal(err)
	}
	write(t, b.open(t, nil, nil), s.ID, "/b", "text")

	transport := newTransport()
	slow := b.open(t, transport, nil)
	transport.Arm(fault.Fault{Site: "s3 LIST log", Action: func(_ *http.Request, _ []byte, send func() (*http.Response, error)) (*http.Response, error) {
		write(t, l, s.ID, "/c", "text") // after the tip was read, before the bucket is
		l.settled()
		return send()
	}})
	write(t, slow, s.ID, "/d", "text")
	slow.settled()
	damaged := recordKey(s.ID, span{106, 106})
	if err := l.records.upload(ctx, damaged, []byte("{}"), nil); err != nil {
		t.Fatal(err)
	}
	write(t, b.open(t, nil, nil), s.ID, "/e", "text")
}

// TestTableWentBack holds that a Log which runs while the table goes back does not
// go on, and does so when the table is what it was.
func TestTableWentBack(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	b := newBackend(t, awstest.DynamoDB(t))
	l := b.open(t, nil, nil)
	s := addStore(t, l, "notes")
	write(t, l, s.ID, "/a", "1")
	then, err := l.table.meta(ctx, s.ID)
	if err != nil {
		t.Fatal(err)
	}
	write(t, l, s.ID, "/a", "2")
	now, err := l.table.meta(ctx, s.ID)
	if err != nil {
		t.Fatal(err)
	}
	put := func(m *meta) {
		t.Helper()
		if err := l.table.write(ctx, []types.WriteRequest{putRequest(m.item())}); err != nil {
			t.Fatal(err)
		}
	}
	put(then)
	if _, err := l.Tip(ctx, s.ID); !errors.Is(err, versionlog.ErrRewritten) {
		t.Errorf("Tip: %v, want ErrRewritten", err)
	}
	refused(t, l, s, "commit 2, ")
	put(now)
	write(t, l, s.ID, "/b", "text")
}

// TestOtherHistoryFollowed holds that a Log which follows a store does not go on
// with a commit that follows another one than it knows.
func TestOtherHistoryFollowed(t *testing.T) {
	t.Parallel()
	b, _, s, _ := restored(t)
	l := b.open(t, nil, &Options{Refresh: testRefresh})
	unaware(t, l, s)
	other := unaware(t, b.open(t, nil, nil), s)
	l.store(s.ID).view.meta.tip.Digest[0] ^= 1 // it knows another commit 3
	write(t, other, s.ID, "/x", "text")
	if _, err := l.Next(t.Context(), s.ID, 3); !errors.Is(err, versionlog.ErrRewritten) {
		t.Errorf("Next: %v, want ErrRewritten", err)
	}
	refused(t, l, s, "commit 4 ")
}

// TestRecordRefused holds that a store stops when the bucket has another record in
// the place of one that was made.
func TestRecordRefused(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	b := newBackend(t, awstest.DynamoDB(t))
	var heard bytes.Buffer
	l := b.open(t, nil, &Options{Refresh: testRefresh, Logger: slog.New(slog.NewTextHandler(&heard, nil))})
	s := addStore(t, l, "notes")
	write(t, l, s.ID, "/a", "text")
	if err := l.records.upload(ctx, recordKey(s.ID, span{2, 2}), []byte("of another history"), nil); err != nil {
		t.Fatal(err)
	}
	write(t, l, s.ID, "/b", "text")
	l.settled()
	refused(t, l, s, "object stores/")
	if _, err := l.Next(ctx, s.ID, 2); !errors.Is(err, versionlog.ErrRewritten) {
		t.Errorf("Next: %v, want ErrRewritten", err)
	}
	if !strings.Contains(heard.String(), "level=ERROR") || strings.Count(heard.String(), "\n") != 1 {
		t.Errorf("it is logged as\n%s", &heard)
	}
	// The debts stay, since the next process finds them too.
	next := b.open(t, nil, nil)
	if err := next.store(s.ID).load(context.WithoutCancel(ctx)); err != nil {
		t.Fatal(err)
	}
	next.settled()
	refused(t, next, s, "object stores/")
}
