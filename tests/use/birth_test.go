package use

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"mneme/tests/harness"
)

// born returns the time of creation of a file of the mount, as statx tells it.
func born(t testing.TB, m *harness.Mount, name string) time.Time {
	t.Helper()
	out := strings.TrimSpace(m.Sh(t, "stat -c %.9W "+name))
	seconds, nanoseconds, _ := strings.Cut(out, ".")
	s, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.ParseInt(nanoseconds, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return time.Unix(s, n).UTC()
}

// firstVersion returns the time of the first version of the memory at a place.
func firstVersion(t testing.TB, e *harness.Env, place string) (at time.Time) {
	t.Helper()
	memory := ""
	for line := range strings.Lines(e.Must(t, "log", "--json", place)) { // newest first, other memories that were there last
		var v struct {
			MemoryID  string    `json:"memory_id"`
			CreatedAt time.Time `json:"created_at"`
		}
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatal(err)
		}
		if memory == "" || memory == v.MemoryID {
			memory, at = v.MemoryID, v.CreatedAt
		}
	}
	return at
}

// wantBorn holds that a file is as old as the memory at a path.
func wantBorn(t testing.TB, m *harness.Mount, name, path string) {
	t.Helper()
	want := firstVersion(t, m.Env, "notes:"+path).Truncate(time.Millisecond)
	if got := born(t, m, name); !got.Equal(want) {
		t.Errorf("%s is of %v, want %v, the time of the first version of %s", name, got, want, path)
	}
}

// TestBirth holds that a file was created when its memory got its first version, whatever has
// become of it since, and whichever program has asked before.
func TestBirth(t *testing.T) {
	t.Parallel()
	e := harness.NewEnv(t)
	a, b := e.Mount(t, "notes"), e.Mount(t, "notes")
	a.Sh(t, "echo one > f; stat f; echo three > h; mkdir d")
	wantBorn(t, a, "f", "/f")
	a.Sh(t, "sleep 0.01; echo two >> f")
	wantBorn(t, a, "f", "/f")
	wantBorn(t, b, "f", "/f")

	// A save by rename, with a temporary file whose time was asked for.
	a.Sh(t, "echo three > f.tmp; stat f.tmp; stat f.tmp; sleep 0.01; mv f.tmp f; cat f; ls -l f")
	wantBorn(t, a, "f", "/f")
	a.Sh(t, "mv f d/g")
	wantBorn(t, a, "d/g", "/d/g")
	wantBorn(t, b, "d/g", "/d/g")

	// Asked for while it is written.
	a.Sh(t, "exec 3> new; echo text >&3; sleep 0.01; stat new; sync new; stat -c %.9W new > born; echo more >&3; exec 3>&-; ls -l new")
	wantBorn(t, a, "new", "/new")
	if synced, closed := a.Sh(t, "cat born"), a.Sh(t, "stat -c %.9W new"); synced != closed {
		t.Errorf("a file that was synced is of %s, and once it was closed of %s", synced, closed)
	}
	wantBorn(t, b, "new", "/new")

	// Another memory at the path, made by the other session.
	b.Sh(t, "stat h; rm h; sleep 0.01; echo other > h")
	wantBorn(t, b, "h", "/h")
	a.Eventually(t, `test "$(cat h)" = other`)
	wantBorn(t, a, "h", "/h")

	again := e.Mount(t, "notes")
	for name, path := range map[string]string{"d/g": "/d/g", "h": "/h", "new": "/new"} {
		wantBorn(t, again, name, path)
	}
	again.Sh(t, "exec 3> scratch~") // without content, so that nothing is kept
	for _, name := range []string{".", "d", ".mneme/status", "scratch~"} {
		if at := born(t, again, name); time.Since(at) > time.Hour || time.Until(at) > 0 {
			t.Errorf("%s is of %v", name, at)
		}
	}
}

// TestBirthIsAskedOnce holds that a program that needs times of creation costs one request for
// each file, and one that does not need them costs none.
func TestBirthIsAskedOnce(t *testing.T) {
	t.Parallel()
	e := harness.NewEnv(t)
	m := e.Mount(t, "notes", "--metrics-addr=:0")
	m.Sh(t, "for i in 1 2 3 4 5; do echo $i > f$i; done; ls -l; cat f*")
	if n := m.Requests(t)["STATX"]; n != 0 {
		t.Errorf("%d requests for a time that nobody wants", n)
	}
	m.Sh(t, "stat f*; stat f*; ls -l; stat f*")
	if n := m.Requests(t)["STATX"]; n != 5 {
		t.Errorf("%d requests for the times of 5 files", n)
	}
	m.Sh(t, "mv f1 g1; echo more >> f2; echo new > t.tmp; mv t.tmp f3; ls -l; stat g1 f2 f3 f4 f5")
	if n := m.Requests(t)["STATX"]; n > 9 {
		t.Errorf("%d requests, of which 4 can be of what has changed", n)
	}
}
