package dynamolog

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"net/http"
	"strings"
	"testing"

	"mneme/internal/testing/awstest"
	"mneme/internal/testing/fault"
	"mneme/versionlog"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"
)

// everything returns all rows of the table, and all objects of a store but for
// its blobs.
func (b *backend) everything(t testing.TB, s versionlog.Store) map[string]string {
	t.Helper()
	all := b.dump(t, s)
	clients := b.clients(t, nil)
	r := records{s3: clients.S3, bucket: b.bucket}
	for name, err := range r.list(t.Context(), storePrefix(s.ID)) {
		if err != nil {
			t.Fatal(err)
		}
		data, err := r.get(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		all[name] = string(data)
	}
	return all
}

// partition returns the rows of a store, as a backup of the table has them.
func partition(t testing.TB, tab table, storeID string) (rows []types.WriteRequest) {
	t.Helper()
	for i, err := range tab.rows(t.Context(), between{partition: storeID, from: "\x00", to: "\U0010ffff"}) {
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, putRequest(i))
	}
	return rows
}

// restored is a backend whose table was restored to a time at which the store
// had three of five commits.
func restored(t *testing.T) (b *backend, tab table, s versionlog.Store, whole map[string]string) {
	t.Helper()
	b = newBackend(t, awstest.DynamoDB(t))
	tab = table{db: b.clients(t, nil).DynamoDB, name: b.table}
	l := b.open(t, nil, nil)
	s = addStore(t, l, "notes")
	for _, path := range []string{"/a", "/b", "/c"} {
		write(t, l, s.ID, path, "text")
	}
	closeOnce(t, l)
	then := partition(t, tab, s.ID)
	l = b.open(t, nil, nil)
	write(t, l, s.ID, "/a", "newer")
	write(t, l, s.ID, "/d", "text")
	closeOnce(t, l)
	whole = b.everything(t, s)
	var gone []types.WriteRequest
	for _, r := range partition(t, tab, s.ID) {
		gone = append(gone, deleteRequest(s.ID, sortOf(r.PutRequest.Item)))
	}
	if err := errors.Join(tab.write(t.Context(), gone), tab.write(t.Context(), then)); err != nil {
		t.Fatal(err)
	}
	return b, tab, s, whole
}

// TestTableFromBefore holds that a table which was restored to an earlier time is
// found, and brought up to the records in the bucket.
func TestTableFromBefore(t *testing.T) {
	t.Parallel()
	b, _, s, whole := restored(t)
	if found := b.check(t, s.ID); len(found) != 1 || found[0] != "record 5 is in the bucket, but META ends with commit 3" {
		t.Errorf("Check reports %q", found)
	}
	if err := b.rebuild(t, ""); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(whole, b.everything(t, s)); diff != "" {
		t.Errorf("want -, got +:\n%s", diff)
	}
}

// TestRebuildNamesUndescribed: where table and description of a store are both lost, a rebuild
// of all stores makes the others again, and names that one.
func TestRebuildNamesUndescribed(t *testing.T) {
	t.Parallel()
	b := newBackend(t, awstest.DynamoDB(t))
	l := b.open(t, nil, nil)
	lost, other := addStore(t, l, "lost"), addStore(t, l, "other")
	for _, s := range []versionlog.Store{lost, other} {
		write(t, l, s.ID, "/a", "text")
	}
	closeOnce(t, l)
	tab, r := table{db: b.clients(t, nil).DynamoDB, name: b.table}, records{s3: b.clients(t, nil).S3, bucket: b.bucket}
	var gone []types.WriteRequest
	for _, rows := range []string{lost.ID, other.ID, storesPartition} {
		for _, row := range partition(t, tab, rows) {
			gone = append(gone, deleteRequest(rows, sortOf(row.PutRequest.Item)))
		}
	}
	if err := errors.Join(tab.write(t.Context(), gone), r.remove(t.Context(), descriptionKey(lost.ID))); err != nil {
		t.Fatal(err)
	}
	err := b.rebuild(t, "")
	if !errors.Is(err, versionlog.ErrNotFound) || !strings.Contains(err.Error(), lost.ID) || strings.Contains(err.Error(), other.ID) {
		t.Errorf("rebuild = %v, want one that names %s only", err, lost.ID)
	}
	l = b.open(t, nil, nil)
	defer closeOnce(t, l)
	if s, err := l.StoreNamed(t.Context(), "other"); err != nil || s.ID != other.ID {
		t.Errorf("the other store is %s, %v", s.ID, err)
	}
}

// TestRebuildRefuses holds that two histories are never made one: Rebuild tells
// them apart by digests, not by numbers, and changes nothing.
func TestRebuildRefuses(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		spoil func(t *testing.T, b *backend, tab table, s versionlog.Store)
		want  string
	}{
		// The table was restored, and a mount went on with it.
		"other commits in the table": {func(t *testing.T, b *backend, _ table, s versionlog.Store) {
			l := unaware(t, b.open(t, nil, nil), s)
			write(t, l, s.ID, "/e", "text")
			closeOnce(t, l)
		}, "bucket and table have different histories from commit 4 on: the bucket has "},
		"a row that does not follow": {func(t *testing.T, b *backend, tab table, s versionlog.Store) {
			foreign := newBackend(t, awstest.DynamoDB(t))
			l := foreign.open(t, nil, nil)
			if err := l.CreateStore(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			for _, content := range []string{"1", "2", "3", "4", "5", "6"} {
				write(t, l, s.ID, "/z", content)
			}
			closeOnce(t, l)
			i, err := l.table.get(t.Context(), s.ID, logSort(6), false)
			if err == nil {
				err = tab.write(t.Context(), []types.WriteRequest{putRequest(i)})
			}
			if err != nil {
				t.Fatal(err)
			}
		}, "commit 6, "},
		"a META of something else": {func(t *testing.T, _ *backend, tab table, s versionlog.Store) {
			m, err := tab.meta(t.Context(), s.ID)
			if err == nil {
				m.tip.Digest[0] ^= 1
				err = tab.write(t.Context(), []types.WriteRequest{putRequest(m.item())})
			}
			if err != nil {
				t.Fatal(err)
			}
		}, "as commit 3, whose record is "},
		"a META beyond all records": {func(t *testing.T, _ *backend, tab table, s versionlog.Store) {
			m, err := tab.meta(t.Context(), s.ID)
			if err == nil {
				m.tip.Seq = 9
				err = tab.write(t.Context(), []types.WriteRequest{putRequest(m.item())})
			}
			if err != nil {
				t.Fatal(err)
			}
		}, "the record of commit 6 is neither in the bucket nor in the table, and the history goes to 9"},
		"an object that is no record": {func(t *testing.T, b *backend, _ table, s versionlog.Store) {
			r := records{s3: b.clients(t, nil).S3, bucket: b.bucket}
			if err := r.replace(t.Context(), recordKey(s.ID, span{99, 99}), []byte("junk")); err != nil {
				t.Fatal(err)
			}
		}, "restore the object, or remove it if it never was a record"},
		"a gap": {func(t *testing.T, b *backend, _ table, s versionlog.Store) {
			r := records{s3: b.clients(t, nil).S3, bucket: b.bucket}
			if err := r.remove(t.Context(), recordKey(s.ID, span{4, 4})); err != nil {
				t.Fatal(err)
			}
		}, "the record of commit 4 is neither in the bucket nor in the table, and the history goes to 5"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, tab, s, _ := restored(t)
			test.spoil(t, b, tab, s)
			before := b.everything(t, s)
			err := b.rebuild(t, "notes")
			if !errors.Is(err, versionlog.ErrCorrupt) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want ErrCorrupt with %q", err, test.want)
			}
			if diff := cmp.Diff(before, b.everything(t, s)); diff != "" {
				t.Errorf("it has changed (want -, got +):\n%s", diff)
			}
		})
	}
}

// TestRebuildHidesLast holds that a store is hidden only while what changes with
// commits is settled, and is there again when that fails, or the caller gives up.
func TestRebuildHidesLast(t *testing.T) {
	t.Parallel()
	for _, giveUp := range []bool{false, true} {
		b, tab, s, _ := restored(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		transport, hidden := newTransport(), false
		transport.Arm(fault.Fault{Action: func(req *http.Request, body []byte, send func() (*http.Response, error)) (*http.Response, error) {
			switch {
			case bytes.Contains(body, []byte(`{"Delete":`)):
				hidden = true
			case !hidden:
			case req.Header.Get("X-Amz-Target") == "", bytes.Contains(body, []byte(logPrefix)), bytes.Contains(body, []byte(memPrefix)):
				t.Errorf("while the store is hidden: %s %s %.200s", req.Method, req.URL, body)
			case strings.HasSuffix(req.Header.Get("X-Amz-Target"), ".BatchWriteItem"):
				if giveUp {
					cancel()
				}
				return fault.Answer(http.StatusBadRequest, "ValidationException")(req, body, send)
			}
			return send()
		}})
		clients := b.clients(t, transport)
		err := Rebuild(ctx, clients.DynamoDB, b.table, clients.S3, b.bucket, "notes", nil)
		if err == nil || !hidden {
			t.Errorf("error %v, hidden %v", err, hidden)
		}
		if m, err := tab.meta(t.Context(), s.ID); err != nil || m.tip.Seq != 3 {
			t.Errorf("afterwards: %+v, %v", m, err)
		}
		if err := b.rebuild(t, "notes"); err != nil {
			t.Error(err)
		}
		if found := b.check(t, s.ID); len(found) > 0 {
			t.Errorf("rebuilt at last: %q", found)
		}
	}
}

// TestRebuildDescribes holds that a rebuild of all stores keeps one whose
// store.json is lost or damaged.
func TestRebuildDescribes(t *testing.T) {
	t.Parallel()
	b, _, s, whole := restored(t)
	r := records{s3: b.clients(t, nil).S3, bucket: b.bucket}
	for _, spoil := range []func() error{
		func() error { return r.remove(t.Context(), descriptionKey(s.ID)) },
		func() error { return r.replace(t.Context(), descriptionKey(s.ID), []byte("{")) },
	} {
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		if err := b.rebuild(t, ""); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(whole, b.everything(t, s)); diff != "" {
			t.Errorf("want -, got +:\n%s", diff)
		}
	}
	b.empty(t, s)
	if err := r.remove(t.Context(), descriptionKey(s.ID)); err != nil {
		t.Fatal(err)
	}
	before := b.everything(t, s)
	for name, want := range map[string]string{s.ID: "has records of store " + s.ID + " and no " + descriptionKey(s.ID), "other": "has no store other"} {
		if err := b.rebuild(t, name); !errors.Is(err, versionlog.ErrNotFound) || !strings.Contains(err.Error(), want) {
			t.Errorf("described nowhere: error %v, want %q", err, want)
		}
	}
	after := b.everything(t, s)
	maps.DeleteFunc(after, func(name, _ string) bool { return strings.HasPrefix(name, formatPartition) }) // set up again
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("described nowhere: want -, got +:\n%s", diff)
	}
}

// TestRebuildWhileWriting holds that a store to which commits are made while its
// index is rebuilt stays as it is, whenever they come.
func TestRebuildWhileWriting(t *testing.T) {
	t.Parallel()
	for site, from := range map[string]int{"dynamodb BatchGetItem": 2, "s3 LIST *": 2, "dynamodb Query": 2} {
		t.Run(site, func(t *testing.T) {
			t.Parallel()
			b, tab, s, _ := restored(t)
			if err := b.rebuild(t, "notes"); err != nil {
				t.Fatal(err)
			}
			writer, transport := b.open(t, nil, nil), newTransport()
			commit := func(req *http.Request, _ []byte, send func() (*http.Response, error)) (*http.Response, error) {
				resp, err := send()
				_, commitErr := writer.Commit(context.Background(), s.ID, proposal(putChange("/late", "text", versionlog.ExpectAny())))
				return resp, errors.Join(err, commitErr)
			}
			armed := transport.Arm(fault.Fault{Site: site, From: from, Times: 1, Action: commit})
			clients := b.clients(t, transport)
			err := Rebuild(t.Context(), clients.DynamoDB, b.table, clients.S3, b.bucket, "notes", nil)
			if !errors.Is(err, errBusy) || armed.Hits() != 1 {
				t.Errorf("error %v, %d hits, want errBusy", err, armed.Hits())
			}
			if m, err := tab.meta(t.Context(), s.ID); err != nil || m.tip.Seq != 6 {
				t.Errorf("afterwards: %+v, %v", m, err)
			}
			closeOnce(t, writer)
			if found := b.check(t, s.ID); len(found) > 0 {
				t.Errorf("afterwards: %q", found)
			}
			if err := b.rebuild(t, "notes"); err != nil {
				t.Error(err)
			}
		})
	}
}
