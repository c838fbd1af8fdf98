package private

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"mneme/errkind"
	"mneme/internal/durable"

	"github.com/google/go-cmp/cmp"
)

func modes(t *testing.T, m *Modes) map[string]uint32 {
	t.Helper()
	all := map[string]uint32{}
	for key, e := range m.Find(func(string, Entry) bool { return true }) {
		all[key] = e.Mode
	}
	return all
}

func loaded(t *testing.T, dir string) map[string]uint32 {
	t.Helper()
	m := New(dir)
	if err := m.Load(); err != nil {
		t.Fatal(err)
	}
	return modes(t, m)
}

func note(t *testing.T, m *Modes, changes ...Change) {
	t.Helper()
	if err := m.Note(changes...); err != nil {
		t.Fatal(err)
	}
}

// Two mounts add to one file, which stays short, and neither loses the other's.
func TestNote(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "dir")
	a, b := New(dir), New(dir)
	note(t, a, Change{Key: "mem_a", Mode: 0o600}, Change{Key: "/d e/ f", Mode: 0o700})
	note(t, b, Change{Key: "mem_b", Mode: 0o640})
	note(t, a, Change{Key: "/d e/ f", Forget: true}, Change{Key: "/g", Mode: 0o711})
	want := map[string]uint32{"mem_a": 0o600, "mem_b": 0o640, "/g": 0o711}
	if diff := cmp.Diff(want, loaded(t, dir)); diff != "" {
		t.Error(diff)
	}
	path := filepath.Join(dir, FileName)
	if text, err := os.ReadFile(path); err != nil || os.WriteFile(path, append(text, "0600 17641"...), 0o600) != nil { // cut off by a crash
		t.Fatal(err)
	}
	note(t, b, Change{Key: "mem_c", Mode: 0o600})
	want["mem_c"] = 0o600
	if diff := cmp.Diff(want, loaded(t, dir)); diff != "" {
		t.Error(diff)
	}
	long := strings.Repeat("x", 1000)
	many := make([]Change, 500)
	for i := range many {
		many[i] = Change{Key: "/" + long, Mode: 0o700}
	}
	for range 10 {
		if err := a.write(many, time.Unix(1, 0)); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(path); err != nil || info.Size() > maxFile {
			t.Fatalf("the file has %d bytes (%v)", info.Size(), err)
		}
	}
	want["/"+long] = 0o700
	if diff := cmp.Diff(want, loaded(t, dir)); diff != "" {
		t.Error(diff)
	}
}

// Mounts that add at once lose nothing, and each addition is synced.
func TestNoteAtOnce(t *testing.T) {
	dir := t.TempDir()
	before := durable.Fsyncs()
	want := map[string]uint32{}
	var work sync.WaitGroup
	for i := range 4 {
		m := New(dir)
		for j := range 10 {
			want[fmt.Sprintf("mem_%d_%d", i, j)] = 0o600
		}
		work.Go(func() {
			for j := range 10 {
				if err := m.Note(Change{Key: fmt.Sprintf("mem_%d_%d", i, j), Mode: 0o600}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	work.Wait()
	if diff := cmp.Diff(want, loaded(t, dir)); diff != "" {
		t.Error(diff)
	}
	if n := durable.Fsyncs() - before; n < 40 {
		t.Errorf("%d fsyncs for 40 notes", n)
	}
}

// A line that was cut off when the machine crashed counts for nothing; what is damaged
// or newer is an error, so that no file is taken for one that was never private.
func TestLoad(t *testing.T) {
	const sound = header + "0600 1764107874 mem_a\n- 1764107874 mem_b\n0700 1764107874 /d\n"
	for text, want := range map[string]map[string]uint32{
		"":                                     {},
		sound:                                  {"mem_a": 0o600, "/d": 0o700},
		sound + "0600 1764107874 mem_":         {"mem_a": 0o600, "/d": 0o700},
		sound + "- 1764107874 mem_a\n":         {"/d": 0o700},
		sound + "0711 1764107875 /d\n":         {"mem_a": 0o600, "/d": 0o711},
		"mneme private 2\n":                    nil,
		header + "0900 1764107874 mem_a\n":     nil,
		header + "0600 mem_a\n":                nil,
		header + "01600 1764107874 mem_a\n":    nil,
		header + "\x00\x00\n":                  nil,
		strings.TrimPrefix(sound, header[:5]):  nil,
		header + "0600 1764107874 mem a b c\n": {"mem a b c": 0o600},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, FileName), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		m := New(dir)
		err := m.Load()
		if (want == nil) != (err != nil) {
			t.Errorf("%q: %v", text, err)
		} else if diff := cmp.Diff(want, modes(t, m)); want != nil && diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	}
}

// An entry that would pass the bound is refused, and leaves the rest as it is.
func TestFull(t *testing.T) {
	dir := t.TempDir()
	m := New(dir)
	many := make([]Change, maxLive/1000)
	for i := range many {
		many[i] = Change{Key: fmt.Sprintf("/%0900d", i), Mode: 0o700}
	}
	note(t, m, many...)
	for i := range many {
		many[i].Key += strings.Repeat("x", 80)
	}
	err := m.Note(many...)
	if !errors.Is(err, ErrFull) || errkind.Of(err) != errkind.OverQuota {
		t.Fatalf("past the bound: %v", err)
	}
	want := modes(t, m)
	if diff := cmp.Diff(want, loaded(t, dir)); diff != "" {
		t.Error(diff)
	}
	note(t, m, Change{Key: fmt.Sprintf("/%0900d", 1), Mode: 0o711})
	note(t, m, Change{Key: fmt.Sprintf("/%0900d", 2), Forget: true})
}
