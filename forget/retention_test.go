package forget

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"mneme/cas"
	"mneme/cas/memcas"
	"mneme/memory"
	"mneme/versionlog"
	"mneme/versionlog/memlog"
)

// TestRetention: a rule lets go of versions that both its bounds let go of, never of a head
// or of a version that was replaced within the grace time, and contents that no version has
// any longer are deleted. A reader of an erased version gets an error that names the rule;
// the history is whole.
func TestRetention(t *testing.T) {
	for name, c := range map[string]struct {
		days, versions int64
		grace          time.Duration
		want           string // what goes
		contents       int
		bytes          int64
	}{
		"no rule":                {0, 0, 0, "", 0, 0},
		"days":                   {3, 0, 0, "a1 a2 gone gone'", 2, 6},
		"more days":              {8, 0, 0, "a1", 0, 0},
		"versions":               {0, 2, 0, "a1 a2", 1, 2},
		"one version":            {0, 1, 0, "a1 a2 a3 b1 gone", 4, 14},
		"one version, and grace": {0, 1, 36 * time.Hour, "a1 a2 gone", 2, 6},
		"both":                   {3, 2, 0, "a1 a2", 1, 2},
		"both, many versions":    {1, 9, 0, "", 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
			blobs := memcas.New()
			log := memlog.New(&memlog.Options{Now: func() time.Time { return now }})
			lib := memory.NewLibrary(log, func(string) (cas.Store, error) { return blobs, nil })
			info, err := lib.CreateStore(ctx, "notes", &memory.StoreOptions{
				Policy: versionlog.Policy{Retention: versionlog.Retention{KeepDays: c.days, KeepVersions: c.versions}},
			})
			if err != nil {
				t.Fatal(err)
			}
			st, err := lib.Open(ctx, info.ID, &memory.Author{Actor: versionlog.Actor{Kind: versionlog.ActorUser, ID: "ada"}})
			if err != nil {
				t.Fatal(err)
			}
			names, versions := map[string]string{}, map[string]versionlog.Version{}
			on := func(day int, name, path, text string) {
				t.Helper()
				now = time.Date(2026, 11, day, 12, 0, 0, 0, time.UTC)
				var v versionlog.Version
				if text == "" {
					v, err = st.Remove(ctx, path, versionlog.ExpectAny())
				} else {
					v, err = st.Write(ctx, path, []byte(text), versionlog.ExpectAny())
				}
				if err != nil {
					t.Fatal(err)
				}
				names[v.ID], versions[name] = name, v
			}
			on(1, "a1", "/a", "shared")
			on(1, "b1", "/b", "b1b1b1")
			on(1, "gone", "/gone", "gone")
			on(2, "a2", "/a", "a2")
			on(4, "s", "/s", "shared")
			on(6, "gone'", "/gone", "")
			on(7, "a3", "/a", "a3")
			on(10, "a4", "/a", "a4")
			on(10, "b2", "/b", "b2")
			now = time.Date(2026, 11, 11, 0, 0, 0, 0, time.UTC)

			found, err := FindExpired(ctx, st, now, c.grace, func(int, int) {})
			if err != nil {
				t.Fatal(err)
			}
			var goes []string
			for _, id := range found.Versions {
				goes = append(goes, names[id])
			}
			if got := strings.Join(goes, " "); !sameNames(got, c.want) || found.Contents != c.contents || found.Bytes != c.bytes {
				t.Errorf("%s goes with %d contents, %d bytes", got, found.Contents, found.Bytes)
			}
			done, err := LetGo(ctx, st, found, func(int, int) {})
			if err != nil || !slices.Equal(done.Versions, found.Versions) || done.Erased != c.contents {
				t.Fatalf("%+v, %v", done, err)
			}
			for name, v := range versions {
				v, err := log.Version(ctx, info.ID, v.ID)
				if err != nil {
					t.Fatal(err)
				}
				_, err = st.Content(ctx, v)
				var erased *memory.RedactedError
				switch {
				case !strings.Contains(" "+c.want+" ", " "+name+" "):
					if err != nil && v.Live() {
						t.Errorf("%s, which stays: %v", name, err)
					}
				case !errors.As(err, &erased) || erased.Rule != found.Rule || !strings.Contains(err.Error(), "the store keeps "+found.Rule.String()):
					t.Errorf("%s, which is gone: %v", name, err)
				}
			}
			wantWhole(t, st)
			if erased, err := st.RedactedVersions(ctx); err != nil || len(erased) > 0 {
				t.Errorf("nobody has redacted %v, %v", erased, err)
			}
			if again, err := FindExpired(ctx, st, now, c.grace, func(int, int) {}); err != nil || len(again.Versions) > 0 {
				t.Errorf("found once more: %+v, %v", again, err)
			}
		})
	}
}

// sameNames compares names in any order.
func sameNames(a, b string) bool {
	count := map[string]int{}
	for _, name := range strings.Fields(a) {
		count[name]++
	}
	for _, name := range strings.Fields(b) {
		count[name]--
	}
	for _, n := range count {
		if n != 0 {
			return false
		}
	}
	return true
}
