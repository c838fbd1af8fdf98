package spool

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// write keeps an entry, which is that of a file if that is not 0.
func write(t *testing.T, s *Spool, path, text string, file uint64) *Slot {
	t.Helper()
	slot, err := s.Write(Entry{Key: "key of " + path, Path: path, Session: "s1", Time: time.Unix(1, 0).UTC(), File: file, Data: []byte(text)})
	must(t, err)
	return slot
}

// die lets go of a spool as the death of its process does.
func die(t *testing.T, s *Spool) { must(t, s.lock.Close()) }

// dead returns the only dead spool.
func dead(t *testing.T, parent string) *Left {
	t.Helper()
	all, err := Dead(parent)
	must(t, err)
	if len(all) != 1 {
		t.Fatalf("%d dead spools, want 1", len(all))
	}
	return all[0]
}

// rests is what is left, in order, as "path=text"; a damaged slot is "damaged".
func rests(t *testing.T, l *Left) (all []string) {
	t.Helper()
	list, err := l.Rests()
	must(t, err)
	for _, r := range list {
		if r.Entry == nil {
			all = append(all, "damaged")
		} else {
			all = append(all, r.Path+"="+string(r.Data))
		}
	}
	return all
}

func wantRests(t *testing.T, l *Left, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, rests(t, l)); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
}

// TestDead follows entries through the death of their process: what was dropped is
// not there, of a file the newest is, and a spool is settled once.
func TestDead(t *testing.T) {
	parent := filepath.Join(t.TempDir(), "a", "b")
	s := New(parent, 1<<20)
	if all, err := Dead(parent); err != nil || len(all) > 0 {
		t.Errorf("before anything was written: %v, %v", all, err)
	}
	first := write(t, s, "/1", "one", 0)
	gone := write(t, s, "/2", "two, which is longer", 0)
	must(t, first.Sync())
	must(t, gone.Sync())
	must(t, gone.Drop())
	write(t, s, "/3", "three", 0) // in the slot of the second
	write(t, s, "/1", "one again", first.File())
	if all, err := Dead(parent); err != nil || len(all) > 0 {
		t.Errorf("of a living process: %v, %v", all, err)
	}
	die(t, s)

	l := dead(t, parent)
	if again, err := Dead(parent); err != nil || len(again) > 0 {
		t.Errorf("while somebody settles it: %v, %v", again, err)
	}
	wantRests(t, l, "/3=three", "/1=one again")
	list, err := l.Rests()
	must(t, err)
	if list[0].Key != "key of /3" || list[0].Session != "s1" || !list[0].Time.Equal(time.Unix(1, 0)) {
		t.Errorf("entry %+v", list[0].Entry)
	}
	must(t, list[1].Remove())
	must(t, l.Close()) // as if it were killed

	l = dead(t, parent)
	wantRests(t, l, "/3=three")
	list, err = l.Rests()
	must(t, err)
	must(t, list[0].Remove())
	must(t, l.Remove())
	if names, err := os.ReadDir(parent); err != nil || len(names) > 0 {
		t.Errorf("left in the directory: %v, %v", names, err)
	}
}

// TestWipe: no byte of settled entries is left, and all bytes of unsettled ones are.
func TestWipe(t *testing.T) {
	parent := t.TempDir()
	s := New(parent, 1<<20)
	settled, longer := write(t, s, "/a", "canary", 0), write(t, s, "/b", strings.Repeat("canary ", 100), 0)
	late := write(t, s, "/c", "canary", 0)
	must(t, settled.Drop())
	must(t, longer.Drop())
	waits := write(t, s, "/b", "waits", 0) // in the place of the longer one
	must(t, s.Wipe())
	must(t, s.Wipe())
	if e, err := waits.Read(); err != nil || string(e.Data) != "waits" {
		t.Errorf("what waits is %+v, %v", e, err)
	}
	must(t, late.Drop())
	wantNone(t, parent, "canary")
	write(t, s, "/c", "more", 0)
	must(t, waits.Drop())
}

// TestRemoveSettled is TestWipe where the process was killed: what waits stays, and is told of.
func TestRemoveSettled(t *testing.T) {
	parent := t.TempDir()
	s := New(parent, 1<<20)
	longer, settled := write(t, s, "/b", strings.Repeat("canary ", 100), 0), write(t, s, "/a", "canary", 0)
	must(t, longer.Drop())
	write(t, s, "/b", "waits", 0) // in the place of the longer one
	must(t, settled.Drop())
	count := func(e *Entry) error {
		if e == nil || string(e.Data) != "waits" {
			t.Errorf("waits: %+v", e)
		}
		return syscall.EBUSY
	}
	if n, err := RemoveSettled(parent, count); n != 0 || err != nil {
		t.Errorf("of a living process: %d, %v", n, err)
	}
	die(t, s)
	for _, want := range []int{1, 0} {
		if n, err := RemoveSettled(parent, count); n != want || !errors.Is(err, syscall.EBUSY) {
			t.Errorf("removed %d, %v, want %d and what count says", n, err, want)
		}
	}
	wantNone(t, parent, "canary")
	l := dead(t, parent)
	wantRests(t, l, "/b=waits")
	list, err := l.Rests()
	must(t, err)
	must(t, list[0].Remove())
	must(t, l.Close())
	if n, err := RemoveSettled(parent, count); n != 1 || err != nil {
		t.Errorf("with nothing that waits: %d, %v", n, err)
	}
	if names, err := os.ReadDir(parent); err != nil || len(names) > 0 {
		t.Errorf("left in the directory: %v, %v", names, err)
	}
}

// wantNone looks for a text in the files below a directory.
func wantNone(t *testing.T, dir, text string) {
	t.Helper()
	files := 0
	must(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if files++; bytes.Contains(data, []byte(text)) {
			t.Errorf("%s has it", path)
		}
		return err
	}))
	if files < 2 {
		t.Errorf("%d files", files)
	}
}

// TestKilledWhileRemoving holds that a directory whose lock is gone is removed, and
// that a new one has its name only once it is locked.
func TestKilledWhileRemoving(t *testing.T) {
	parent := t.TempDir()
	must(t, os.Mkdir(filepath.Join(parent, dirPrefix+"X"), 0o700))
	if all, err := Dead(parent); err != nil || len(all) > 0 {
		t.Errorf("%v, %v", all, err)
	}
	if names, err := os.ReadDir(parent); err != nil || len(names) > 0 {
		t.Errorf("left in the directory: %v, %v", names, err)
	}
}

// TestEnd gives what is left of a spool to its own process.
func TestEnd(t *testing.T) {
	s := New(t.TempDir(), 1<<20)
	slot := write(t, s, "/1", "one", 0)
	write(t, s, "/2", "two", 0)
	l := s.End()
	if s.End() != nil {
		t.Error("it has ended twice")
	}
	if _, err := s.Write(Entry{Path: "/3"}); !errors.Is(err, ErrEnded) {
		t.Errorf("write after the end: %v", err)
	}
	must(t, slot.Drop())
	wantRests(t, l, "/2=two")
	must(t, l.Close())
	if New(t.TempDir(), 1).End() != nil {
		t.Error("nothing was written, and something is left")
	}
}

// TestLimit holds that a spool is bounded, with ENOSPC, and that what is dropped
// makes room.
func TestLimit(t *testing.T) {
	s := New(t.TempDir(), 3000)
	slot := write(t, s, "/1", strings.Repeat("x", 2000), 0)
	if _, err := s.Write(Entry{Path: "/2", Data: make([]byte, 1000)}); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("above the limit: %v", err)
	}
	if e, err := slot.Read(); err != nil || e.Path != "/1" || len(e.Data) != 2000 {
		t.Errorf("read: %+v, %v", e, err)
	}
	must(t, slot.Drop())
	write(t, s, "/2", strings.Repeat("x", 1000), 0)
}

// TestSlotsAreFewAndSmall holds that dropped entries leave few files behind, and
// that a slot is written to again.
func TestSlotsAreFewAndSmall(t *testing.T) {
	parent := t.TempDir()
	s := New(parent, 100<<20)
	for i := range 3 {
		var slots []*Slot
		for j := range 10 {
			slots = append(slots, write(t, s, fmt.Sprint("/", i, j), "text", 0))
		}
		slots = append(slots, write(t, s, "/large", strings.Repeat("x", maxFreeBytes), 0))
		for _, slot := range slots {
			must(t, slot.Drop())
		}
	}
	files, err := filepath.Glob(filepath.Join(s.parent.Path(), s.dir, "[0-9]*"))
	must(t, err)
	for _, f := range files {
		if info, err := os.Stat(f); err != nil || info.Size() > maxFreeBytes {
			t.Errorf("%s: %v, %v", f, info.Size(), err)
		}
	}
	if len(files) > maxFree {
		t.Errorf("%d files are left", len(files))
	}
}

// TestUnwritable holds that what cannot be kept is an error with its errno.
func TestUnwritable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o600))
	if _, err := New(filepath.Join(file, "below"), 1<<20).Write(Entry{Path: "/1"}); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("%v, want ENOTDIR", err)
	}
}

// TestCutOff cuts a record off at every byte, and puts the beginning of another one
// over it: it is that record, or the other, or damaged, and never anything else.
func TestCutOff(t *testing.T) {
	e := &Entry{Key: "k", Path: "/a", Session: "s", Number: 1, File: 1, Data: []byte("some text")}
	other := &Entry{Key: "l", Path: "/b", Session: "s", Number: 2, File: 2, Data: []byte("another, longer text")}
	record, err := encode(e)
	must(t, err)
	over, err := encode(other)
	must(t, err)
	for n := range record {
		if got, err := decode(record[:n]); !errors.Is(err, errTorn) {
			t.Fatalf("cut off at byte %d: %+v, %v", n, got, err)
		}
		if got, err := decode(flipped(record, n)); err == nil {
			t.Fatalf("byte %d is another: %+v", n, got)
		}
	}
	for n := range over {
		torn := append(append([]byte{}, over[:n]...), record[min(n, len(record)):]...)
		got, err := decode(torn)
		if err == nil && !cmp.Equal(got, e) || err != nil && !errors.Is(err, errTorn) {
			t.Fatalf("%d bytes of another record: %+v, %v", n, got, err)
		}
	}
	if got, err := decode(append(over, record...)); err != nil || !cmp.Equal(got, other) {
		t.Errorf("before what is left of a longer one: %+v, %v", got, err)
	}
	record[stateAt] = dropped
	if _, err := decode(record); !errors.Is(err, errDropped) {
		t.Errorf("dropped: %v", err)
	}
}

func flipped(b []byte, at int) []byte {
	b = bytes.Clone(b)
	b[at] ^= 1
	return b
}

// TestDamagedSlot holds that a slot which is cut off does not hide what was
// acknowledged before.
func TestDamagedSlot(t *testing.T) {
	parent := t.TempDir()
	s := New(parent, 1<<20)
	first := write(t, s, "/1", "one", 0)
	second := write(t, s, "/1", "one again", first.File())
	must(t, second.f.Truncate(100))
	die(t, s)
	wantRests(t, dead(t, parent), "/1=one", "damaged")
}

// FuzzDecode reads any bytes: whatever is taken for an entry is what would be
// written for it.
func FuzzDecode(f *testing.F) {
	record, err := encode(&Entry{Key: "k", Path: "/a", Session: "s", Number: 1, File: 1, Data: []byte("some text")})
	must(f, err)
	f.Add(record)
	f.Add(record[:headSize])
	f.Add([]byte(nil))
	f.Fuzz(func(t *testing.T, file []byte) {
		e, err := decode(file)
		if err != nil {
			return
		}
		again, err := encode(e)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := decode(again); err != nil || !cmp.Equal(back, e) {
			t.Errorf("%+v becomes %+v, %v", e, back, err)
		}
	})
}

// TestGolden reads a slot as the first mneme that had them wrote it.
func TestGolden(t *testing.T) {
	file, err := os.ReadFile("testdata/slot-v1")
	must(t, err)
	want := &Entry{
		Key: "06h13tafh0es8es6dnj4gyrfpm", Path: "/d/plan.md.tmp", Session: "s1", Time: time.Date(2026, 11, 25, 9, 0, 0, 1000, time.UTC),
		File: 3, Number: 7, Data: []byte("Ship on Monday.\n"),
	}
	got, err := decode(file)
	if err != nil || !cmp.Equal(got, want) {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	if again, err := encode(want); err != nil || !bytes.HasPrefix(file, again) {
		t.Errorf("it is written in another way now, %v", err)
	}
}

// A link that another user has made leads to no spool.
func TestPlantedLink(t *testing.T) {
	parent, victim := t.TempDir(), t.TempDir()
	for _, name := range []string{lockName, "1"} {
		must(t, os.WriteFile(filepath.Join(victim, name), nil, 0o600))
	}
	must(t, os.Symlink(victim, filepath.Join(parent, dirPrefix+"x")))
	all, err := Dead(parent)
	if len(all) > 0 || err == nil {
		t.Errorf("%d dead spools, %v", len(all), err)
	}
	for _, l := range all {
		_ = l.Remove()
	}
	if left, err := os.ReadDir(victim); len(left) != 2 {
		t.Errorf("outside there is %v, %v", left, err)
	}
}
