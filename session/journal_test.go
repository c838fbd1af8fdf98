package session

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// linesOf returns what a journal says, without the times.
func linesOf(j *Journal) (texts []string) {
	for line := range strings.Lines(string(j.Lines())) {
		_, text, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		texts = append(texts, text)
	}
	return texts
}

func wantTexts(t *testing.T, j *Journal, want ...string) {
	t.Helper()
	if got := linesOf(j); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("the journal says %q, want %q", got, want)
	}
}

func TestJournal(t *testing.T) {
	// later makes the next error of a path another one than the kernel's second try.
	later := func(j *Journal) {
		for i := range j.entries {
			j.entries[i].At = j.entries[i].At.Add(-2 * secondTry)
		}
	}
	t.Run("newest of each path", func(t *testing.T) {
		j := &Journal{}
		j.AddConflict("/a", "first")
		j.Add("/b", "second\nand its cause")
		later(j)
		j.AddConflict("/a", "third")
		j.AddConflict("/a", "third") // the kernel's second try
		wantTexts(t, j, "second; and its cause", "third (2 times)")
		j.Written("/a")
		j.Written("/c")
		wantTexts(t, j, "second; and its cause")
		j.Written("/b")
		wantTexts(t, j)
	})
	t.Run("conflicts stay", func(t *testing.T) {
		j := &Journal{}
		j.AddConflict("/a", "lost")
		for i := range 2 * journalLines {
			j.Add(fmt.Sprintf("/__pycache__/%d.pyc", i), "refused")
		}
		got := linesOf(j)
		if len(got) != journalLines || got[0] != "lost" {
			t.Errorf("%d lines, the first of them %q", len(got), got[0])
		}
		for i := range 2 * journalLines {
			j.AddConflict(fmt.Sprint("/", i), fmt.Sprint("lost ", i))
		}
		got = linesOf(j)
		if len(got) != journalLines || got[0] != fmt.Sprint("lost ", journalLines) {
			t.Errorf("%d lines, the first of them %q", len(got), got[0])
		}
	})
	t.Run("at once", func(t *testing.T) {
		j := &Journal{}
		done := make(chan struct{})
		go func() {
			defer close(done)
			for i := range 1000 {
				j.Written(fmt.Sprint("/", i%7))
			}
		}()
		for i := range 1000 {
			j.Add(fmt.Sprint("/", i%7), "refused")
		}
		<-done
		if got := len(linesOf(j)); got != j.Len() || got > 7 {
			t.Errorf("%d lines, counted as %d", got, j.Len())
		}
	})
	t.Run("time is that of the newest", func(t *testing.T) {
		j := &Journal{}
		j.Add("/a", "refused")
		later(j)
		before := time.Now().UTC().Format(time.RFC3339)
		j.Add("/a", "refused")
		if got, _, _ := strings.Cut(string(j.Lines()), " "); got < before {
			t.Errorf("the time is %s, want %s or later", got, before)
		}
	})
}

// TestJournalIsRestored hands a journal on to another process.
func TestJournalIsRestored(t *testing.T) {
	j, next := &Journal{}, &Journal{}
	for i := range journalLines {
		j.Add(fmt.Sprint("/", i), fmt.Sprint("refused ", i))
	}
	before := next.Changes()
	next.Restore(append([]JournalEntry{{Path: "/old", Text: "one too many"}}, j.Entries()...))
	wantTexts(t, next, linesOf(j)...)
	if next.Len() != j.Len() || next.Changes() == before {
		t.Errorf("%d errors, want %d; changed %d times", next.Len(), j.Len(), next.Changes()-before)
	}
}
