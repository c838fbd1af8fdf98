package snapshot

import (
	"context"
	"fmt"
	"io/fs"
	"iter"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"mneme/cas"
	"mneme/versionlog"
	"mneme/versionlog/memlog"

	"github.com/google/go-cmp/cmp"
)

// objects are a Source and a Sink in memory. Snapshots that share pages share one.
type objects struct {
	mu   sync.Mutex // guards what follows
	data map[string][]byte
	puts int
	gets int
}

func newObjects() *objects { return &objects{data: map[string][]byte{}} }

func (o *objects) Put(_ context.Context, name string, data []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.puts++
	o.data[name] = slices.Clone(data)
	return nil
}

func (o *objects) Get(_ context.Context, name string, _ int) ([]byte, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.gets++
	data, ok := o.data[name]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return data, nil
}

func (o *objects) open(t testing.TB) *Snapshot {
	t.Helper()
	s, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// small are pages of a few lines.
var small = paging{600, 2000}

// history makes a store with a random history and returns its commits: memories come, change,
// go, come back and move, several in one commit.
func history(t testing.TB, seed uint64, commits int) (*memlog.Log, []*versionlog.Commit) {
	t.Helper()
	log, store := memlog.New(nil), versionlog.Store{ID: versionlog.NewStoreID(), Slug: "notes"}
	if err := log.CreateStore(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(seed, 0))
	path := func() string { return fmt.Sprintf("/d%d/f%02d", r.IntN(4), r.IntN(40)) }
	for n := 0; n < commits; {
		p := &versionlog.Proposal{Key: versionlog.NewKey(), Actor: versionlog.Actor{Kind: versionlog.ActorUser, ID: "ann"}, Message: fmt.Sprint("commit ", n)}
		for range 1 + r.IntN(5) {
			c := versionlog.Change{Action: versionlog.Put, Path: path(), Expect: versionlog.ExpectAny(), Digest: versionlog.Digest{1, byte(r.IntN(256))}, Size: int64(r.IntN(9))}
			switch kind := r.IntN(10); {
			case kind < 3:
				c = versionlog.Change{Action: versionlog.Remove, Path: c.Path, Expect: versionlog.ExpectExists()}
			case kind < 5:
				c = versionlog.Change{Action: versionlog.Rename, Path: c.Path, To: path(), Expect: versionlog.ExpectExists()}
			case kind < 6:
				if last, err := log.Last(t.Context(), store.ID, c.Path); err == nil {
					c.MemoryID = last.MemoryID
				}
			}
			p.Changes = append(p.Changes, c)
		}
		if c, err := log.Commit(t.Context(), store.ID, p); err == nil && len(c.Versions) > 0 {
			n++
		}
	}
	return log, collect(t, log.Commits(t.Context(), store.ID, 0))
}

func collect[T any](t testing.TB, of iter.Seq2[T, error]) (all []T) {
	t.Helper()
	for one, err := range of {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, one)
	}
	return all
}

func yielding[T any](all []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, one := range all {
			if !yield(one, nil) {
				return
			}
		}
	}
}

// behind are the commits from that of the newest snapshot on.
func (o *objects) behind(t testing.TB, commits []*versionlog.Commit) iter.Seq2[*versionlog.Commit, error] {
	return yielding(commits[max(o.open(t).Tip.Seq, 1)-1:])
}

// folded returns the objects of a snapshot that is made of all commits up to seq.
func folded(t testing.TB, commits []*versionlog.Commit, seq int) *objects {
	t.Helper()
	o := newObjects()
	if err := Empty(commits[0].StoreID, "").fold(t.Context(), o, uint64(seq), yielding(commits), small); err != nil {
		t.Fatal(err)
	}
	return o
}

// listed are the objects that a snapshot consists of.
func (o *objects) listed(t testing.TB) map[string]string {
	found := map[string]string{manifestName: string(o.data[manifestName])}
	for name := range o.open(t).Pages() {
		found[name] = string(o.data[name])
	}
	return found
}

// TestFold: a snapshot that was folded is the one that would have been made from the beginning,
// byte for byte, and its lists are what the log says.
func TestFold(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			log, commits := history(t, seed, 150)
			for from := 0; from <= len(commits); from += 31 {
				o := folded(t, commits, from)
				for to := from; to <= len(commits); to += 1 + (to+int(seed))%29 {
					if err := o.open(t).fold(t.Context(), o, uint64(to), o.behind(t, commits), small); err != nil {
						t.Fatal(err)
					}
					if diff := cmp.Diff(folded(t, commits, to).listed(t), o.listed(t)); diff != "" {
						t.Fatalf("from %d to %d; made anew -, folded +:\n%s", from, to, diff)
					}
				}
			}
			checkLists(t, log, commits, folded(t, commits, len(commits)).open(t))
		})
	}
}

// checkLists compares a snapshot of all commits with their log.
func checkLists(t *testing.T, log versionlog.Log, commits []*versionlog.Commit, s *Snapshot) {
	t.Helper()
	if err := s.Check(t.Context()); err != nil {
		t.Error(err)
	}
	for name, l := range map[string]*list{"heads": &s.heads, "memories": &s.memories, "keys": &s.keys} {
		if len(l.Pages) < 3 {
			t.Errorf("the %s have %d pages only", name, len(l.Pages))
		}
	}
	want, err := log.Tip(t.Context(), s.StoreID)
	if err != nil || s.Tip != want || s.HistoryAfter != 0 || s.KeysAfter != 0 {
		t.Errorf("the tip is %+v, want %+v, %v", s.Tip, want, err)
	}
	var keys []Key
	memories := map[string][]uint64{"mem_": nil, "mem_zzz": nil}
	for _, c := range commits {
		keys = append(keys, Key{c.Key, c.Seq})
		for _, v := range c.Versions {
			memories[v.MemoryID] = append(memories[v.MemoryID], v.Seq)
		}
	}
	if diff := cmp.Diff(keys, collect(t, s.Keys(t.Context()))); diff != "" {
		t.Errorf("keys: want -, got +:\n%s", diff)
	}
	for id, want := range memories {
		if got, err := s.Versions(t.Context(), id); err != nil || !slices.Equal(got, want) {
			t.Errorf("memory %s: versions are of %v, %v, want %v", id, got, err, want)
		}
	}
}

// chain makes commits of one version each, of memories in turn; they follow one another.
func chain(n, memories int) []*versionlog.Commit {
	commits := make([]*versionlog.Commit, n)
	for i := range commits {
		id := fmt.Sprintf("mem_%05d", i%memories)
		c := &versionlog.Commit{StoreID: "memstore_1", Seq: uint64(i + 1), Key: fmt.Sprint("key ", i), Digest: cas.Sum([]byte(fmt.Sprint(i)))}
		c.Versions = []versionlog.Version{{MemoryID: id, Seq: c.Seq, Op: versionlog.OpModified, Path: "/" + id, Digest: c.Digest}}
		if i > 0 {
			c.Prev = commits[i-1].Digest
		}
		commits[i] = c
	}
	return commits
}

// TestLong has memories with versions in several stretches of the history, and more keys
// than a snapshot keeps.
func TestLong(t *testing.T) {
	const n = keysKept + 3*keysDropped + 5
	commits := chain(n, 3)
	once := folded(t, commits, n)
	often := folded(t, commits, 0)
	for seq := range n + 1 {
		if seq%777 != 0 && seq != n {
			continue
		}
		if err := often.open(t).fold(t.Context(), often, uint64(seq), often.behind(t, commits), small); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(once.listed(t), often.listed(t)); diff != "" {
		t.Errorf("folded once -, often +:\n%s", diff)
	}
	s := often.open(t)
	seqs, err := s.Versions(t.Context(), "mem_00001")
	if err != nil || len(seqs) != n/3 || seqs[0] != 2 || s.memories.Count != 6 {
		t.Errorf("a memory has %d versions in one of %d lines, %v, want %d in one of 6", len(seqs), s.memories.Count, err, n/3)
	}
	keys := collect(t, s.Keys(t.Context()))
	if s.KeysAfter != 3*keysDropped || len(keys) != n-3*keysDropped || keys[0] != (Key{"key 3000", 3001}) {
		t.Errorf("%d keys after %d, the first is %v", len(keys), s.KeysAfter, keys[0])
	}
}

// TestFoldErased: versions whose paths were erased are no heads, but their commits are among
// those of their memories.
func TestFoldErased(t *testing.T) {
	commits := chain(4, 1)
	commits[0].Versions = []versionlog.Version{{MemoryID: "mem_1", Seq: 1, Op: versionlog.OpCreated}, {MemoryID: "mem_2", Seq: 1, Op: versionlog.OpCreated, Path: "/b"}}
	commits[1].Versions = []versionlog.Version{{MemoryID: "mem_1", Seq: 2, Op: versionlog.OpModified, Path: "/a"}}
	commits[2].Versions = []versionlog.Version{{MemoryID: "mem_2", Seq: 3, Op: versionlog.OpRenamed}}
	commits[3].Versions = []versionlog.Version{{MemoryID: "mem_2", Seq: 4, Op: versionlog.OpDeleted}}
	o := folded(t, commits, 2)
	if err := o.open(t).Fold(t.Context(), o, 4, yielding(commits[1:])); err != nil {
		t.Fatal(err)
	}
	s := o.open(t)
	want := []versionlog.Version{commits[1].Versions[0], commits[0].Versions[1]}
	if diff := cmp.Diff(want, collect(t, s.Heads(t.Context()))); diff != "" {
		t.Errorf("heads: want -, got +:\n%s", diff)
	}
	if seqs, err := s.Versions(t.Context(), "mem_2"); err != nil || !slices.Equal(seqs, []uint64{1, 3, 4}) {
		t.Errorf("versions of %v, %v", seqs, err)
	}
}

// TestFoldReuses: a commit of one path changes the last page of keys, one page of heads
// and one of memories, and reads no others.
func TestFoldReuses(t *testing.T) {
	const n = 5000
	commits := chain(n+1, n)
	commits[n].Versions[0] = versionlog.Version{MemoryID: "mem_02500", Seq: n + 1, Op: versionlog.OpModified, Path: "/mem_02500"}
	o := newObjects()
	if err := Empty("memstore_1", "").Fold(t.Context(), o, n, yielding(commits)); err != nil {
		t.Fatal(err)
	}
	s := o.open(t)
	if pages := slices.Collect(s.Pages()); o.puts != len(pages)+1 || len(s.heads.Pages) < 8 || len(s.memories.Pages) < 3 {
		t.Fatalf("%d objects were put for %d pages, of which %d are of heads", o.puts, len(pages), len(s.heads.Pages))
	}
	for _, p := range s.heads.Pages[:len(s.heads.Pages)-1] {
		if p.Raw < defaultPaging.least || p.Raw > defaultPaging.most+maxLine {
			t.Errorf("a page has %d bytes", p.Raw)
		}
	}
	o.puts, o.gets = 0, 0
	if err := s.Fold(t.Context(), o, n+1, yielding(commits[n:])); err != nil {
		t.Fatal(err)
	}
	if o.gets != 3 || o.puts != 4 {
		t.Errorf("%d pages were read and %d objects written, want 3 and 4", o.gets, o.puts)
	}
}

// TestWrite: a snapshot that is made of heads alone has the pages of one made of commits,
// and knows the history from there on.
func TestWrite(t *testing.T) {
	log, commits := history(t, 7, 60)
	at, storeID := len(commits)/2, commits[0].StoreID
	want := folded(t, commits, at).open(t)
	state, err := log.At(t.Context(), storeID, uint64(at))
	if err != nil {
		t.Fatal(err)
	}
	o := newObjects()
	if err := write(t.Context(), o, Point{StoreID: storeID, Creation: "first", Tip: want.Tip}, state.Heads(t.Context(), "/", ""), small); err != nil {
		t.Fatal(err)
	}
	s := o.open(t)
	if diff := cmp.Diff(want.heads, s.heads); diff != "" || s.Tip != want.Tip || s.Creation != "first" {
		t.Errorf("of commits -, of heads +:\n%s", diff)
	}
	if err := s.fold(t.Context(), o, uint64(len(commits)), o.behind(t, commits), small); err != nil {
		t.Fatal(err)
	}
	s = o.open(t)
	if keys := collect(t, s.Keys(t.Context())); s.Creation != "first" || s.HistoryAfter != uint64(at) || s.KeysAfter != uint64(at) || len(keys) != len(commits)-at {
		t.Errorf("it knows the history after %d, and %d keys after %d", s.HistoryAfter, len(keys), s.KeysAfter)
	}
	v := commits[len(commits)-1].Versions[0]
	seqs, err := s.Versions(t.Context(), v.MemoryID)
	if err != nil || len(seqs) == 0 || seqs[0] <= uint64(at) || seqs[len(seqs)-1] != v.Seq {
		t.Errorf("versions of %v, %v, want some after %d and %d last", seqs, err, at, v.Seq)
	}
}
