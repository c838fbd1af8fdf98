package tests

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"
)

// born returns the time of creation of a file of the mount, as statx tells it.
func (m *mount) born(t testing.TB, name string) time.Time {
	t.Helper()
	out := strings.TrimSpace(m.sh(t, "stat -c %.9W "+name))
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
func (e *env) firstVersion(t testing.TB, place string) (at time.Time) {
	t.Helper()
	memory := ""
	for line := range strings.Lines(e.must(t, "log", "--json", place)) { // newest first, other memories that were there last
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
func (m *mount) wantBorn(t testing.TB, name, path string) {
	t.Helper()
	want := m.env.firstVersion(t, "notes:"+path).Truncate(time.Millisecond)
	if got := m.born(t, name); !got.Equal(want) {
		t.Errorf("%s is of %v, want %v, the time of the first version of %s", name, got, want, path)
	}
}

// TestBirth holds that a file was created when its memory got its first version,
// whatever has become of it since, and whoever has asked before.
func TestBirth(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	a, b := e.mount(t, "notes"), e.mount(t, "notes")
	a.sh(t, "echo one > f; stat f; echo three > h; mkdir d")
	a.wantBorn(t, "f", "/f")
	a.sh(t, "sleep 0.01; echo two >> f")
	a.wantBorn(t, "f", "/f")
	b.wantBorn(t, "f", "/f")

	// A save by rename, with a temporary file whose time was asked for.
	a.sh(t, "echo three > f.tmp; stat f.tmp; stat f.tmp; sleep 0.01; mv f.tmp f; cat f; ls -l f")
	a.wantBorn(t, "f", "/f")
	a.sh(t, "mv f d/g")
	a.wantBorn(t, "d/g", "/d/g")
	b.wantBorn(t, "d/g", "/d/g")

	// Asked for while it is written.
	a.sh(t, "exec 3> new; echo text >&3; sleep 0.01; stat new; sync new; stat -c %.9W new > born; echo more >&3; exec 3>&-; ls -l new")
	a.wantBorn(t, "new", "/new")
	if synced, closed := a.sh(t, "cat born"), a.sh(t, "stat -c %.9W new"); synced != closed {
		t.Errorf("a file that was synced is of %s, and once it was closed of %s", synced, closed)
	}
	b.wantBorn(t, "new", "/new")

	// Another memory at the path, made by the other session.
	b.sh(t, "stat h; rm h; sleep 0.01; echo other > h")
	b.wantBorn(t, "h", "/h")
	a.eventually(t, `test "$(cat h)" = other`)
	a.wantBorn(t, "h", "/h")

	again := e.mount(t, "notes")
	for name, path := range map[string]string{"d/g": "/d/g", "h": "/h", "new": "/new"} {
		again.wantBorn(t, name, path)
	}
	again.sh(t, "exec 3> scratch~") // without content, so that nothing is kept
	for _, name := range []string{".", "d", ".mneme/status", "scratch~"} {
		if at := again.born(t, name); time.Since(at) > time.Hour || time.Until(at) > 0 {
			t.Errorf("%s is of %v", name, at)
		}
	}
}

// TestBirthIsAskedOnce holds that who wants times of creation costs one request
// for each file, and who does not none.
func TestBirthIsAskedOnce(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	m := e.mount(t, "notes", "--metrics-addr=:0")
	m.sh(t, "for i in 1 2 3 4 5; do echo $i > f$i; done; ls -l; cat f*")
	if n := m.requests(t)["STATX"]; n != 0 {
		t.Errorf("%d requests for a time that nobody wants", n)
	}
	m.sh(t, "stat f*; stat f*; ls -l; stat f*")
	if n := m.requests(t)["STATX"]; n != 5 {
		t.Errorf("%d requests for the times of 5 files", n)
	}
	m.sh(t, "mv f1 g1; echo more >> f2; echo new > t.tmp; mv t.tmp f3; ls -l; stat g1 f2 f3 f4 f5")
	if n := m.requests(t)["STATX"]; n > 9 {
		t.Errorf("%d requests, of which 4 can be of what has changed", n)
	}
}
