package logtest

import (
	"errors"
	"strings"

	"mneme/errkind"
	"mneme/versionlog"
)

// testGuard: a store's guard holds back what shrinks a memory or deletes many, unless it is
// confirmed, in every log that has the store open.
func testGuard(s *suite) {
	try := func(deleted int64, confirmed bool, changes ...versionlog.Change) error {
		p := proposal(changes...)
		p.Deleted, p.Confirmed = deleted, confirmed
		_, err := s.log.Commit(s.Context(), s.store.ID, p)
		return err
	}
	held := func(want versionlog.GuardError, deleted int64, changes ...versionlog.Change) {
		s.Helper()
		s.unchanged(func() {
			var got *versionlog.GuardError
			err := try(deleted, false, changes...)
			if s.wantErr(err, versionlog.ErrGuarded); !errors.As(err, &got) || *got != want || errkind.Of(err) != errkind.Policy {
				s.Errorf("the error is %+v, want %+v", err, want)
			}
		})
	}
	text := func(n int) string { return strings.Repeat("x", n) }
	s.put("/large", text(1100))
	s.put("/small", text(1023))
	shrink, deletes := int64(50), int64(3)
	setter := s.log
	if s.cfg.Share != nil {
		setter = s.cfg.Share(s, s.log)
	}
	c, err := setter.Commit(s.Context(), s.store.ID, event(versionlog.StoreUpdated(versionlog.StoreUpdate{GuardShrinkPercent: &shrink, GuardDeletesPerMinute: &deletes})))
	s.must(err)
	s.store.Policy.Guard = versionlog.Guard{ShrinkPercent: shrink, DeletesPerMinute: deletes}
	s.store.UpdatedAt = c.Time
	s.must(try(0, false, put("/large", text(1100), anything))) // is there already
	held(versionlog.GuardError{Path: "/large", Before: 1100, Then: 549, Limit: 50}, 0, put("/other", "1", anything), put("/large", text(549), anything))
	held(versionlog.GuardError{Path: "/larger", Before: 1100, Then: 549, Limit: 50}, 0, renameAs("/large", "/larger", text(549), anything))
	s.must(try(0, false, put("/large", text(550), anything)))
	s.put("/small", "") // is none that the guard protects
	s.put("/large", text(2000))
	s.must(try(0, true, put("/large", "", anything)))

	s.commit(put("/a", "1", anything), put("/b", "1", anything), put("/c", "1", anything), put("/d", "1", anything))
	s.commit(versionlog.Change{Action: versionlog.MakeDir, Path: "/dir/", Expect: anything})
	all := []versionlog.Change{remove("/a", anything), remove("/b", anything), remove("/c", anything), remove("/d", anything)}
	held(versionlog.GuardError{More: 4, Limit: 3}, 0, all...)
	held(versionlog.GuardError{Deleted: 3, More: 1, Limit: 3}, 3, all[0])
	s.must(try(2, false, all[0], remove("/dir/", anything))) // of which one is no memory
	s.must(try(0, false, all[1:]...))
	s.put("/a", "1")
	s.must(try(100, true, all[0]))
}
