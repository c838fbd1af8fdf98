package logtest

import (
	"time"

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
		s.must(s.log.ArchiveStore(s.Context(), a.ID, s.clock.now()))
		var slugs []string
		for _, store := range s.stores() {
			slugs = append(slugs, store.Slug)
		}
		s.equal(slugs, []string{a.Slug, b.Slug, s.store.Slug, z.Slug})
	},
	"Update":          testUpdateStore,
	"Archive":         testArchive,
	"ArchivedCommits": testArchivedCommits,
	"Delete":          testDeleteStore,
	"Unknown":         testUnknownStore,
	"Apart":           testStoresApart,
}

// wholeQuota is the update that makes q the quota.
func wholeQuota(q versionlog.Quota) versionlog.StoreUpdate {
	return versionlog.StoreUpdate{QuotaBytes: &q.Bytes, QuotaMemories: &q.Memories, QuotaPerHour: &q.PerHour}
}

func updateError(_ versionlog.Store, err error) error { return err }

func (s *suite) stores() []versionlog.Store {
	s.Helper()
	all, err := s.log.Stores(s.Context())
	s.must(err)
	return all
}

func testUpdateStore(s *suite) {
	other := s.addStore("other")
	text, size, one := "something else", int64(1<<20), int64(1)
	for _, u := range []versionlog.StoreUpdate{
		{Description: &text}, {MaxMemoryBytes: &size}, {QuotaBytes: &one}, {QuotaMemories: &one}, {QuotaPerHour: &one},
		wholeQuota(versionlog.Quota{Bytes: 1, Memories: 2, PerHour: 3}),
	} {
		u.Apply(&s.store)
		got, err := s.log.UpdateStore(s.Context(), s.store.ID, u)
		s.must(err)
		s.equal(got, s.store)
		s.equal(s.stores(), []versionlog.Store{s.store, other})
	}
	made := s.store // what it is made with counts as well
	made.ID, made.Slug = versionlog.NewStoreID(), "made"
	s.must(s.log.CreateStore(s.Context(), made))
	got, err := s.log.StoreNamed(s.Context(), "made")
	s.must(err)
	s.equal(got, made)
}

func testArchive(s *suite) {
	at := time.Date(2026, 5, 1, 0, 0, 0, 5000, time.UTC)
	s.must(s.log.ArchiveStore(s.Context(), s.store.ID, at))
	s.must(s.log.ArchiveStore(s.Context(), s.store.ID, at.Add(time.Hour))) // keeps the first
	s.store.ArchivedAt = at
	s.equal(s.tip(), versionlog.Tip{ArchivedAt: at})
	got, err := s.log.Store(s.Context(), s.store.ID)
	s.must(err)
	s.equal(got, s.store)
	got, err = s.log.StoreNamed(s.Context(), s.store.Slug)
	s.must(err)
	s.equal(got, s.store)
}

func testArchivedCommits(s *suite) {
	s.put("/a", "1")
	s.put("/b", "1")
	s.must(s.log.ArchiveStore(s.Context(), s.store.ID, s.clock.now()))
	s.unchanged(func() {
		for _, c := range []versionlog.Change{put("/a", "2", anything), put("/c", "1", anything), rename("/a", "/c", anything)} {
			_, err := s.try(c)
			s.wantErr(err, versionlog.ErrArchived)
			_, err = s.try(c, remove("/b", anything))
			s.wantErr(err, versionlog.ErrArchived)
		}
		if c, err := s.try(put("/a", "1", anything)); err != nil || len(c.Versions) != 0 {
			s.Errorf("a put of what is there: %v, %v", c, err)
		}
	})
	s.commit(remove("/a", anything))
	s.equal(paths(s.heads("/")), []string{"/b"})
	if tip := s.tip(); tip.Seq != 3 || tip.ArchivedAt.IsZero() {
		s.Errorf("the tip of the archived store is %+v, want sequence 3 and when it was archived", tip)
	}
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
		"ArchiveStore": s.log.ArchiveStore(ctx, id, s.clock.now()), "DeleteStore": s.log.DeleteStore(ctx, id),
		"UpdateStore":   updateError(s.log.UpdateStore(ctx, id, versionlog.StoreUpdate{})),
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
