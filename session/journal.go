package session

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"mneme/internal/quote"
)

// Journal is the newest error of each path of a store, for people and agents. An
// error that follows another of the same path takes its place, and says how many
// there were; a write to the path that succeeds takes the error away.
//
// When there are too many, the oldest errors that say nothing of a conflict go first: byte code
// that a program tries to keep next to its sources must not push out the place where a user's
// text is.
//
// Agents are told to heed what it says, and other sessions choose the names in it.
// So the place of an error stands in double quotes, and an entry is one line of
// bounded length, whatever names and messages hold.
//
// It is bounded, and safe for use by many goroutines. The zero value is empty.
type Journal struct {
	size    atomic.Int64 // how many entries there are
	changes atomic.Int64 // how often they have changed

	mu      sync.Mutex
	entries []JournalEntry // by time
}

// JournalEntry is an error. Its names in JSON stay, for a face that hands a session on
// to another process.
type JournalEntry struct {
	Path     string // or a kind of errors, see AddKind
	Text     string
	At       time.Time
	Times    int
	Conflict bool `json:",omitempty"`
}

// journalLines is how many errors a Journal has at most.
const journalLines = 100

// Add notes an error of a path.
func (j *Journal) Add(path, text string) { j.put(JournalEntry{Path: path, Text: text}) }

// AddConflict notes a write to a path that was refused, or kept, since another
// session had changed the memory.
func (j *Journal) AddConflict(path, text string) {
	j.put(JournalEntry{Path: path, Text: text, Conflict: true})
}

// AddKind notes an error about a path where that of another path of the same kind
// takes its place.
func (j *Journal) AddKind(kind, path, text string) {
	j.put(JournalEntry{Path: kind, Text: quote.Place(text, path)})
}

// secondTry is how soon a face automatically repeats a request that has failed, as the kernel
// does with some requests. It is the same error then.
const secondTry = 100 * time.Millisecond

func (j *Journal) put(e JournalEntry) {
	e.Text, e.At, e.Times = quote.Line(quote.Place(e.Text, e.Path)), time.Now(), 1
	j.mu.Lock()
	defer j.mu.Unlock()
	if i := j.findLocked(e.Path); i >= 0 {
		was := j.entries[i]
		e.Times = was.Times
		if e.At.Sub(was.At) > secondTry {
			e.Times++
		}
		j.entries = slices.Delete(j.entries, i, i+1)
	}
	if len(j.entries) == journalLines {
		i := max(0, slices.IndexFunc(j.entries, func(e JournalEntry) bool { return !e.Conflict }))
		j.entries = slices.Delete(j.entries, i, i+1)
	}
	j.entries = append(j.entries, e)
	j.size.Store(int64(len(j.entries)))
	j.changes.Add(1)
}

// findLocked returns the place of a path's entry, or -1.
func (j *Journal) findLocked(path string) int {
	return slices.IndexFunc(j.entries, func(e JournalEntry) bool { return e.Path == path })
}

// Written takes the error of a path away, to which a write has succeeded.
func (j *Journal) Written(path string) {
	if j.size.Load() == 0 {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if i := j.findLocked(path); i >= 0 {
		j.entries = slices.Delete(j.entries, i, i+1)
		j.size.Store(int64(len(j.entries)))
		j.changes.Add(1)
	}
}

// Has reports whether there is an error of a path, or of a kind.
func (j *Journal) Has(path string) bool {
	if j.size.Load() == 0 {
		return false
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.findLocked(path) >= 0
}

// Lines returns all errors as text, one in each line, the oldest first.
func (j *Journal) Lines() []byte {
	j.mu.Lock()
	defer j.mu.Unlock()
	var out strings.Builder
	for _, e := range j.entries {
		fmt.Fprintf(&out, "%s %s", e.At.UTC().Format(time.RFC3339), e.Text)
		if e.Times > 1 {
			fmt.Fprintf(&out, " (%d times)", e.Times)
		}
		out.WriteByte('\n')
	}
	return []byte(out.String())
}

// Len returns how many errors there are.
func (j *Journal) Len() int { return int(j.size.Load()) }

// Changes returns how often the errors have changed.
func (j *Journal) Changes() int64 { return j.changes.Load() }

// Entries returns the errors for another process.
func (j *Journal) Entries() []JournalEntry {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.entries)
}

// Restore adds entries of another Journal to one that is empty.
func (j *Journal) Restore(entries []JournalEntry) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.entries = append(j.entries, entries[max(0, len(entries)-journalLines):]...)
	j.size.Store(int64(len(j.entries)))
	j.changes.Add(1)
}
