package dynamolog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"mneme/finding"
	"mneme/internal/testing/awstest"
	"mneme/versionlog"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/google/go-cmp/cmp"
)

// check returns what Check reports of a store.
func (b *backend) check(t testing.TB, storeID string) []string {
	t.Helper()
	clients := b.clients(t, nil)
	var found []string
	err := Check(t.Context(), clients.DynamoDB, b.table, clients.S3, b.bucket, storeID, func(p Problem) {
		found = append(found, p.Subject+" "+p.What)
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// kinds returns the kinds of the findings of Check about a store.
func (b *backend) kinds(t testing.TB, storeID string) (found []finding.Kind) {
	t.Helper()
	clients := b.clients(t, nil)
	err := Check(t.Context(), clients.DynamoDB, b.table, clients.S3, b.bucket, storeID, func(p Problem) {
		found = append(found, p.Finding)
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// dump returns all rows of the table.
func (b *backend) dump(t testing.TB, stores ...versionlog.Store) map[string]string {
	t.Helper()
	tab := table{db: b.clients(t, nil).DynamoDB, name: b.table}
	partitions := []string{formatPartition, storesPartition}
	for _, s := range stores {
		partitions = append(partitions, s.ID, slugPrefix+s.Slug)
	}
	rows := map[string]string{}
	for _, p := range partitions {
		for i, err := range tab.rows(t.Context(), between{partition: p, from: "\x00", to: "\U0010ffff"}) {
			if err != nil {
				t.Fatal(err)
			}
			names := slices.Sorted(maps.Keys(i))
			var text strings.Builder
			for _, n := range names {
				switch a := i[n].(type) {
				case *types.AttributeValueMemberS:
					fmt.Fprintf(&text, "%s=%q ", n, a.Value)
				case *types.AttributeValueMemberN:
					fmt.Fprintf(&text, "%s=%s ", n, a.Value)
				case *types.AttributeValueMemberB:
					fmt.Fprintf(&text, "%s=%q ", n, a.Value)
				}
			}
			rows[p+" "+sortOf(i)] = text.String()
		}
	}
	return rows
}

// history makes a store with a history that has everything.
func history(t testing.TB, l *Log, slug string) versionlog.Store {
	t.Helper()
	s := versionlog.Store{
		ID: versionlog.NewStoreID(), Slug: slug, Name: "Näme", Description: "for <tests> & more",
		Limits:    versionlog.Limits{MaxMemoryBytes: 102_400, Content: versionlog.ContentText},
		CreatedAt: time.Date(2026, 2, 1, 0, 0, 0, 123_000, time.UTC),
	}
	if err := l.CreateStore(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if err := happen(t.Context(), l, s.ID, versionlog.StoreCreated(s)); err != nil {
		t.Fatal(err)
	}
	commit := func(changes ...versionlog.Change) *versionlog.Commit {
		t.Helper()
		c, err := l.Commit(t.Context(), s.ID, proposal(changes...))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	expect := versionlog.ExpectAny()
	first := commit(putChange("/a", "1", expect))
	commit(putChange("/d/b", "1", expect), putChange("/d/c", "2", expect))
	commit(putChange("/a", "2", expect))
	commit(versionlog.Change{Action: versionlog.Rename, Path: "/a", To: "/d/a", Expect: expect})
	commit(versionlog.Change{Action: versionlog.Remove, Path: "/d/a", Expect: expect}, putChange("/a/x", "1", expect))
	revive := putChange("/back", "3", expect)
	revive.MemoryID = first.Versions[0].MemoryID
	commit(revive)
	commit(versionlog.Change{Action: versionlog.Rename, Path: "/d/b", To: "/d/b/b", Expect: expect})
	if err := happen(t.Context(), l, s.ID, versionlog.StoreArchived()); err != nil {
		t.Fatal(err)
	}
	commit(versionlog.Change{Action: versionlog.Remove, Path: "/d/c", Expect: expect})
	return s
}

// empty removes every row of the table.
func (b *backend) empty(t testing.TB, stores ...versionlog.Store) {
	t.Helper()
	tab := table{db: b.clients(t, nil).DynamoDB, name: b.table}
	var gone []types.WriteRequest
	for name := range b.dump(t, stores...) {
		partition, sort, _ := strings.Cut(name, " ")
		gone = append(gone, deleteRequest(partition, sort))
	}
	if err := tab.write(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
}

func (b *backend) rebuild(t testing.TB, store string) error {
	t.Helper()
	clients := b.clients(t, nil)
	return Rebuild(t.Context(), clients.DynamoDB, b.table, clients.S3, b.bucket, store, nil)
}

// TestRebuild empties the table, and makes it again from the bucket.
func TestRebuild(t *testing.T) {
	t.Parallel()
	b := newBackend(t, awstest.DynamoDB(t))
	l := b.open(t, nil, nil)
	first, second := history(t, l, "first"), history(t, l, "second")
	closeOnce(t, l) // which pays what the outboxes owe
	for _, s := range []versionlog.Store{first, second} {
		if found := b.check(t, s.ID); found != nil {
			t.Errorf("Check reports %q", found)
		}
	}
	want := b.dump(t, first, second)

	b.empty(t, first, second)
	if rows := b.dump(t, first, second); len(rows) != 0 {
		t.Fatalf("the table still has %d rows", len(rows))
	}
	if err := b.rebuild(t, "third"); !errors.Is(err, versionlog.ErrNotFound) {
		t.Errorf("the error is %v, want ErrNotFound", err)
	}
	for _, name := range []string{"first", second.ID} {
		if err := b.rebuild(t, name); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(want, b.dump(t, first, second)); diff != "" {
		t.Errorf("want -, got +:\n%s", diff)
	}
	if err := b.rebuild(t, ""); err != nil { // over what is there
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, b.dump(t, first, second)); diff != "" {
		t.Errorf("want -, got +:\n%s", diff)
	}
}

// TestCheckFinds damages a store in every way that Check knows, and has Rebuild
// mend it.
func TestCheckFinds(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	produced := map[finding.Kind]bool{}
	for name, test := range map[string]struct {
		spoil func(t *testing.T, b *backend, tab table, storeID string) error
		kind  finding.Kind
		want  string
		keeps bool // Rebuild cannot mend it
	}{
		"record lost": {func(t *testing.T, b *backend, _ table, id string) error {
			name := recordKey(id, span{3, 3})
			_, err := b.clients(t, nil).S3.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &b.bucket, Key: &name})
			return err
		}, finding.BucketMissing, "record 3 is missing in the bucket", false},
		"record owed": {func(t *testing.T, b *backend, tab table, id string) error {
			name := recordKey(id, span{3, 3})
			_, err := b.clients(t, nil).S3.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &b.bucket, Key: &name})
			return errors.Join(err, tab.write(ctx, []types.WriteRequest{putRequest(key(id, outSort(span{3, 3})))}))
		}, finding.BucketLate, "record 3 is not in the bucket yet", false},
		"paid, not told": {func(_ *testing.T, _ *backend, tab table, id string) error {
			return tab.write(ctx, []types.WriteRequest{putRequest(key(id, outSort(span{3, 3})))})
		}, finding.BucketPaid, "record 3 is in the bucket, but", false},
		"record changed": {func(t *testing.T, b *backend, _ table, id string) error {
			name := recordKey(id, span{3, 3})
			_, err := b.clients(t, nil).S3.PutObject(ctx, &s3.PutObjectInput{Bucket: &b.bucket, Key: &name, Body: strings.NewReader("{}")})
			return err
		}, finding.BucketDamaged, "the records in the bucket object", false},
		"record changed in both": {func(t *testing.T, b *backend, tab table, id string) error {
			name := recordKey(id, span{3, 3})
			_, err := b.clients(t, nil).S3.PutObject(ctx, &s3.PutObjectInput{Bucket: &b.bucket, Key: &name, Body: strings.NewReader("{}")})
			return errors.Join(err, tab.write(ctx, []types.WriteRequest{putRequest(logItem(id, 3, []byte("{}")))}))
		}, finding.BucketDamaged, "the records in the bucket object", true},
		"log row changed": {func(_ *testing.T, _ *backend, tab table, id string) error {
			return tab.write(ctx, []types.WriteRequest{putRequest(logItem(id, 3, []byte("{}")))})
		}, finding.TableOther, "row " + logSort(3) + " is not what follows", false},
		"description of another store": {func(t *testing.T, b *backend, _ table, id string) error {
			data, err := (&meta{Store: versionlog.Store{ID: id, Slug: "notes"}, creation: "another"}).describe()
			name := descriptionKey(id)
			_, putErr := b.clients(t, nil).S3.PutObject(ctx, &s3.PutObjectInput{Bucket: &b.bucket, Key: &name, Body: bytes.NewReader(data)})
			return errors.Join(err, putErr)
		}, finding.BucketDescription, "store.json does not describe", true},
		"description lost": {func(t *testing.T, b *backend, _ table, id string) error {
			name := descriptionKey(id)
			_, err := b.clients(t, nil).S3.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &b.bucket, Key: &name})
			return err
		}, finding.BucketDescription, "store.json is missing", false},
		"head lost": {func(_ *testing.T, _ *backend, tab table, id string) error {
			return tab.write(ctx, []types.WriteRequest{deleteRequest(id, "/back")})
		}, finding.TableMissing, "row /back is missing", false},
		"head changed": {func(_ *testing.T, _ *backend, tab table, id string) error {
			i, err := tab.get(ctx, id, "/back", false)
			i["size"] = number(77)
			return errors.Join(err, tab.write(ctx, []types.WriteRequest{putRequest(i)}))
		}, finding.TableOther, "row /back is not what follows", false},
		"head too many": {func(_ *testing.T, _ *backend, tab table, id string) error {
			i, err := tab.get(ctx, id, "/back", false)
			i["sk"] = text("/front")
			return errors.Join(err, tab.write(ctx, []types.WriteRequest{putRequest(i)}))
		}, finding.TableExtra, "row /front follows from no record", false},
		"log row lost": {func(_ *testing.T, _ *backend, tab table, id string) error {
			return tab.write(ctx, []types.WriteRequest{deleteRequest(id, logSort(2))})
		}, finding.TableMissing, "row " + logSort(2) + " is missing", false},
		"settings changed": {func(t *testing.T, b *backend, tab table, id string) error {
			i, err := tab.get(ctx, id, metaSort, false)
			i["quota_bytes"], i["name"] = number(77), text("other")
			m, metaErr := metaOf(i)
			data, describeErr := m.describe()
			name := descriptionKey(id)
			_, putErr := b.clients(t, nil).S3.PutObject(ctx, &s3.PutObjectInput{Bucket: &b.bucket, Key: &name, Body: bytes.NewReader(data)})
			return errors.Join(err, metaErr, describeErr, putErr, tab.write(ctx, []types.WriteRequest{putRequest(i)}))
		}, finding.TableDescription, "row META is not what follows from the records: name, quota_bytes", false},
		"slug lost": {func(_ *testing.T, _ *backend, tab table, id string) error {
			return tab.write(ctx, []types.WriteRequest{deleteRequest(slugPrefix+"notes", slugSort)})
		}, finding.TableName, "row SLUG#notes STORE does not name", false},
		"record text": {func(t *testing.T, b *backend, tab table, id string) error {
			i, err := tab.get(ctx, id, logSort(3), false)
			r := row{item: i}
			other := bytes.Replace(r.bytes("record"), []byte(`"seq"`), []byte(`"Seq"`), 1)
			name := recordKey(id, span{3, 3})
			_, putErr := b.clients(t, nil).S3.PutObject(ctx, &s3.PutObjectInput{Bucket: &b.bucket, Key: &name, Body: bytes.NewReader(other)})
			return errors.Join(err, putErr)
		}, finding.BucketText, "the records in the bucket " + versionlog.ErrCorrupt.Error() + ": record 3 has more than", false},
		"record beyond": {func(t *testing.T, b *backend, _ table, id string) error {
			name := recordKey(id, span{11, 11})
			_, err := b.clients(t, nil).S3.PutObject(ctx, &s3.PutObjectInput{Bucket: &b.bucket, Key: &name, Body: strings.NewReader("{}")})
			return err
		}, finding.BucketBeyond, "record 11 is in the bucket, but META ends with commit 10", true},
		"newest commit": {func(_ *testing.T, _ *backend, tab table, id string) error {
			i, err := tab.get(ctx, id, metaSort, false)
			i["digest"] = text(strings.Repeat("ab", 32))
			return errors.Join(err, tab.write(ctx, []types.WriteRequest{putRequest(i)}))
		}, finding.TableTip, "row META names another commit", true},
		"totals": {func(_ *testing.T, _ *backend, tab table, id string) error {
			i, err := tab.get(ctx, id, metaSort, false)
			i["total_bytes"] = number(77)
			return errors.Join(err, tab.write(ctx, []types.WriteRequest{putRequest(i)}))
		}, finding.TableTotals, "row META counts", false},
		"version owed": {func(_ *testing.T, b *backend, tab table, id string) error {
			i, err := tab.get(ctx, id, "/back", false)
			r := row{item: i}
			of := span{uint64(r.int("seq")), uint64(r.int("seq"))}
			sort := fmt.Sprintf("%s%s#%020d#%05d", memPrefix, r.text("memory_id"), of.first, 0)
			return errors.Join(err, tab.write(ctx, []types.WriteRequest{putRequest(key(id, outSort(of))), deleteRequest(id, sort)}))
		}, finding.TableLate, "row MEM#", false},
	} {
		produced[test.kind] = true
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBackend(t, awstest.DynamoDB(t))
			l := b.open(t, nil, nil)
			s := history(t, l, "notes")
			closeOnce(t, l)
			want := b.dump(t, s)
			tab := table{db: b.clients(t, nil).DynamoDB, name: b.table}
			if err := test.spoil(t, b, tab, s.ID); err != nil {
				t.Fatal(err)
			}
			found := b.check(t, s.ID)
			if !slices.ContainsFunc(found, func(f string) bool { return strings.HasPrefix(f, test.want) }) || !slices.Contains(b.kinds(t, s.ID), test.kind) {
				t.Fatalf("Check reports %q, want %s, %q", found, test.kind, test.want)
			}
			before := b.everything(t, s)
			err := b.rebuild(t, "notes")
			if test.keeps {
				if !errors.Is(err, versionlog.ErrCorrupt) {
					t.Errorf("Rebuild mended what it could not know: error %v, want ErrCorrupt", err)
				}
				if diff := cmp.Diff(before, b.everything(t, s)); diff != "" {
					t.Errorf("Rebuild refused, but has changed (want -, got +):\n%s", diff)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got := b.dump(t, s)
			maps.DeleteFunc(got, func(name, row string) bool { // which goes a minute later
				return strings.Contains(name, " "+outPrefix) && strings.Contains(row, "paid=")
			})
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("want -, got +:\n%s", diff)
			}
			if found := b.check(t, s.ID); found != nil {
				t.Errorf("after Rebuild, Check reports %q", found)
			}
		})
	}
	produced[finding.BucketSnapshot] = true // by TestPastFromBucket
	produced[finding.BucketErased] = true   // by TestEraseDenied
	for _, info := range finding.All() {
		of := string(info.Kind)
		if (strings.HasPrefix(of, "bucket-") || strings.HasPrefix(of, "table-")) && !produced[info.Kind] {
			t.Errorf("no case produces %s", of)
		}
	}
}
