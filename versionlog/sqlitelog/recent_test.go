package sqlitelog

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"mneme/cas"
	"mneme/versionlog"

	"github.com/google/go-cmp/cmp"
)

func TestRecent(t *testing.T) {
	var r recent
	for _, seq := range []uint64{1, 2, 4, 3, 6, 7} {
		r.add(&versionlog.Commit{StoreID: "s", Seq: seq})
	}
	r.add(&versionlog.Commit{StoreID: "other", Seq: 5})
	above := func(after uint64) (seqs []uint64) {
		for _, c := range r.above("s", after) {
			seqs = append(seqs, c.Seq)
		}
		return seqs
	}
	for after, want := range map[uint64][]uint64{0: {1, 2, 3, 4}, 2: {3, 4}, 4: nil, 5: {6, 7}, 7: nil} {
		if diff := cmp.Diff(want, above(after)); diff != "" {
			t.Errorf("above %d (-want +got):\n%s", after, diff)
		}
	}
	for seq := range uint64(3 * maxRecent) {
		r.add(&versionlog.Commit{StoreID: "s", Seq: 8 + seq})
	}
	if len(r.stores["s"]) != maxRecent || above(0) != nil {
		t.Errorf("%d commits are kept, want %d", len(r.stores["s"]), maxRecent)
	}
	r.forget("s")
	if above(0) != nil || r.above("other", 4) == nil {
		t.Error("forgot another store than it was told")
	}
}

// TestFollowsAllWriters: a follower gets the commits of this log and of others in their order,
// whichever way it hears of them, and the copy that it gets is not its writers'.
func TestFollowsAllWriters(t *testing.T) {
	dir, s := newLog(t)
	l, other := openTest(t, dir, &Options{Refresh: never}), openTest(t, dir, nil)
	followed := make(chan []string)
	go func() {
		var messages []string
		defer func() { followed <- messages }()
		for after := uint64(1); after < 61; {
			commits, err := l.Next(t.Context(), s.ID, after)
			if err != nil {
				t.Error(err)
				return
			}
			for _, c := range commits {
				if c.Seq != after+1 || len(c.Versions) != 1 || len(c.Seals) != 1 || c.Verify() != nil {
					t.Errorf("after %d came %+v", after, c)
				}
				messages = append(messages, c.Message)
				after = c.Seq
			}
		}
	}()
	var want []string
	for i := range 60 {
		p := putProposal("/a", fmt.Sprint(i))
		p.Message = fmt.Sprint("message ", i)
		want = append(want, p.Message)
		writer := l
		if i%3 == 0 {
			writer = other
		}
		c, err := writer.Commit(t.Context(), s.ID, p)
		if err != nil {
			t.Fatal(err)
		}
		c.Message, c.Versions[0].Path = "changed by who has it", "/changed"
	}
	if diff := cmp.Diff(want, <-followed); diff != "" {
		t.Errorf("followed (-want +got):\n%s", diff)
	}
}

// TestKeyOfAnotherIntent: a commit whose key is in the history already is that
// one, also when it would make a version today.
func TestKeyOfAnotherIntent(t *testing.T) {
	dir, s := newLog(t)
	l := openTest(t, dir, nil)
	p := withContent("/a", "2", versionlog.ExpectAny())
	first, err := l.Commit(t.Context(), s.ID, p)
	if err != nil {
		t.Fatal(err)
	}
	put(t, l, s.ID, "/a", "3")
	again, err := l.Commit(t.Context(), s.ID, p)
	if err != nil || again.Seq != first.Seq || again.Digest != first.Digest {
		t.Errorf("again: %+v, %v", again, err)
	}
	if tip, err := l.Tip(t.Context(), s.ID); err != nil || tip.Seq != 3 {
		t.Errorf("tip is %+v, %v", tip, err)
	}
	if c := put(t, l, s.ID, "/a", "4"); c.Seq != 4 {
		t.Errorf("the next commit is %d", c.Seq)
	}
}

// TestRecentHead compares what is at hand of the heads with what the database has, while two logs
// commit to one store.
func TestRecentHead(t *testing.T) {
	dir := t.TempDir()
	logs := []*Log{openTest(t, dir, nil), openTest(t, dir, nil)}
	s := addStore(t, logs[0], "s")
	random := rand.New(rand.NewPCG(1, 2))
	path := func() string { return fmt.Sprint("/", random.IntN(6)) }
	known := 0
	for i := range 600 {
		l := logs[random.IntN(20)/19]
		change := versionlog.Change{Action: versionlog.Put, Path: path(), Digest: cas.Sum([]byte{byte(i)}), Size: 1, Expect: versionlog.ExpectAny()}
		switch random.IntN(6) {
		case 0:
			change = versionlog.Change{Action: versionlog.Remove, Path: change.Path, Expect: versionlog.ExpectAny()}
		case 1:
			change = versionlog.Change{Action: versionlog.Rename, Path: change.Path, To: path(), Expect: versionlog.ExpectAny()}
		}
		c, _ := l.Commit(t.Context(), s.ID, &versionlog.Proposal{Key: versionlog.NewKey(), Changes: []versionlog.Change{change}})
		if c != nil && random.IntN(40) == 0 {
			redact(t, l, s.ID, c.Versions[0].Parent)
		}
		for _, l := range logs {
			row, err := l.store(t.Context(), s.ID)
			if err != nil {
				t.Fatal(err)
			}
			for n := range 6 {
				at := fmt.Sprint("/", n)
				got, isKnown := l.recent.head(s.ID, &row.tip, at)
				if !isKnown {
					continue
				}
				known++
				want, err := (&view{ctx: t.Context(), source: l.db, store: row.num}).Head(at)
				if diff := cmp.Diff(want, got); err != nil || diff != "" {
					t.Fatalf("the head at %s after commit %d (-want +got): %v\n%s", at, row.tip.Seq, err, diff)
				}
			}
		}
	}
	if known < 1000 {
		t.Errorf("%d heads were at hand", known)
	}
}
