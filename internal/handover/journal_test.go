package handover

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func newJournal(t testing.TB) *Journal {
	t.Helper()
	j, err := New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.file.Close() })
	return j
}

// again opens what a process has left that was killed.
func again(t testing.TB, j *Journal) *Journal {
	t.Helper()
	fd, err := unix.Dup(int(j.file.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	next, err := Open(os.NewFile(uintptr(fd), "again"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = next.file.Close() })
	return next
}

func wantNotes(t testing.TB, j *Journal, want ...string) {
	t.Helper()
	notes, err := j.Notes()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, n := range notes {
		got = append(got, string(n))
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("the notes are %q, want %q", got, want)
	}
}

func batch(notes ...string) *Batch {
	b := &Batch{}
	for _, n := range notes {
		b.Add([]byte(n[:1]), []byte(n[1:]))
	}
	return b
}

func TestJournal(t *testing.T) {
	j := newJournal(t)
	wantNotes(t, again(t, j))
	for _, b := range []*Batch{batch("one"), batch("two", "three"), {}, batch("four")} {
		if err := j.Append(b); err != nil {
			t.Fatal(err)
		}
		if !b.Empty() {
			t.Error("a batch is not empty once it is appended")
		}
	}
	next := again(t, j)
	wantNotes(t, next, "one", "two", "three", "four")
	if err := next.Append(batch("five")); err != nil {
		t.Fatal(err)
	}
	wantNotes(t, again(t, next), "one", "two", "three", "four", "five")
	if err := next.Rewrite(batch("all")); err != nil {
		t.Fatal(err)
	}
	if err := next.Append(batch("and more")); err != nil {
		t.Fatal(err)
	}
	wantNotes(t, again(t, next), "all", "and more")
}

// TestCutOff leaves a batch out that was not written to its end, and goes on
// before it.
func TestCutOff(t *testing.T) {
	for cut := range 40 {
		j := newJournal(t)
		if err := j.Append(batch("whole")); err != nil {
			t.Fatal(err)
		}
		second := batch("not", "to its end, which is here").seal()
		if cut >= len(second) {
			break
		}
		if _, err := j.file.WriteAt(second[:cut], j.end); err != nil {
			t.Fatal(err)
		}
		next := again(t, j)
		wantNotes(t, next, "whole")
		if err := next.Append(batch("next")); err != nil {
			t.Fatal(err)
		}
		wantNotes(t, again(t, next), "whole", "next")
	}
}

// TestRewritingTakesNoMemory rewrites a journal again and again.
func TestRewritingTakesNoMemory(t *testing.T) {
	j := newJournal(t)
	note := string(bytes.Repeat([]byte("n"), 100<<10))
	for range 200 {
		for !j.Long() {
			if err := j.Append(batch(note)); err != nil {
				t.Fatal(err)
			}
		}
		if err := j.Rewrite(batch(note)); err != nil {
			t.Fatal(err)
		}
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(j.file.Fd()), &st); err != nil {
		t.Fatal(err)
	}
	if held := st.Blocks * 512; held > 1<<20 {
		t.Errorf("a journal of one note of 100 KB takes %d bytes", held)
	}
	wantNotes(t, again(t, j), note)
}

// TestRewritingLeavesNothing rewrites a journal, some of which was not written to its end by a process
// that was killed: what was noted before is neither in the file any more, nor in the batch.
func TestRewritingLeavesNothing(t *testing.T) {
	const text = "was noted"
	j := newJournal(t)
	b := batch(text)
	if err := j.Append(b); err != nil {
		t.Fatal(err)
	}
	notEnded := batch("n" + strings.Repeat(text, 10000)).seal()
	if _, err := j.file.WriteAt(notEnded[:len(notEnded)/2], j.end); err != nil {
		t.Fatal(err)
	}
	next := again(t, j)
	wantNotes(t, next, text)
	if err := next.Rewrite(batch("all")); err != nil {
		t.Fatal(err)
	}
	wantNotes(t, again(t, next), "all")
	file, err := io.ReadAll(io.NewSectionReader(j.file, 0, 1<<20))
	if err != nil {
		t.Fatal(err)
	}
	for where, in := range map[string][]byte{"file": file, "batch": b.data[:cap(b.data)]} {
		if n := bytes.Count(in, []byte(text)); n > 0 {
			t.Errorf("the %s has it %d times", where, n)
		}
	}
}

// TestNotesOfWhoStillWrites opens a journal before its writer has ended.
func TestNotesOfWhoStillWrites(t *testing.T) {
	j := newJournal(t)
	next := again(t, j)
	if err := j.Append(batch("one")); err != nil {
		t.Fatal(err)
	}
	if err := j.Rewrite(batch("two")); err != nil {
		t.Fatal(err)
	}
	if err := j.Append(batch("three")); err != nil {
		t.Fatal(err)
	}
	wantNotes(t, next, "two", "three")
}

func TestOpenRefuses(t *testing.T) {
	for name, damage := range map[string][]byte{"another format": []byte("mnemeho\x02"), "another start": append([]byte(magic), bytes.Repeat([]byte{0xff}, 8)...)} {
		j := newJournal(t)
		if _, err := j.file.WriteAt(damage, 0); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(j.file); err == nil {
			t.Errorf("%s: opened", name)
		}
	}
}

// FuzzParse reads notes that are damaged: it ends, and what is whole before the
// damage is read.
func FuzzParse(f *testing.F) {
	first := batch("first", "second").seal()
	f.Add(batch("third").seal(), 3, byte(1))
	f.Fuzz(func(t *testing.T, rest []byte, at int, flip byte) {
		if len(rest) > 0 {
			rest = bytes.Clone(rest)
			rest[max(at, -at-1)%len(rest)] ^= flip
		}
		data := append(bytes.Clone(first), rest...)
		notes, length := parse(data)
		if len(notes) < 2 || string(notes[0]) != "first" || string(notes[1]) != "second" || length < len(first) || length > len(data) {
			t.Errorf("%q, %d of %d bytes", notes, length, len(data))
		}
	})
}
