package dynamolog

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"regexp"
	"strings"
	"testing"

	"mneme/internal/testing/awstest"
	"mneme/versionlog"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/google/go-cmp/cmp"
)

// loadV1 makes a backend from data that mneme wrote when the table's format was 1: the
// store "paid", and "owing", whose three commits are not in the bucket.
func loadV1(t *testing.T) *backend {
	t.Helper()
	b := newBackend(t, awstest.DynamoDB(t))
	data, err := os.ReadFile("testdata/table-v1.json")
	if err != nil {
		t.Fatal(err)
	}
	var saved struct {
		Rows []map[string]struct {
			S, N *string
			B    []byte
		}
		Objects map[string]string
	}
	if err := json.Unmarshal(data, &saved); err != nil {
		t.Fatal(err)
	}
	clients := b.clients(t, nil)
	var rows []types.WriteRequest
	for _, r := range saved.Rows {
		i := item{}
		for name, value := range r {
			switch {
			case value.S != nil:
				i[name] = text(*value.S)
			case value.N != nil:
				i[name] = &types.AttributeValueMemberN{Value: *value.N}
			default:
				i[name] = bytesOf(value.B)
			}
		}
		if sortOf(i) == formatSort {
			i["bucket"] = text(b.bucket)
		}
		rows = append(rows, putRequest(i))
	}
	if err := (table{db: clients.DynamoDB, name: b.table}).write(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
	for name, object := range saved.Objects {
		if _, err := clients.S3.PutObject(t.Context(), &s3.PutObjectInput{Bucket: &b.bucket, Key: &name, Body: strings.NewReader(object)}); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// state is what a log says of a store.
func state(t *testing.T, l *Log, slug string) (s versionlog.Store, heads []versionlog.Version, commits []*versionlog.Commit, history []versionlog.Version) {
	t.Helper()
	s, err := l.StoreNamed(t.Context(), slug)
	if err != nil {
		t.Fatal(err)
	}
	for c, err := range l.Commits(t.Context(), s.ID, 0) {
		if err != nil {
			t.Fatal(err)
		}
		commits = append(commits, c)
	}
	for v, err := range l.Heads(t.Context(), s.ID, "/", "") {
		if err != nil {
			t.Fatal(err)
		}
		heads = append(heads, v)
	}
	for v, err := range l.History(t.Context(), s.ID, commits[0].Versions[0].MemoryID, 0) {
		if err != nil {
			t.Fatal(err)
		}
		history = append(history, v)
	}
	return s, heads, commits, history
}

// TestTableV1 holds that a table of format 1 is read as it is, written only
// after it was brought up to date, and goes on then with all that it had: what
// its commits owe is paid, and their keys are known.
func TestTableV1(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	b := loadV1(t)
	clients := b.clients(t, nil)
	if _, err := Open(ctx, clients.DynamoDB, b.table, clients.S3, b.bucket, nil); !errors.Is(err, ErrOlder) {
		t.Fatalf("opened for writing, the error is %v, want ErrOlder", err)
	}
	reader := b.open(t, nil, &Options{ReadOnly: true})
	paid, heads, commits, history := state(t, reader, "paid")
	if len(heads) != 3 || len(commits) != 8 || len(history) != 5 {
		t.Errorf("store paid has %d heads, %d commits, %d versions of the first memory, want 3, 8, 5", len(heads), len(commits), len(history))
	}
	owing, heads, owed, history := state(t, reader, "owing")
	if len(heads) != 2 || len(owed) != 3 || len(history) != 2 {
		t.Errorf("store owing has %d heads, %d commits, %d versions of the first memory, want 2, 3, 2", len(heads), len(owed), len(history))
	}

	if err := Setup(ctx, clients.DynamoDB, b.table, b.bucket, nil); err != nil {
		t.Fatal(err)
	}
	l := b.open(t, nil, nil)
	l.ownerPays = 0 // the process that owes it has ended
	for _, c := range []*versionlog.Commit{commits[0], owed[0]} {
		p := proposal(putChange("/other", "x", versionlog.ExpectAny()))
		p.Key, p.Fresh = c.Key, false
		if again, err := l.Commit(ctx, c.StoreID, p); err != nil || again.Digest != c.Digest {
			t.Errorf("commit %d, tried again: %+v, %v", c.Seq, again, err)
		}
	}
	write(t, l, owing.ID, "/a", "3")
	if tip, err := l.Tip(ctx, owing.ID); err != nil || tip.Totals.Bytes != 4 || tip.Totals.Memories != 2 {
		t.Errorf("the first commit has left the tip %+v, %v, want it to count all", tip, err)
	}
	closeOnce(t, l)
	for _, s := range []versionlog.Store{paid, owing} {
		if found := b.check(t, s.ID); found != nil {
			t.Errorf("Check of store %s reports %q", s.Slug, found)
		}
	}
	want := b.dump(t, paid, owing)
	if err := b.rebuild(t, ""); err != nil {
		t.Fatal(err)
	}
	got := b.dump(t, paid, owing)
	for id, totals := range map[string]string{paid.ID: "total_bytes=6 total_memories=3 ", owing.ID: "total_bytes=4 total_memories=2 "} {
		if !strings.Contains(got[id+" META"], totals) {
			t.Errorf("rebuilt, META of %s is %s, want totals %s", id, got[id+" META"], totals)
		}
	}
	if diff := cmp.Diff(withoutQuotas(want), withoutQuotas(got)); diff != "" {
		t.Errorf("rebuilt: want -, got +:\n%s", diff)
	}
	old := key(formatPartition, formatSort) // as a mneme that knows less finds this one
	old["format"], old["bucket"] = number(formatErased+1), text(b.bucket)
	if err := (table{db: clients.DynamoDB, name: b.table}).write(ctx, []types.WriteRequest{putRequest(old)}); err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"set up":     Setup(ctx, clients.DynamoDB, b.table, b.bucket, nil),
		"to read":    openError(b, clients.DynamoDB, clients.S3, &Options{ReadOnly: true}),
		"to write":   openError(b, clients.DynamoDB, clients.S3, nil),
		"to rebuild": b.rebuild(t, ""),
	} {
		if !errors.Is(err, versionlog.ErrFormat) || !strings.Contains(err.Error(), "use a newer mneme") {
			t.Errorf("%s a table of a newer mneme: %v", what, err)
		}
	}
}

// TestTableV2: a mneme that knows no events, whose tables have format 2, writes to no
// table that has some; a table of its is read, and brought up to date by setting it up.
func TestTableV2(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	b := newBackend(t, awstest.DynamoDB(t))
	clients := b.clients(t, nil)
	l := b.open(t, nil, nil)
	s := addStore(t, l, "notes")
	write(t, l, s.ID, "/a", "1")
	closeOnce(t, l)
	older := key(formatPartition, formatSort)
	older["format"], older["bucket"] = number(2), text(b.bucket)
	tab := table{db: clients.DynamoDB, name: b.table}
	if err := tab.write(ctx, []types.WriteRequest{putRequest(older)}); err != nil {
		t.Fatal(err)
	}
	if err := openError(b, clients.DynamoDB, clients.S3, nil); !errors.Is(err, ErrOlder) {
		t.Errorf("opened for writing, the error is %v, want ErrOlder", err)
	}
	if _, err := b.open(t, nil, &Options{ReadOnly: true}).Head(ctx, s.ID, "/a"); err != nil {
		t.Error(err)
	}
	if err := Setup(ctx, clients.DynamoDB, b.table, b.bucket, nil); err != nil {
		t.Fatal(err)
	}
	i, err := tab.get(ctx, formatPartition, formatSort, false)
	if err != nil {
		t.Fatal(err)
	}
	if r := (row{item: i}); r.int("format") != 3 {
		t.Errorf("set up, the table has format %d, want 3", r.int("format"))
	}
	l = b.open(t, nil, nil)
	if err := happen(ctx, l, s.ID, versionlog.StoreArchived()); err != nil {
		t.Error(err)
	}
}

// withoutQuotas takes away what META has only since there are quotas, and policies.
func withoutQuotas(rows map[string]string) map[string]string {
	since := regexp.MustCompile(`(quota_\w+|epoch|updated_at|counted_seq|total_\w+|in_hour)=\d+ |policy="" `)
	rows = maps.Clone(rows)
	for sort := range rows {
		rows[sort] = since.ReplaceAllString(rows[sort], "")
	}
	return rows
}

func openError(b *backend, db database, s3 objects, opts *Options) error {
	l, err := Open(context.Background(), db, b.table, s3, b.bucket, opts)
	if err == nil {
		_ = l.Close() // the test fails
	}
	return err
}
