package logtest

import (
	"fmt"
	"strings"
	"time"

	"mneme/versionlog"
)

// eventTests are about what happens to a store as a whole.
var eventTests = map[string]func(*suite){
	"Created":          testCreatedEvent,
	"Update":           testUpdateStore,
	"ImpossiblePolicy": testImpossiblePolicy,
	"Metadata":         testStoreMetadata,
	"OwnMaps":          testOwnMaps,
	"Archive":          testArchive,
	"ArchivedCommits":  testArchivedCommits,
	"Repeated":         testRepeatedEvent,
	"Refused":          testRefusedEvents,
	"InTheHistory":     testEventsInTheHistory,
	"Epoch":            testEpoch,
	"Replica":          testReplica,
	"Promoted":         testPromoted,
	"CommitMeta":       testCommitMeta,
}

// isStored checks that the log has s.store as it is.
func (s *suite) isStored() {
	s.Helper()
	got, err := s.log.Store(s.Context(), s.store.ID)
	s.must(err)
	s.equal(got, s.store)
	got, err = s.log.StoreNamed(s.Context(), s.store.Slug)
	s.must(err)
	s.equal(got, s.store)
}

// testCreatedEvent: a store that is created elsewhere becomes the same store by it, except for
// its slug.
func testCreatedEvent(s *suite) {
	want := s.store
	want.Quota = versionlog.Quota{Bytes: 1 << 40, Memories: 2, PerHour: 3}
	want.Policy = wholePolicy
	want.Metadata = map[string]string{"owner": "me", "": ""}
	delete(want.Metadata, "")
	other := versionlog.Store{ID: versionlog.NewStoreID(), Slug: "other", Epoch: 1}
	s.must(s.log.CreateStore(s.Context(), other))
	s.store = other
	s.event(versionlog.StoreCreated(want))
	want.ID, want.Slug = other.ID, other.Slug
	s.store = want
	s.isStored()
	s.unchanged(func() {
		_, err := s.log.Commit(s.Context(), s.store.ID, event(versionlog.StoreCreated(want)))
		s.wantErr(err, versionlog.ErrInvalid)
	})
}

func testUpdateStore(s *suite) {
	other := s.addStore("other")
	text, size, one, none := "something else", int64(1<<20), int64(1), int64(0)
	warn, off := string(versionlog.SecretsWarn), string(versionlog.SecretsOff)
	for _, u := range []versionlog.StoreUpdate{
		{Name: &text}, {Description: &text}, {MaxMemoryBytes: &size}, {QuotaBytes: &one}, {QuotaMemories: &one}, {QuotaPerHour: &one},
		wholeQuota(versionlog.Quota{Bytes: 1, Memories: 2, PerHour: 3}),
		{GuardShrinkPercent: &one}, {GuardDeletesPerMinute: &one}, {Secrets: &warn}, {KeepDays: &one}, {KeepVersions: &one},
		{GuardShrinkPercent: &none, GuardDeletesPerMinute: &none, Secrets: &off, KeepDays: &none, KeepVersions: &none},
	} {
		s.clock.move(time.Second)
		c := s.event(versionlog.StoreUpdated(u))
		u.Apply(&s.store)
		s.store.UpdatedAt = c.Time
		s.isStored()
		s.equal(s.stores(), []versionlog.Store{s.store, other})
		s.unchanged(func() { // what is the case already
			again, err := s.log.Commit(s.Context(), s.store.ID, event(versionlog.StoreUpdated(u)))
			if err != nil || again.Changes() || again.Seq != c.Seq {
				s.Errorf("the update again became %+v, %v", again, err)
			}
		})
		s.isStored()
	}
	made := s.store // what it is made with counts as well
	made.ID, made.Slug, made.UpdatedAt = versionlog.NewStoreID(), "made", time.Time{}
	made.Metadata, made.Policy = map[string]string{"a": "1"}, wholePolicy
	s.must(s.log.CreateStore(s.Context(), made))
	s.in(made, s.isStored)
}

// wholePolicy is a policy without a field that is zero.
var wholePolicy = versionlog.Policy{
	Guard:     versionlog.Guard{ShrinkPercent: 100, DeletesPerMinute: 2},
	Secrets:   versionlog.SecretsRefuse,
	Retention: versionlog.Retention{KeepDays: 3, KeepVersions: 4},
}

// testImpossiblePolicy: no update makes a policy that makes no sense.
func testImpossiblePolicy(s *suite) {
	below, above, word := int64(-1), int64(101), "sometimes"
	for _, u := range []versionlog.StoreUpdate{
		{GuardShrinkPercent: &below}, {GuardShrinkPercent: &above}, {GuardDeletesPerMinute: &below},
		{Secrets: &word}, {KeepDays: &below}, {KeepVersions: &below},
	} {
		s.unchanged(func() {
			_, err := s.log.Commit(s.Context(), s.store.ID, event(versionlog.StoreUpdated(u)))
			s.wantErr(err, versionlog.ErrInvalid)
		})
	}
	s.isStored()
}

func testStoreMetadata(s *suite) {
	update := func(pairs map[string]*string, want map[string]string) {
		s.Helper()
		c := s.event(versionlog.StoreUpdated(versionlog.StoreUpdate{Metadata: pairs}))
		s.store.Metadata, s.store.UpdatedAt = want, c.Time
		s.isStored()
	}
	one, two, empty := "1", "zwei <&> \n\u2028", ""
	update(map[string]*string{"a": &one, "b.c": &two, "d": &empty}, map[string]string{"a": one, "b.c": two, "d": ""})
	update(map[string]*string{"a": &two, "d": nil}, map[string]string{"a": two, "b.c": two})
	update(map[string]*string{"a": nil, "b.c": nil}, nil)
	s.put("/a", "1") // leaves it alone
	s.isStored()
	tooMany := map[string]*string{}
	for i := range versionlog.MaxMetaPairs {
		tooMany[fmt.Sprint(i)] = &one
	}
	want := map[string]string{}
	for key := range tooMany {
		want[key] = one
	}
	update(tooMany, want)
	long, longKey := strings.Repeat("ü", versionlog.MaxMetaValue+1), strings.Repeat("ü", versionlog.MaxMetaKey+1)
	for _, pairs := range []map[string]*string{{"more": &one}, {"0": &long}, {"0": nil, longKey: &one}, {"0": nil, "": &one}, {"\xff": &one}} {
		s.unchanged(func() {
			_, err := s.log.Commit(s.Context(), s.store.ID, event(versionlog.StoreUpdated(versionlog.StoreUpdate{Metadata: pairs})))
			s.wantErr(err, versionlog.ErrInvalid)
		})
	}
	s.isStored()
}

// testOwnMaps: what a caller does to a map that it has given or been given changes nothing.
func testOwnMaps(s *suite) {
	made := versionlog.Store{ID: versionlog.NewStoreID(), Slug: "made", Epoch: 1, Metadata: map[string]string{"a": "1"}}
	s.must(s.log.CreateStore(s.Context(), made))
	made.Metadata["a"], made.Metadata["b"] = "2", "2"
	made.Metadata = map[string]string{"a": "1"}
	s.in(made, func() {
		for range 2 { // a log may remember what it was asked before
			_, err := s.log.Tip(s.Context(), made.ID)
			s.must(err)
			for _, read := range []func() (versionlog.Store, error){
				func() (versionlog.Store, error) { return s.log.Store(s.Context(), made.ID) },
				func() (versionlog.Store, error) { return s.log.StoreNamed(s.Context(), made.Slug) },
				func() (versionlog.Store, error) { return s.stores()[0], nil },
			} {
				got, err := read()
				s.must(err)
				got.Metadata["a"] = "3"
				s.isStored()
			}
		}
	})
}

func testArchive(s *suite) {
	s.clock.move(time.Second)
	c := s.archive()
	s.store.ArchivedAt, s.store.UpdatedAt = c.Time, c.Time
	s.clock.move(time.Second)
	again, err := s.log.Commit(s.Context(), s.store.ID, event(versionlog.StoreArchived())) // keeps the first
	if err != nil || again.Changes() || again.Seq != 1 {
		s.Errorf("archived again became %+v, %v", again, err)
	}
	s.equal(s.tip(), versionlog.Tip{Seq: 1, Digest: c.Digest, Time: c.Time, ArchivedAt: c.Time})
	s.isStored()
	text := "too late"
	s.unchanged(func() {
		_, err := s.log.Commit(s.Context(), s.store.ID, event(versionlog.StoreUpdated(versionlog.StoreUpdate{Description: &text})))
		s.wantErr(err, versionlog.ErrArchived)
	})
}

func testArchivedCommits(s *suite) {
	s.put("/a", "1")
	s.put("/b", "1")
	s.put("/d/x", "1")
	s.archive()
	s.unchanged(func() {
		for _, c := range []versionlog.Change{put("/a", "2", anything), put("/c", "1", anything), rename("/a", "/c", anything), makeDir("/e/", anything)} {
			_, err := s.try(c)
			s.wantErr(err, versionlog.ErrArchived)
			_, err = s.try(c, remove("/b", anything))
			s.wantErr(err, versionlog.ErrArchived)
		}
		if c, err := s.try(put("/a", "1", anything)); err != nil || c.Changes() {
			s.Errorf("a put of what is there: %v, %v", c, err)
		}
	})
	s.commit(remove("/a", anything))
	s.commit(remove("/d/x", anything), makeDir("/d/", anything)) // removes only
	s.equal(paths(s.heads("/")), []string{"/b", "/d/"})
	if tip := s.tip(); tip.Seq != 6 || tip.ArchivedAt.IsZero() {
		s.Errorf("the tip of the archived store is %+v, want sequence 6 and when it was archived", tip)
	}
}

// testRepeatedEvent: a lost reply is settled by the key, as that of any commit.
func testRepeatedEvent(s *suite) {
	text, other := "something else", "and something else"
	p := event(versionlog.StoreUpdated(versionlog.StoreUpdate{Description: &text}))
	p.Fresh = false
	first, err := s.log.Commit(s.Context(), s.store.ID, p)
	s.must(err)
	s.event(versionlog.StoreUpdated(versionlog.StoreUpdate{Description: &other}))
	s.unchanged(func() {
		again, err := s.log.Commit(s.Context(), s.store.ID, p)
		s.must(err)
		s.equal(again, first)
	})
	got, err := s.log.Store(s.Context(), s.store.ID)
	s.must(err)
	s.equal(got.Description, other)
}

func testRefusedEvents(s *suite) {
	s.put("/a", "1")
	both := event(versionlog.StoreArchived())
	both.Changes = []versionlog.Change{put("/a", "2", anything)}
	s.unchanged(func() {
		for _, p := range []*versionlog.Proposal{
			both, proposal(),
			event(&versionlog.Event{Kind: "other"}),
			event(&versionlog.Event{Kind: versionlog.EventRetention}),
			event(&versionlog.Event{Kind: versionlog.EventUpdated, Fields: map[string]string{"quota_bytes": "many"}}),
			event(&versionlog.Event{Kind: versionlog.EventUpdated, Fields: map[string]string{"quota_bytes": "-1"}}),
			event(&versionlog.Event{Kind: versionlog.EventUpdated, Fields: map[string]string{"name": "\xff"}}),
		} {
			_, err := s.log.Commit(s.Context(), s.store.ID, p)
			s.wantErr(err, versionlog.ErrInvalid)
		}
	})
	s.isStored()
}

// testEventsInTheHistory: an event is read back as it was made, among other commits, and
// leaves what lives alone.
func testEventsInTheHistory(s *suite) {
	text := "something else"
	s.put("/a", "1")
	updated := s.event(versionlog.StoreUpdated(versionlog.StoreUpdate{Name: &text, Metadata: map[string]*string{"a": &text, "b": nil}}))
	second := s.put("/b", "1")
	archived := s.archive()
	s.equal(second.Seq, uint64(3))
	all := s.commits(0)
	s.equal(len(all), 4)
	s.equal(all[1], updated)
	s.equal(all[3], archived)
	s.equal(paths(s.heads("/")), []string{"/a", "/b"})
	s.equal(paths(collect(s.T, s.at(s.store.ID, 2).Heads(s.Context(), "/", ""))), []string{"/a"})
	last := collect(s.T, s.log.CommitsBefore(s.Context(), s.store.ID, 0, versionlog.Filter{}))
	s.equal(last[0], archived)
	s.equal(last[2], updated)
	s.verifyChain()
}

// testEpoch: a promotion begins a new epoch, and a process that proposes under another is fenced
// off.
func testEpoch(s *suite) {
	under := func(epoch uint64, path string) error {
		p := fresh(put(path, "1", anything))
		p.Epoch = epoch
		_, err := s.log.Commit(s.Context(), s.store.ID, p)
		return err
	}
	s.must(under(1, "/a"))
	s.unchanged(func() { s.wantErr(under(2, "/b"), versionlog.ErrFenced) })
	c := s.event(versionlog.StorePromoted())
	s.equal(c.Epoch, uint64(2))
	s.store.Epoch = 2
	s.isStored()
	s.unchanged(func() { s.wantErr(under(1, "/b"), versionlog.ErrFenced) })
	s.must(under(2, "/b"))
	s.must(under(0, "/c"))
	s.equal(s.commits(3)[0].Epoch, uint64(2))

	// A lost reply is settled by the key: the promotion tried again is no other one.
	p := event(versionlog.StorePromoted())
	p.Epoch, p.Fresh = 2, false
	first, err := s.log.Commit(s.Context(), s.store.ID, p)
	s.must(err)
	s.unchanged(func() {
		again, err := s.log.Commit(s.Context(), s.store.ID, p)
		s.must(err)
		s.equal(again, first)
	})
	s.store.Epoch = 3
	s.isStored()
	s.verifyChain()
}

// testReplica: a replica takes what is imported, and nothing else, until it is promoted.
func testReplica(s *suite) {
	s.put("/a", "1")
	text := "something else"
	s.event(versionlog.StoreUpdated(versionlog.StoreUpdate{Description: &text}))
	commits, to := s.commits(0), s.cfg.Open(s.T, s.clock.now)
	s.store.Replica = true
	s.must(to.CreateStore(s.Context(), s.store))
	s.log = to
	s.isStored()
	s.must(versionlog.Import(s.Context(), to, s.store.ID, each(commits)))
	s.store.Description, s.store.UpdatedAt = text, commits[1].Time
	s.isStored()
	s.unchanged(func() {
		for _, p := range []*versionlog.Proposal{
			fresh(put("/b", "1", anything)), fresh(remove("/a", anything)), event(versionlog.StoreArchived()),
		} {
			_, err := s.log.Commit(s.Context(), s.store.ID, p)
			s.wantErr(err, versionlog.ErrReplica)
		}
	})
	s.event(versionlog.StorePromoted())
	s.store.Epoch, s.store.Replica = 2, false
	s.isStored()
	s.put("/b", "1")
	s.verifyChain()
}

// testPromoted: a store that learns that its copy was promoted is a replica from then on,
// and no commit of an epoch before gets into the copy.
func testPromoted(s *suite) {
	s.put("/a", "1")
	old, to := s.log, s.cfg.Open(s.T, s.clock.now)
	copied := s.store
	copied.Replica = true
	s.must(to.CreateStore(s.Context(), copied))
	s.must(versionlog.Import(s.Context(), to, s.store.ID, each(s.commits(0))))
	s.log = to
	s.event(versionlog.StorePromoted())
	s.put("/b", "1")
	commits := s.commits(1)

	// The old one continues before it learns of it.
	late, err := old.Commit(s.Context(), s.store.ID, fresh(put("/late", "1", anything)))
	s.must(err)
	s.unchanged(func() {
		s.wantErr(versionlog.Import(s.Context(), to, s.store.ID, each([]*versionlog.Commit{late})), versionlog.ErrRewritten)
		after := *late
		after.Seq = 4
		s.wantErr(versionlog.Import(s.Context(), to, s.store.ID, each([]*versionlog.Commit{&after})), versionlog.ErrInvalid)
	})
	s.wantErr(versionlog.Import(s.Context(), old, s.store.ID, each(commits)), versionlog.ErrRewritten)

	// Another old one has not.
	third := s.cfg.Open(s.T, s.clock.now)
	s.must(third.CreateStore(s.Context(), s.store))
	s.must(versionlog.Import(s.Context(), third, s.store.ID, s.log.Commits(s.Context(), s.store.ID, 0)))
	s.log = third
	s.store.Epoch, s.store.Replica = 2, true
	s.isStored()
	s.unchanged(func() {
		_, err := s.try(put("/c", "1", anything))
		s.wantErr(err, versionlog.ErrReplica)
		p := fresh(put("/c", "1", anything))
		p.Epoch = 1
		_, err = s.log.Commit(s.Context(), s.store.ID, p)
		s.wantErr(err, versionlog.ErrFenced)
	})
	s.verifyChain()
}

func testCommitMeta(s *suite) {
	p := fresh(put("/a", "1", anything))
	p.Meta = map[string]string{"model": "claude <&>\u2028", "trust": "", "sources": strings.Repeat("ü", versionlog.MaxMetaValue)}
	c, err := s.log.Commit(s.Context(), s.store.ID, p)
	s.must(err)
	s.equal(c.Meta, p.Meta)
	s.equal(s.commits(0)[0], c)
	s.put("/a", "2")
	s.equal(s.commits(1)[0].Meta, map[string]string(nil))
	s.unchanged(func() {
		for _, meta := range []map[string]string{{"": "1"}, {strings.Repeat("k", versionlog.MaxMetaKey+1): "1"}, {"k": "\xff"}, {"k": strings.Repeat("ü", versionlog.MaxMetaValue+1)}} {
			p := fresh(put("/b", "1", anything))
			p.Meta = meta
			_, err := s.log.Commit(s.Context(), s.store.ID, p)
			s.wantErr(err, versionlog.ErrInvalid)
		}
	})
	s.verifyChain()
}
