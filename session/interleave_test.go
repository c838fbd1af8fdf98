package session

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"mneme/history"
	"mneme/internal/testing/logfault"
)

// An interleaving is a sequence of events of one file, which a session saves and another
// one writes, too. Every sequence of a length is tried.
var events = []struct {
	name string
	do   func(*interleaving)
}{
	{"save", func(f *interleaving) { f.write(); f.save() }},
	{"save, reply lost", func(f *interleaving) { f.fate(logfault.Unheard); f.write(); f.save() }},
	{"save, not made", func(f *interleaving) { f.fate(logfault.Unmade); f.write(); f.save() }},
	{"save again", func(f *interleaving) { f.save() }},
	{"follow", func(f *interleaving) { f.follow() }},
	{"they write", func(f *interleaving) { f.theyWrite() }},
	{"they remove", func(f *interleaving) { f.theyDid = true; f.theyRemove(interleaved) }},
	{"they write before the next commit", func(f *interleaving) { f.log.Next(logfault.BeforeCommit, f.theyWrite) }},
	{"they write between the next commit and its reply", func(f *interleaving) {
		f.log.Next(logfault.AfterCommit, func() { f.theyWrite(); f.followIdle() })
	}},
}

const interleaved = "/f"

type interleaving struct {
	*rig
	st      *staged
	texts   int      // made so far
	mine    []string // what was written to st, and not yet acknowledged or refused
	acked   []string
	theyDid bool // the other session has changed something
	trace   []string
}

func (f *interleaving) wrong(format string, args ...any) {
	f.Helper()
	f.Fatalf("%s\n%s", fmt.Sprintf(format, args...), strings.Join(f.trace, "\n"))
}

func (f *interleaving) fate(fate logfault.Fate) { f.log.SetFates(fate) }

func (f *interleaving) text(author string) string {
	f.texts++
	return fmt.Sprintf("<%s %d>\n", author, f.texts)
}

// write adds a line to the file, or replaces what the session has written to it.
func (f *interleaving) write() {
	text := f.text("mine")
	if f.mine = append(f.mine, text); !f.st.appends {
		f.mine = []string{text}
		text = "top\n" + text
	}
	f.st.write(text)
}

// theyWrite adds a line at the end, or at the beginning, where it can be merged.
func (f *interleaving) theyWrite() {
	f.theyDid = true
	if f.st.appends {
		f.theyAppend(interleaved, f.text("theirs"))
	} else {
		f.theirs(interleaved, f.text("theirs")+"top\n")
	}
}

func (f *interleaving) save() {
	err := f.st.save()
	f.log.SetFate(nil)
	f.trace = append(f.trace, fmt.Sprintf("    saved: %v", err))
	var lost *LostError
	switch {
	case err == nil:
		f.acked, f.mine = append(f.acked, f.mine...), nil
	case errors.As(err, &lost):
		if !f.theyDid {
			f.wrong("the session is in conflict with itself")
		}
		if f.st.appends {
			f.wrong("an append was refused")
		}
		for _, text := range f.mine {
			if !slices.ContainsFunc(f.st.losses, func(loss string) bool { return strings.Contains(loss, text) }) {
				f.wrong("%q was refused, and is not kept", text)
			}
		}
		f.mine = nil
		f.follow()
		f.read(interleaved)
		drafts := f.st.drafts
		f.st = f.open(interleaved, false)
		f.st.drafts = drafts
	case !errors.Is(err, errDown):
		f.wrong("save: %v", err)
	}
}

// check looks at what has come of it when all has been settled.
func (f *interleaving) check() {
	f.log.Forget()
	f.save()
	f.wantAsLog()
	f.wantSettled()
	for _, text := range f.acked {
		if f.inHistory(text) == 0 {
			f.wrong("%q was acknowledged, and is not in the history", text)
		}
	}
	for key, n := range f.st.drafts {
		if n != 1 {
			f.wrong("%s was told to be committed %d times", key, n)
		}
	}
	for v, err := range history.Versions(f.Context(), f.other, interleaved) {
		f.must(err)
		if !v.Live() {
			continue
		}
		data, err := f.other.Content(f.Context(), v)
		f.must(err)
		for _, text := range f.acked {
			if strings.Count(string(data), text) > 1 {
				f.wrong("%q is there twice:\n%s", text, data)
			}
		}
	}
	if f.Failed() {
		f.wrong("after this")
	}
}

// TestInterleavings: whenever another session commits, whichever commits the follower hears of
// and when, and whatever becomes of replies: an acknowledged write is in the history, and once; a
// refused one is kept; the session never is in conflict with itself; and nothing is left in
// doubt.
func TestInterleavings(t *testing.T) {
	length := 3
	if os.Getenv("MNEME_TORTURE") != "" {
		length = 4
	}
	for name, opts := range map[string]*Options{"append": nil, "overwrite": nil, "merge": {Merge: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sequence := make([]int, length)
			for done := false; !done; done = !next(sequence, len(events)) {
				f := &interleaving{rig: newRig(t, opts, interleaved)}
				f.read(interleaved)
				f.st = f.open(interleaved, name == "append")
				for _, i := range sequence {
					f.trace = append(f.trace, events[i].name)
					events[i].do(f)
				}
				f.check()
			}
		})
	}
}

// next counts up in a number system of that base.
func next(digits []int, base int) bool {
	for i := range digits {
		if digits[i]++; digits[i] < base {
			return true
		}
		digits[i] = 0
	}
	return false
}
