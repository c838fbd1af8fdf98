package logtest

import (
	"mneme/versionlog"
)

var storeTests = map[string]func(*suite){
	"KeepsEveryField": func(s *suite) {
		got, err := s.log.Store(s.Context(), s.store.ID)
		s.must(err)
		s.equal(got, s.store)
		got, err = s.log.StoreNamed(s.Context(), s.store.Slug)
		s.must(err)
		s.equal(got, s.store)
	},
	"TakenIDOrSlug": func(s *suite) {
		other := s.store
		other.ID = versionlog.NewStoreID()
		s.wantErr(s.log.CreateStore(s.Context(), other), versionlog.ErrExists)
		other = s.store
		other.Slug = "other"
		s.wantErr(s.log.CreateStore(s.Context(), other), versionlog.ErrExists)
		s.equal(s.stores(), []versionlog.Store{s.store})
	},
	"NeedsIDAndSlug": func(s *suite) {
		if s.log.CreateStore(s.Context(), versionlog.Store{ID: versionlog.NewStoreID()}) == nil {
			s.Error("a store without a slug was created")
		}
		if s.log.CreateStore(s.Context(), versionlog.Store{Slug: "x"}) == nil {
			s.Error("a store without an id was created")
		}
	},
	"OrderedBySlug": func(s *suite) {
		b, a, z := s.addStore("b"), s.addStore("a"), s.addStore("z")
		s.in(a, func() { s.archive() })
		var slugs []string
		for _, store := range s.stores() {
			slugs = append(slugs, store.Slug)
		}
		all := []string{a.Slug, b.Slug, s.store.Slug, z.Slug}
		s.equal(slugs, all)
		for i, slug := range all {
			var behind []string
			for _, store := range collect(s.T, s.log.Stores(s.Context(), slug)) {
				behind = append(behind, store.Slug)
			}
			s.equal(len(behind), len(all)-i-1)
			s.equal(append(all[:i+1:i+1], behind...), all)
		}
		s.equal(len(collect(s.T, s.log.Stores(s.Context(), "b!"))), 2)
	},
	"Delete":  testDeleteStore,
	"Unknown": testUnknownStore,
	"Apart":   testStoresApart,
}

// wholeQuota is the update that makes q the quota.
func wholeQuota(q versionlog.Quota) versionlog.StoreUpdate {
	return versionlog.StoreUpdate{QuotaBytes: &q.Bytes, QuotaMemories: &q.Memories, QuotaPerHour: &q.PerHour}
}

func (s *suite) stores() []versionlog.Store {
	s.Helper()
	return collect(s.T, s.log.Stores(s.Context(), ""))
}

func testDeleteStore(s *suite) {
	v := s.put("/a", "1")
	other := s.addStore("other")
	s.must(s.log.DeleteStore(s.Context(), s.store.ID))
	s.isUnknown(s.store.ID, v)
	if _, err := s.log.StoreNamed(s.Context(), s.store.Slug); err == nil {
		s.Error("a deleted store is found by its slug")
	}
	s.equal(s.stores(), []versionlog.Store{other})

	s.store = s.addStore(s.store.Slug) // the slug is free again
	s.equal(s.tip(), versionlog.Tip{})
	s.equal(len(s.heads("/"))+len(s.commits(0))+len(s.history(v.MemoryID)), 0)
	_, err := s.log.Last(s.Context(), s.store.ID, "/a")
	s.wantErr(err, versionlog.ErrNotFound)
	s.equal(s.put("/a", "2").Seq, uint64(1))
}

func testUnknownStore(s *suite) {
	v := s.put("/a", "1")
	s.isUnknown(versionlog.NewStoreID(), v)
	s.isUnknown("", v)
	_, err := s.log.StoreNamed(s.Context(), "unknown")
	s.wantErr(err, versionlog.ErrNotFound)
}

func (s *suite) isUnknown(id string, v versionlog.Version) {
	s.Helper()
	ctx := s.Context()
	_, storeErr := s.log.Store(ctx, id)
	_, commitErr := s.log.Commit(ctx, id, proposal(put("/a", "1", anything)))
	_, tipErr := s.log.Tip(ctx, id)
	_, headErr := s.log.Head(ctx, id, v.Path)
	_, lastErr := s.log.Last(ctx, id, v.Path)
	_, versionErr := s.log.Version(ctx, id, v.ID)
	_, newestErr := s.log.Newest(ctx, id, v.MemoryID)
	_, stateErr := s.log.At(ctx, id, 0)
	_, seqErr := s.log.SeqAt(ctx, id, s.clock.now())
	for what, err := range map[string]error{
		"Store": storeErr, "Commit": commitErr, "Tip": tipErr, "Head": headErr, "Last": lastErr, "Version": versionErr,
		"DeleteStore":   s.log.DeleteStore(ctx, id),
		"Event":         eventError(s.log.Commit(ctx, id, event(versionlog.StoreArchived()))),
		"CommitsBefore": firstError(s.log.CommitsBefore(ctx, id, 0, versionlog.Filter{})),
		"Newest":        newestErr, "At": stateErr, "SeqAt": seqErr,
		"Wait":    s.log.Wait(ctx, id, 0),
		"Heads":   firstError(s.log.Heads(ctx, id, "/", "")),
		"History": firstError(s.log.History(ctx, id, v.MemoryID, 0)),
		"Commits": firstError(s.log.Commits(ctx, id, 0)), "Children": firstError(s.log.Children(ctx, id, "/")),
	} {
		s.Log(what)
		s.wantErr(err, versionlog.ErrNotFound)
	}
}

func testStoresApart(s *suite) {
	v := s.put("/a", "1")
	key := s.commits(0)[0].Key
	s.store = s.addStore("other")
	s.equal(s.tip(), versionlog.Tip{})
	s.equal(len(s.heads("/"))+len(s.history(v.MemoryID))+len(s.commits(0)), 0)
	_, err := s.log.Version(s.Context(), s.store.ID, v.ID)
	s.wantErr(err, versionlog.ErrNotFound)
	_, err = s.log.Last(s.Context(), s.store.ID, "/a")
	s.wantErr(err, versionlog.ErrNotFound)

	revive := put("/a", "1", anything)
	revive.MemoryID = v.MemoryID
	_, err = s.try(revive)
	s.wantErr(err, versionlog.ErrInvalid)

	p := proposal(put("/a", "1", anything))
	p.Key = key // keys belong to their store
	c, err := s.log.Commit(s.Context(), s.store.ID, p)
	s.must(err)
	s.equal(len(c.Versions), 1)
	s.equal(c.StoreID, s.store.ID)
}
