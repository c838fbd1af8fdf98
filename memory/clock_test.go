package memory

import (
	"errors"
	"testing"
	"time"

	"mneme/cas"
	"mneme/cas/memcas"
	"mneme/versionlog"
	"mneme/versionlog/memlog"
)

// commonClock is a log whose writers have a clock in common, on one machine or on many.
type commonClock struct {
	versionlog.Log
	near  bool
	now   time.Time
	ahead time.Duration
}

func (l commonClock) Capabilities() versionlog.Capabilities {
	can := l.Log.Capabilities()
	can.Near, can.Clock = l.near, func() (time.Time, time.Duration) { return l.now, l.ahead }
	return can
}

// TestCheckClock tries clocks by which versions could be erased too early.
func TestCheckClock(t *testing.T) {
	at := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	const year = 8760 * time.Hour
	for name, tc := range map[string]struct {
		since, ahead time.Duration // since the newest commit
		near         bool
		want         error
	}{
		"right":                           {time.Hour, 0, true, nil},
		"a year ahead of the files":       {time.Hour, year, true, ErrClock},
		"a year behind the servers":       {time.Hour, -year, false, ErrClock},
		"nothing was written for a year":  {year, 0, true, ErrClockDoubt},
		"the same, by a server's clock":   {year, 0, false, nil},
		"the newest version is ahead":     {-time.Hour, 0, true, ErrClockDoubt},
		"the newest is ahead by a minute": {-time.Minute, 0, true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			log, blobs := memlog.New(&memlog.Options{Now: func() time.Time { return at }}), memcas.New()
			lib := NewLibrary(commonClock{log, tc.near, at.Add(tc.since), tc.ahead}, func(string) (cas.Store, error) { return blobs, nil })
			if err := lib.CheckClock(t.Context()); tc.ahead == 0 && err != nil {
				t.Errorf("without any store: %v", err)
			}
			for _, name := range []string{"a", "b"} {
				s, err := lib.CreateStore(t.Context(), name, nil)
				if err != nil {
					t.Fatal(err)
				}
				st, err := lib.Open(t.Context(), s.ID, &Author{})
				if err == nil {
					_, err = st.Write(t.Context(), "/f", []byte("x"), versionlog.ExpectAbsent())
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			err := lib.CheckClock(t.Context())
			if !errors.Is(err, tc.want) || errors.Is(err, ErrClockDoubt) != (tc.want == ErrClockDoubt) {
				t.Errorf("%v, want %v", err, tc.want)
			}
		})
	}
}
