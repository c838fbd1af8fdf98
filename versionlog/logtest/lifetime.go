package logtest

import "mneme/versionlog"

// lifetimeTests are about what ends: contexts, and logs that are opened again
// or twice.
var lifetimeTests = map[string]func(*suite){
	"Cancelled": testCancelled,
	"Reopen":    testReopen,
	"Shared":    testShared,
}

func testCancelled(s *suite) {
	v := s.put("/a", "1")
	ctx, id := cancelled(s.Context()), s.store.ID
	s.unchanged(func() {
		_, storeErr := s.log.Store(ctx, id)
		_, namedErr := s.log.StoreNamed(ctx, s.store.Slug)
		_, commitErr := s.log.Commit(ctx, id, proposal(put("/a", "2", anything)))
		_, tipErr := s.log.Tip(ctx, id)
		_, headErr := s.log.Head(ctx, id, "/a")
		_, lastErr := s.log.Last(ctx, id, "/a")
		_, versionErr := s.log.Version(ctx, id, v.ID)
		for what, err := range map[string]error{
			"Store": storeErr, "StoreNamed": namedErr, "Stores": firstError(s.log.Stores(ctx, "")), "Commit": commitErr, "Tip": tipErr,
			"Head": headErr, "Last": lastErr, "Version": versionErr,
			"CreateStore": s.log.CreateStore(ctx, versionlog.Store{ID: versionlog.NewStoreID(), Slug: "x"}),
			"DeleteStore": s.log.DeleteStore(ctx, id),
			"Wait":        s.log.Wait(ctx, id, 99),
			"Heads":       firstError(s.log.Heads(ctx, id, "/", "")), "History": firstError(s.log.History(ctx, id, v.MemoryID, 0)),
			"Commits": firstError(s.log.Commits(ctx, id, 0)), "Children": firstError(s.log.Children(ctx, id, "/")),
		} {
			s.Log(what)
			s.wantErr(err, ctx.Err())
		}
	})
	s.equal(s.stores(), []versionlog.Store{s.store})
}

func testReopen(s *suite) {
	if s.cfg.Reopen == nil {
		return
	}
	p := proposal(put("/a", "1", anything))
	first, err := s.log.Commit(s.Context(), s.store.ID, p)
	s.must(err)
	s.commit(rename("/a", "/b", anything), put("/c", "1", anything))
	s.commit(remove("/c", anything))
	name, value := "another name", "claude"
	s.event(versionlog.StoreUpdated(versionlog.StoreUpdate{Name: &name, Metadata: map[string]*string{"model": &value}}))
	s.in(s.addStore("other"), func() { s.archive() })
	stores, tip, heads, commits := s.stores(), s.tip(), s.heads("/"), s.commits(0)
	history := s.history(first.Versions[0].MemoryID)

	s.log = s.cfg.Reopen(s, s.log)
	s.equal(s.stores(), stores)
	s.equal(s.tip(), tip)
	s.equal(s.heads("/"), heads)
	s.equal(s.commits(0), commits)
	s.equal(s.history(first.Versions[0].MemoryID), history)
	again, err := s.log.Commit(s.Context(), s.store.ID, p)
	s.must(err)
	s.equal(again, first)
	s.put("/d", "1")
	s.verifyChain()
}

func testShared(s *suite) {
	if s.cfg.Share == nil {
		return
	}
	first := s.put("/a", "1")
	mine := s.log
	s.log = s.cfg.Share(s, mine)
	s.equal(s.head("/a"), first)
	second := s.put("/a", "2")
	s.log = mine
	s.equal(s.head("/a"), second)
	_, err := s.try(put("/a", "3", versionlog.ExpectVersion(first.ID)))
	s.wantErr(err, versionlog.ErrConflict)
	s.verifyChain()
}
