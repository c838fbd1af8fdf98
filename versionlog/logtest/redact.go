package logtest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"mneme/versionlog"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// redactTests are of logs that take redactions.
var redactTests = map[string]func(*suite){
	"Erases":    testRedact,
	"Refuses":   testRedactRefuses,
	"Repeated":  testRedactRepeated,
	"Crowded":   testRedactInLargeCommit,
	"Reopened":  testRedactReopened,
	"Imported":  testRedactImported,
	"Copied":    testRedactCopied,
	"Archived":  testRedactArchived,
	"Followers": testRedactFollowed,
	"Behind":    testRedactBehind,
	"Rule":      testRetention,
}

func (s *suite) redact(ids ...string) *versionlog.Commit {
	s.Helper()
	c, err := s.log.Commit(s.Context(), s.store.ID, event(versionlog.StoreRedacted(ids...)))
	s.must(err)
	return c
}

// manyKinds makes a history in which each kind of version is no head, and returns the
// versions by what they did.
func (s *suite) manyKinds() map[string]versionlog.Version {
	s.Helper()
	all := map[string]versionlog.Version{}
	one := func(name string, changes ...versionlog.Change) {
		s.Helper()
		for i, v := range s.commit(changes...) {
			if i > 0 {
				name += "'"
			}
			all[name] = v
		}
	}
	one("made", put("/secret name.md", "the first content", anything))
	one("changed", put("/secret name.md", "the second content", anything))
	one("renamed", rename("/secret name.md", "/other.md", anything))
	one("changed again", put("/other.md", "the third content", anything), put("/d/twice", "the first content", anything))
	one("dir", makeDir("/hidden/", anything))
	one("dir moved", rename("/hidden/", "/shown/", anything))
	one("dir gone", remove("/shown/", anything))
	one("short", put("/short.md", "gone soon", anything))
	one("deleted", remove("/short.md", anything))
	spelled := put("/caf\u00e9", "1", anything)
	spelled.Spelling = "/cafe\u0301"
	one("spelled", spelled)
	one("spelled again", put("/caf\u00e9", "2", anything))
	return all
}

// checkErased compares the log with what its history was before versions were erased.
func (s *suite) checkErased(before []*versionlog.Commit, ids ...string) {
	s.Helper()
	want := slices.Clone(before)
	for i, c := range want {
		for _, id := range ids {
			want[i] = want[i].Erase(id)
		}
		if want[i].Digest != c.Digest {
			s.Fatal("erasing changes the digest")
		}
	}
	commits := s.commits(0)
	s.equal(commits[:len(want)], want)
	backwards := collect(s.T, s.log.CommitsBefore(s.Context(), s.store.ID, 0, versionlog.Filter{}))
	slices.Reverse(backwards)
	s.equal(backwards, commits)
	checkErasedReads(s.Context(), s, s.log, s.store.ID, before)
	s.verifyChain()
}

// checkErasedReads compares what a log tells of versions, of paths and of the past with
// its commits; paths are those of the commits as they were.
func checkErasedReads(ctx context.Context, t fataler, log versionlog.Log, store string, before []*versionlog.Commit) {
	t.Helper()
	must := func(what string, want, got any) {
		t.Helper()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(fmt.Sprintf("%s: want -, got +:\n%s", what, diff))
		}
	}
	commits := collect(t, log.Commits(ctx, store, 0))
	seen := map[string]bool{}
	for _, c := range before {
		for i := range c.Versions {
			seen[c.Versions[i].Path], seen[c.Versions[i].From] = true, true
		}
	}
	delete(seen, "")
	memories := map[string][]versionlog.Version{}
	totals := versionlog.Totals{}
	for _, c := range slices.Backward(commits) {
		for _, v := range slices.Backward(c.Versions) {
			memories[v.MemoryID] = append(memories[v.MemoryID], v)
			if !v.IsDir() && (v.Op == versionlog.OpCreated || v.Op == versionlog.OpModified) {
				totals.Bytes += v.Size
			}
			got, err := log.Version(ctx, store, v.ID)
			if err != nil {
				t.Fatal(err)
			}
			must("version", v, got)
		}
	}
	for id, want := range memories {
		must("history", want, collect(t, log.History(ctx, store, id, 0)))
		newest, err := log.Newest(ctx, store, id)
		if err != nil {
			t.Fatal(err)
		}
		must("newest", want[0], newest)
	}
	for path := range seen {
		var want []versionlog.Version
		for _, c := range slices.Backward(commits) {
			for _, v := range c.Versions {
				if !v.Redacted() && v.At(path) {
					want = append(want, v)
				}
			}
		}
		must("history of "+path, want, collect(t, log.PathHistory(ctx, store, path)))
		last, err := log.Last(ctx, store, path)
		if len(want) == 0 && !errors.Is(err, versionlog.ErrNotFound) || len(want) > 0 && (err != nil || last != want[0]) {
			t.Fatal(fmt.Sprintf("the last at %s is %+v, %v, want %+v", path, last, err, want))
		}
	}
	checkPast(ctx, t, log, store)
	for _, v := range collect(t, log.Heads(ctx, store, "/", "")) {
		if !v.IsDir() {
			totals.Memories++
		}
	}
	tip, err := log.Tip(ctx, store)
	if err != nil {
		t.Fatal(err)
	}
	totals.InHour = tip.Totals.InHour
	must("totals", totals, tip.Totals)
}

// testRedact: versions of each kind, one after the other, lose what is erased wherever it
// is read, and all others keep it.
func testRedact(s *suite) {
	v := s.manyKinds()
	before := s.commits(0)
	var ids []string
	for _, name := range []string{"changed", "dir moved", "made", "deleted", "renamed", "dir gone", "short", "dir", "spelled"} {
		tip := s.tip()
		c := s.redact(v[name].ID)
		if c.Seq != tip.Seq+1 || c.Prev != tip.Digest || c.Message == "" {
			s.Fatalf("the redaction of %s is %+v", name, c)
		}
		s.equal(c.Event.ErasedVersions(), []string{v[name].ID})
		ids = append(ids, v[name].ID)
		s.checkErased(before, ids...)
	}
	revive := put("/short.md", "back", versionlog.ExpectAbsent())
	revive.MemoryID = v["short"].MemoryID
	back := s.commit(revive)[0]
	s.equal(back.Parent, v["deleted"].ID)
	s.checkErased(before, ids...)
	purged, err := s.log.Capabilities().Purge(s.Context(), s.store.ID, ids)
	s.must(err)
	for _, p := range purged {
		if p.Why != "" || p.At.IsZero() || p.Place == "" {
			s.Errorf("left: %+v", p)
		}
	}
}

func testRedactRefuses(s *suite) {
	v := s.manyKinds()
	silent := event(versionlog.StoreRedacted(v["made"].ID))
	silent.Message = " "
	many := make([]string, versionlog.MaxRedacted+1)
	for i := range many {
		many[i] = v["made"].ID
	}
	other := s.addStore("other")
	var elsewhere versionlog.Version
	s.in(other, func() { s.put("/x", "1"); elsewhere = s.put("/x", "2") })
	s.unchanged(func() {
		for _, c := range []struct {
			p    *versionlog.Proposal
			want error
		}{
			{silent, versionlog.ErrInvalid},
			{event(versionlog.StoreRedacted()), versionlog.ErrInvalid},
			{event(versionlog.StoreRedacted(many...)), versionlog.ErrTooLarge},
			{event(versionlog.StoreRedacted("nonsense")), versionlog.ErrNotFound},
			{event(versionlog.StoreRedacted(elsewhere.ID)), versionlog.ErrNotFound},
			{event(versionlog.StoreRedacted(v["made"].ID, v["changed again"].ID)), versionlog.ErrLiveHead},
			{event(versionlog.StoreRedacted(v["changed again'"].ID)), versionlog.ErrLiveHead},
		} {
			_, err := s.log.Commit(s.Context(), s.store.ID, c.p)
			s.wantErr(err, c.want)
		}
	})
	got, err := s.log.Version(s.Context(), s.store.ID, v["made"].ID)
	s.must(err)
	s.equal(got, v["made"])
	dir := s.commit(makeDir("/here/", anything))[0]
	_, err = s.log.Commit(s.Context(), s.store.ID, event(versionlog.StoreRedacted(dir.ID)))
	s.wantErr(err, versionlog.ErrLiveHead)
}

// testRedactRepeated: what is erased is not erased again, and a lost reply is settled by
// the key.
func testRedactRepeated(s *suite) {
	v := s.manyKinds()
	before := s.commits(0)
	p := event(versionlog.StoreRedacted(v["made"].ID, v["made"].ID))
	p.Fresh = false
	first, err := s.log.Commit(s.Context(), s.store.ID, p)
	s.must(err)
	s.equal(first.Event.ErasedVersions(), []string{v["made"].ID})
	s.unchanged(func() {
		again, err := s.log.Commit(s.Context(), s.store.ID, p)
		s.must(err)
		s.equal(again, first)
		if c := s.redact(v["made"].ID); c.Changes() {
			s.Errorf("erased again: %+v", c)
		}
	})
	c := s.redact(v["made"].ID, v["changed"].ID)
	s.equal(c.Event.ErasedVersions(), []string{v["changed"].ID})
	s.checkErased(before, v["made"].ID, v["changed"].ID)
}

// testRedactInLargeCommit: the other versions of a commit stay, also when commits before
// and behind it are erased with it.
func testRedactInLargeCommit(s *suite) {
	var changes []versionlog.Change
	for i := range 20 {
		changes = append(changes, put(fmt.Sprintf("/n/%02d", i), fmt.Sprint("content ", i), anything))
	}
	first := s.commit(changes...)
	var second []versionlog.Version
	for i := range 20 {
		second = append(second, s.put(first[i].Path, fmt.Sprint("later ", i)))
	}
	s.put("/n/03", "newest")
	before := s.commits(0)
	ids := []string{first[3].ID, first[4].ID, first[19].ID, second[3].ID}
	s.redact(ids...)
	s.checkErased(before, ids...)
}

func testRedactReopened(s *suite) {
	v := s.manyKinds()
	before := s.commits(0)
	s.redact(v["made"].ID, v["renamed"].ID)
	if s.cfg.Share != nil {
		mine := s.log
		s.log = s.cfg.Share(s.T, mine)
		s.checkErased(before, v["made"].ID, v["renamed"].ID)
		s.log = mine
	}
	if s.cfg.Reopen != nil {
		s.log = s.cfg.Reopen(s.T, s.log)
		s.checkErased(before, v["made"].ID, v["renamed"].ID)
	}
	s.put("/after", "1")
	s.verifyChain()
}

// testRedactImported: a copy that takes the event erases what it names, too.
func testRedactImported(s *suite) {
	v := s.manyKinds()
	before := s.commits(0)
	to := s.cfg.Open(s.T, s.clock.now)
	s.must(to.CreateStore(s.Context(), s.store))
	s.must(versionlog.Import(s.Context(), to, s.store.ID, each(before)))
	s.redact(v["made"].ID, v["dir"].ID)
	s.must(versionlog.Import(s.Context(), to, s.store.ID, each(s.commits(uint64(len(before))))))
	commits := s.commits(0)
	s.log = to
	s.equal(s.commits(0), commits)
	s.checkErased(before, v["made"].ID, v["dir"].ID)
}

// testRedactCopied: a history of which versions of each kind were erased is imported as it is, at
// every point of it, and the copy tells the same and continues.
func testRedactCopied(s *suite) {
	v := s.manyKinds()
	s.commit(put("/d/gone", "1", anything))
	v["emptied"] = s.commit(remove("/d/gone", anything), makeDir("/d/", anything))[0]
	before := s.commits(0)
	for _, names := range [][]string{{"changed"}, {"dir moved", "made"}, {"deleted"}, {"renamed", "dir gone"}, {"short", "dir", "spelled"}, {"emptied"}} {
		var ids []string
		for _, name := range names {
			ids = append(ids, v[name].ID)
		}
		s.redact(ids...)
	}
	commits := s.commits(0)
	var erased []string
	for _, c := range commits {
		erased = append(erased, c.Event.ErasedVersions()...)
	}
	to := s.cfg.Open(s.T, s.clock.now)
	s.must(to.CreateStore(s.Context(), s.store))
	from := s.log
	for i := range commits {
		err := versionlog.Import(s.Context(), to, s.store.ID, each(commits[i:i+1]))
		if errors.Is(err, versionlog.ErrErasedHistory) { // of the first one, before anything was erased
			if err := versionlog.CheckImport(to, commits[i]); i > 0 || !errors.Is(err, versionlog.ErrErasedHistory) {
				s.Errorf("commit %d is refused, and before: %v", i+1, err)
			}
			return
		}
		s.must(err)
		s.log = to
		checkPast(s.Context(), s, to, s.store.ID)
		want, err := from.At(s.Context(), s.store.ID, uint64(i+1))
		s.must(err)
		s.equal(s.heads("/"), collect(s.T, want.Heads(s.Context(), "/", "")))
	}
	s.equal(s.commits(0), commits)
	s.checkErased(before, erased...)
	revive := put("/short.md", "back", versionlog.ExpectAbsent())
	revive.MemoryID = v["short"].MemoryID
	s.equal(s.commit(revive)[0].Parent, v["deleted"].ID)
	s.put("/secret name.md", "free again")
	s.checkErased(before, erased...)
}

func testRedactArchived(s *suite) {
	v := s.manyKinds()
	s.archive()
	before := s.commits(0)
	s.redact(v["changed"].ID)
	s.checkErased(before, v["changed"].ID)
}

// testRedactFollowed: a follower gets the event, and versions only as they are at that time.
func testRedactFollowed(s *suite) {
	v := s.manyKinds()
	rule := s.keep(3, 4)
	for _, e := range []*versionlog.Event{
		versionlog.StoreRedacted(v["changed"].ID, v["dir"].ID), versionlog.RetentionApplied(rule, v["made"].ID, v["renamed"].ID),
	} {
		tip := s.tip()
		c, err := s.log.Commit(s.Context(), s.store.ID, event(e))
		s.must(err)
		next := s.log.Capabilities().Next
		if next == nil {
			return
		}
		got, err := next(s.Context(), s.store.ID, tip.Seq)
		s.must(err)
		s.equal(got, []*versionlog.Commit{c})
		got, err = next(s.Context(), s.store.ID, 0)
		s.must(err)
		s.equal(got, s.commits(0)[:len(got)])
	}
}

// testRedactBehind: another Log, which has not heard of versions before they are erased, knows
// what there is afterwards: no name that an erased version has left, and every one that came.
func testRedactBehind(s *suite) {
	if s.cfg.Share == nil {
		return
	}
	for i, follows := range []bool{true, false} { // or hears with its next commit
		s.in(s.addStore(fmt.Sprintf("behind-%d", i)), func() {
			behind := s.cfg.Share(s, s.log)
			write := func(change versionlog.Change) {
				s.Helper()
				_, err := behind.Commit(s.Context(), s.store.ID, fresh(change))
				s.must(err)
			}
			write(put("/mine.md", "1", anything))
			tip := s.tip().Seq
			v := s.manyKinds()
			s.redact(v["changed"].ID, v["renamed"].ID, v["dir"].ID, v["dir moved"].ID, v["short"].ID, v["deleted"].ID, v["spelled"].ID)
			for next := behind.Capabilities().Next; follows && next != nil && tip < s.tip().Seq; {
				got, err := next(s.Context(), s.store.ID, tip)
				s.must(err)
				s.equal(got, s.commits(tip)[:len(got)])
				tip = got[len(got)-1].Seq
			}
			write(put("/mine.md", "2", anything))
			write(put("/secret name.md", "free again", versionlog.ExpectAbsent()))
			write(makeDir("/hidden/", versionlog.ExpectAbsent()))
			s.equal(collect(s.T, behind.Heads(s.Context(), s.store.ID, "/", "")), s.heads("/"))
		})
	}
}

// redactSome erases versions that are no heads.
func (m *machine) redactSome(t *rapid.T) {
	if m.log.Capabilities().Purge == nil {
		return
	}
	heads := map[string]bool{}
	for _, head := range m.heads {
		heads[head.version] = true
	}
	before := collect(t, m.log.Commits(m.ctx, m.store, 0))
	var ids []string
	for _, c := range before {
		for i := range c.Versions {
			if v := &c.Versions[i]; !heads[v.ID] && !v.Redacted() {
				ids = append(ids, v.ID)
			}
		}
	}
	if len(ids) == 0 {
		return
	}
	ids = rapid.SliceOfNDistinct(rapid.SampledFrom(ids), 1, 3, rapid.ID[string]).Draw(t, "versions")
	c, err := m.log.Commit(m.ctx, m.store, event(versionlog.StoreRedacted(ids...)))
	if err != nil {
		t.Fatal(err)
	}
	if m.seq++; c.Seq != m.seq {
		t.Fatalf("the redaction is commit %d, want %d", c.Seq, m.seq)
	}
	checkErasedReads(m.ctx, t, m.log, m.store, before)
}

// keep gives the store a rule.
func (s *suite) keep(days, versions int64) versionlog.Retention {
	s.Helper()
	_, err := s.log.Commit(s.Context(), s.store.ID, event(versionlog.StoreUpdated(versionlog.StoreUpdate{KeepDays: &days, KeepVersions: &versions})))
	s.must(err)
	return versionlog.Retention{KeepDays: days, KeepVersions: versions}
}

// testRetention: what a rule lets go of is erased like what was redacted, by that rule of the
// store only, without a message, and never a head.
func testRetention(s *suite) {
	v := s.manyKinds()
	apply := func(rule versionlog.Retention, names ...string) (*versionlog.Commit, error) {
		var ids []string
		for _, name := range names {
			ids = append(ids, v[name].ID)
		}
		p := event(versionlog.RetentionApplied(rule, ids...))
		p.Message = ""
		return s.log.Commit(s.Context(), s.store.ID, p)
	}
	s.unchanged(func() {
		for _, rule := range []versionlog.Retention{{}, {KeepDays: 3}} {
			_, err := apply(rule, "made")
			s.wantErr(err, versionlog.ErrInvalid)
		}
	})
	rule := s.keep(3, 4)
	before := s.commits(0)
	s.unchanged(func() {
		_, err := apply(versionlog.Retention{KeepDays: 3}, "made")
		s.wantErr(err, versionlog.ErrInvalid)
		_, err = apply(rule)
		s.wantErr(err, versionlog.ErrInvalid)
		_, err = apply(rule, "made", "changed again")
		s.wantErr(err, versionlog.ErrLiveHead)
	})
	c, err := apply(rule, "made", "changed", "dir", "dir gone", "deleted")
	s.must(err)
	s.equal(c.Event.Rule(), rule)
	if !c.Erases() || !c.IsEvent(versionlog.EventRetention) {
		s.Errorf("it is %+v", c.Event)
	}
	s.checkErased(before, c.Event.ErasedVersions()...)
	s.unchanged(func() {
		c, err := apply(rule, "made", "deleted")
		s.must(err)
		s.equal(c.Changes(), false)
	})
	s.equal(s.redact(v["made"].ID, v["renamed"].ID).Event.ErasedVersions(), []string{v["renamed"].ID})
	s.checkErased(before, append(c.Event.ErasedVersions(), v["renamed"].ID)...)
}
