package forget

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mneme/cas"
	"mneme/cas/memcas"
	"mneme/memory"
	"mneme/session/conflict"
	"mneme/versionlog"
)

// farLog is a log of another machine.
type farLog struct{ versionlog.Log }

func (l farLog) Capabilities() versionlog.Capabilities {
	can := l.Log.Capabilities()
	can.Near = false
	return can
}

// TestFollower: a process that follows a store, or asks it, erases kept conflicts of redacted versions, and no
// others, and clears memory when it is calm, and two minutes later; also after redactions before it began.
func TestFollower(t *testing.T) {
	for name, c := range map[string]struct {
		far, before bool
		within      time.Duration
	}{
		"near":                     {within: time.Second},
		"on another machine":       {far: true, within: lookEvery + time.Second},
		"before it began":          {before: true, within: time.Second},
		"before, and on another's": {far: true, before: true, within: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				var log versionlog.Log = r.log
				if c.far {
					log = farLog{log}
				}
				lib := memory.NewLibrary(log, func(string) (cas.Store, error) { return memcas.New(), nil })
				var cleared atomic.Int32
				f := NewFollower(&FollowerOptions{Library: lib, Kept: r.machine.Conflicts, Clear: func() { cleared.Add(1) }, Free: func() {}})
				f.Start()
				defer f.Close()
				v := r.write("the canary")
				r.write("clean")
				keep := func(version string) int {
					id, err := r.conflicts.Keep(conflict.About{Path: "/a.md", Base: &conflict.Side{Version: version}}, conflict.Texts{Yours: []byte("mine")})
					r.must(err)
					return id
				}
				other := keep("memver_other")
				erase := func() {
					_, err := redact(r.st, "a test", v.ID)
					r.must(err)
				}
				if c.before {
					erase()
				}
				keep(v.ID)
				f.Follow(r.st.Info().ID)
				synctest.Wait()
				if !c.before {
					time.Sleep(time.Minute / 2)
					erase()
				}
				f.Busy()
				time.Sleep(c.within)
				synctest.Wait()
				if ids, err := r.conflicts.IDs(); err != nil || len(ids) != 1 || ids[0] != other {
					t.Errorf("conflicts %v are kept, %v", ids, err)
				}
				if cleared.Load() != 1 || !f.IsRecent() {
					t.Errorf("memory was cleared %d times", cleared.Load())
				}
				time.Sleep(versionlog.MaxSkew + 3*ErasedWithin) // until then it may be new by a clock of elsewhere
				synctest.Wait()
				if cleared.Load() < 2 || f.IsRecent() {
					t.Errorf("memory was cleared %d times", cleared.Load())
				}
			})
		})
	}
}

// TestFollowerWaits: memory is cleared once the process is calm.
func TestFollowerWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		var cleared atomic.Int32
		f := NewFollower(&FollowerOptions{Clear: func() { cleared.Add(1) }})
		f.Start()
		defer f.Close()
		f.Met(r.st, &versionlog.Commit{Event: versionlog.StoreRedacted("memver_x")})
		for range 5 {
			f.Busy()
			time.Sleep(calm / 2)
			synctest.Wait()
		}
		if cleared.Load() > 0 {
			t.Error("memory is cleared while the process is busy")
		}
		time.Sleep(calm)
		synctest.Wait()
		if cleared.Load() != 1 {
			t.Errorf("memory was cleared %d times", cleared.Load())
		}
	})
}
