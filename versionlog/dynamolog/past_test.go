package dynamolog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"testing"
	"time"

	"mneme/internal/testing/awstest"
	"mneme/versionlog"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/google/go-cmp/cmp"
)

// past is a store with a history of 22 commits, and snapshots of every fifth of them.
type past struct {
	*backend
	store versionlog.Store
	want  map[uint64][]versionlog.Version // the heads after each commit
}

const pastDistance = 5

func newPast(t *testing.T) *past {
	p := &past{backend: newBackend(t, awstest.DynamoDB(t)), want: map[uint64][]versionlog.Version{}}
	l := p.open(t, nil, nil)
	l.distance = pastDistance
	p.store = addStore(t, l, "notes")
	changes := []versionlog.Change{
		putChange("/a", "1", versionlog.ExpectAny()),
		putChange("/d/b", "1", versionlog.ExpectAny()),
		putChange("/d/c", "1", versionlog.ExpectAny()),
		putChange("/a", "2", versionlog.ExpectAny()),
		{Action: versionlog.Rename, Path: "/d/c", To: "/e", Expect: versionlog.ExpectAny()},
		{Action: versionlog.Remove, Path: "/d/b", Expect: versionlog.ExpectAny()},
		putChange("/d/c", "3", versionlog.ExpectAny()),
		{Action: versionlog.Remove, Path: "/e", Expect: versionlog.ExpectAny()},
	}
	for i := range 22 {
		change := changes[i%len(changes)]
		if change.Action == versionlog.Put { // which otherwise changes nothing
			change = putChange(change.Path, fmt.Sprint(i), versionlog.ExpectAny())
		}
		if _, err := l.Commit(t.Context(), p.store.ID, proposal(change)); err != nil {
			t.Fatal(err)
		}
	}
	for seq := range uint64(23) {
		state, err := versionlog.Replay(seq, l.Commits(t.Context(), p.store.ID, 0))
		if err != nil {
			t.Fatal(err)
		}
		p.want[seq] = headsIn(t, state)
	}
	l.settled()
	return p
}

func headsIn(t testing.TB, state versionlog.State) (heads []versionlog.Version) {
	t.Helper()
	for v, err := range state.Heads(t.Context(), "/", "") {
		if err != nil {
			t.Fatal(err)
		}
		heads = append(heads, v)
	}
	return heads
}

// objects returns the names of the snapshots' objects, behind that of the store.
func (p *past) objects(t testing.TB) (names []string) {
	t.Helper()
	for name, err := range (records{p.clients(t, nil).S3, p.bucket}).list(t.Context(), storePrefix(p.store.ID)+"snap/") {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	return names
}

func (p *past) points(t testing.TB) (seqs []string) {
	t.Helper()
	for _, name := range p.objects(t) {
		if _, seq, ok := strings.Cut(name, "/snap/at/"); ok {
			seqs = append(seqs, seq)
		}
	}
	return seqs
}

// check holds every point of the past against what it was.
func (p *past) check(t testing.TB, l *Log) {
	t.Helper()
	for seq, want := range p.want {
		state, err := l.At(t.Context(), p.store.ID, seq)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, headsIn(t, state)); diff != "" {
			t.Errorf("commit %d (-want +got):\n%s", seq, diff)
		}
	}
	if _, err := l.At(t.Context(), p.store.ID, 23); !errors.Is(err, versionlog.ErrNotFound) {
		t.Errorf("of a commit to come: %v", err)
	}
}

// TestPastFromBucket reads the past from snapshots that are whole, damaged or gone.
func TestPastFromBucket(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	points := []string{"00000000000000000005", "00000000000000000010", "00000000000000000015", "00000000000000000020"}
	if diff := cmp.Diff(points, p.points(t)); diff != "" {
		t.Fatalf("snapshots (-want +got):\n%s", diff)
	}
	open := func(t *testing.T, logged *bytes.Buffer) *Log {
		l := p.open(t, nil, &Options{ReadOnly: true, Logger: slog.New(slog.NewTextHandler(logged, nil))})
		l.distance = pastDistance
		return l
	}
	client := p.clients(t, nil).S3
	allPoints := []string{"snapshot 5", "snapshot 10", "snapshot 15", "snapshot 20"}
	for _, test := range []struct {
		name   string
		change func(name string, data []byte) []byte // of an object: nil removes it
		warns  string
		found  []string // by Check
	}{
		{"whole", func(_ string, data []byte) []byte { return data }, "", nil},
		{"no pages", func(name string, data []byte) []byte {
			if strings.Contains(name, "/pages/") {
				return nil
			}
			return data
		}, "damaged", allPoints},
		{"damaged pages", func(name string, data []byte) []byte {
			if strings.Contains(name, "/pages/") {
				data[len(data)/2] ^= 1
			}
			return data
		}, "damaged", allPoints},
		{"damaged points", func(name string, data []byte) []byte {
			if strings.Contains(name, "/at/") {
				data[len(data)/2] ^= 1
			}
			return data
		}, "of no use", allPoints},
		{"endless points", func(name string, data []byte) []byte {
			if strings.Contains(name, "/at/") {
				return bytes.Repeat(data, 3)
			}
			return data
		}, "of no use", allPoints},
		{"nothing", func(string, []byte) []byte { return nil }, "", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, name := range p.objects(t) {
				before, err := (records{client, p.bucket}).get(t.Context(), name)
				if err != nil {
					t.Fatal(err)
				}
				put := func(data []byte) {
					if err := (records{client, p.bucket}).upload(context.Background(), name, data, nil); err != nil {
						t.Fatal(err)
					}
				}
				if data := test.change(name, bytes.Clone(before)); data != nil {
					put(data)
				} else if _, err := client.DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: &p.bucket, Key: &name}); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { put(before) })
			}
			var logged bytes.Buffer
			p.check(t, open(t, &logged))
			if got := logged.String(); test.warns == "" && got != "" || !strings.Contains(got, test.warns) {
				t.Errorf("logged %q, want something %q", got, test.warns)
			}
			if diff := cmp.Diff(test.found, p.found(t)); diff != "" {
				t.Errorf("Check reports (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("swapped", func(t *testing.T) { // each is whole
		b := shared{records{client, p.bucket}, p.store.ID}
		ten, err := b.get(t.Context(), b.pointKey(10))
		if err != nil {
			t.Fatal(err)
		}
		if err := b.upload(t.Context(), b.pointKey(15), ten, nil); err != nil {
			t.Fatal(err)
		}
		var logged bytes.Buffer
		p.check(t, open(t, &logged))
		if !strings.Contains(logged.String(), "of no use") {
			t.Errorf("logged %q", logged.String())
		}
		if diff := cmp.Diff([]string{"snapshot 15"}, p.found(t)); diff != "" {
			t.Errorf("Check reports (-want +got):\n%s", diff)
		}
		clients := p.clients(t, nil)
		if err := Rebuild(t.Context(), clients.DynamoDB, p.table, clients.S3, p.bucket, p.store.ID, func(int, int) {}); err != nil {
			t.Fatal(err)
		}
		if found, left := p.found(t), p.objects(t); found != nil || left != nil {
			t.Errorf("a rebuild leaves %q, Check reports %q", left, found)
		}
	})
}

// found returns the subjects of the findings of Check.
func (p *past) found(t testing.TB) (subjects []string) {
	t.Helper()
	clients := p.clients(t, nil)
	if err := Check(t.Context(), clients.DynamoDB, p.table, clients.S3, p.bucket, p.store.ID, func(found Problem) {
		subjects = append(subjects, found.Subject)
	}); err != nil {
		t.Fatal(err)
	}
	return subjects
}

// TestPaged reads on in the history where pages end in an error.
func TestPaged(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	l := p.open(t, nil, nil)
	want := p.want[8] // some heads
	m, err := l.table.meta(t.Context(), p.store.ID)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := l.replay(t.Context(), m, 8)
	if err != nil {
		t.Fatal(err)
	}
	for broken := range len(want) + 1 {
		state := paged{log: l, meta: m, seq: 8, pages: func(ctx context.Context, path string) iter.Seq2[versionlog.Version, error] {
			return func(yield func(versionlog.Version, error) bool) {
				n := 0
				for v := range whole(ctx, path) {
					if n++; n > broken {
						yield(versionlog.Version{}, versionlog.ErrCorrupt)
						return
					}
					if !yield(v, nil) {
						return
					}
				}
			}
		}}
		if diff := cmp.Diff(want, headsIn(t, versionlog.Sorted(state.from))); diff != "" {
			t.Errorf("broken after %d (-want +got):\n%s", broken, diff)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	state := paged{log: l, meta: m, seq: 8, pages: whole}
	for _, err := range versionlog.Sorted(state.from).Heads(ctx, "/", "") {
		if !errors.Is(err, context.Canceled) || state.replayed != nil {
			t.Errorf("of a caller who has left: %v", err)
		}
	}
}

// TestPastIsRead counts what it takes to look at a late commit, and at one by its time.
func TestPastIsRead(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	transport := newTransport()
	l := p.open(t, transport, &Options{ReadOnly: true})
	l.distance = pastDistance
	transport.Reset()
	state, err := l.At(t.Context(), p.store.ID, 18)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(p.want[18], headsIn(t, state)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]int{
		"dynamodb GetItem": 1, "dynamodb Query": 1, // the tip, and commits 15 to 18
		"s3 LIST other": 1, "s3 GET other": 2, // the manifest, and its one page of heads
	}, transport.Calls()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	tip, err := l.Tip(t.Context(), p.store.ID)
	if err != nil {
		t.Fatal(err)
	}
	transport.Reset()
	if seq, err := l.SeqAt(t.Context(), p.store.ID, tip.Time.Add(-time.Microsecond)); err != nil || seq >= tip.Seq || seq == 0 {
		t.Errorf("by time: %d, %v", seq, err)
	}
	if n := transport.Calls()["dynamodb Query"]; n > 5 {
		t.Errorf("%d queries to find one of 22 commits by its time", n)
	}
}

// TestFoldersMeet has several processes make the snapshots of a history that has none yet,
// as one that an older mneme made: all make the same.
func TestFoldersMeet(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	made := p.objects(t)
	client := p.clients(t, nil).S3
	for _, name := range made {
		if _, err := client.DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: &p.bucket, Key: &name}); err != nil {
			t.Fatal(err)
		}
	}
	var logs []*Log
	for range 4 {
		l := p.open(t, nil, nil)
		l.distance = pastDistance
		l.store(p.store.ID).foldLater(span{20, 20})
		logs = append(logs, l)
	}
	for _, l := range logs { // one goes on while the others leave it to it
		l.settled()
	}
	if diff := cmp.Diff(made, p.objects(t)); diff != "" {
		t.Errorf("objects (-first +again):\n%s", diff)
	}
	p.check(t, logs[0])
}

// TestFoldPastDamage: a snapshot that is damaged, and an object that is none, do not end the
// snapshots behind them.
func TestFoldPastDamage(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	b := shared{records{p.clients(t, nil).S3, p.bucket}, p.store.ID}
	for _, seq := range []uint64{17, 20} {
		if err := b.upload(t.Context(), b.pointKey(seq), []byte("garbage"), nil); err != nil {
			t.Fatal(err)
		}
	}
	l := p.open(t, nil, nil)
	l.distance = pastDistance
	for i := range 8 {
		write(t, l, p.store.ID, "/more", fmt.Sprint(i))
	}
	l.settled()
	closeOnce(t, l)
	want := []string{"00000000000000000005", "00000000000000000010", "00000000000000000015", "00000000000000000017",
		"00000000000000000020", "00000000000000000025", "00000000000000000030"}
	if diff := cmp.Diff(want, p.points(t)); diff != "" {
		t.Errorf("snapshots (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"snapshot 17", "snapshot 20"}, p.found(t)); diff != "" {
		t.Errorf("Check reports (-want +got):\n%s", diff)
	}
	var logged bytes.Buffer
	l = p.open(t, nil, &Options{ReadOnly: true, Logger: slog.New(slog.NewTextHandler(&logged, nil))})
	l.distance = pastDistance
	state, err := l.At(t.Context(), p.store.ID, 22)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(p.want[22], headsIn(t, state)); diff != "" {
		t.Errorf("the past (-want +got):\n%s", diff)
	}
	if !strings.Contains(logged.String(), "of no use") || strings.Contains(logged.String(), "reading the history") {
		t.Errorf("logged %q", logged.String())
	}
	for _, name := range p.objects(t) {
		if strings.Contains(name, "/pages/") {
			if err := b.upload(t.Context(), name, []byte("garbage"), nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	l = p.open(t, nil, nil)
	l.distance = pastDistance
	for i := range 5 {
		write(t, l, p.store.ID, "/yet more", fmt.Sprint(i))
	}
	l.settled()
	if points := p.points(t); points[len(points)-1] != "00000000000000000035" {
		t.Errorf("behind damaged pages there are the snapshots %q", points)
	}
}
