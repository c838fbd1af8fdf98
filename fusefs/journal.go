package fusefs

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"mneme/internal/quote"
)

// journal is what .mneme/errors says: the newest error of each path. An error
// that follows another of the same path takes its place, and says how many there
// were; a write to the path that succeeds takes the error away.
//
// When there are too many, the oldest of those go first that say nothing of a
// conflict: byte code that a program tries to keep beside its sources must not
// push out where somebody's text is.
//
// Agents are told to heed what the file says, and other sessions choose the names
// in it. So the place of an error stands in double quotes, and an entry is one line
// of bounded length, whatever names and messages hold.
type journal struct {
	size    atomic.Int64 // how many entries there are
	changes atomic.Int64 // how often they have changed

	mu      sync.Mutex
	entries []journalEntry // by time
}

// journalEntry is an error. Notes of the handover have it as JSON.
type journalEntry struct {
	Path     string // or a kind of errors, see addKind
	Text     string
	At       time.Time
	Times    int
	Conflict bool `json:",omitempty"`
}

const journalLines = 100

// add notes an error of a path.
func (j *journal) add(path, text string) { j.put(journalEntry{Path: path, Text: text}) }

// addConflict notes a write to a path that was refused, or kept, since another
// session had changed the memory.
func (j *journal) addConflict(path, text string) {
	j.put(journalEntry{Path: path, Text: text, Conflict: true})
}

// addKind notes an error about a path where that of another path of the same kind
// takes its place.
func (j *journal) addKind(kind, path, text string) {
	j.put(journalEntry{Path: kind, Text: quotePlace(text, path)})
}

// secondTry is how soon the kernel repeats a request that has failed. It is the
// same error then.
const secondTry = 100 * time.Millisecond

func (j *journal) put(e journalEntry) {
	e.Text, e.At, e.Times = quote.Line(quotePlace(e.Text, e.Path)), time.Now(), 1
	j.mu.Lock()
	defer j.mu.Unlock()
	if i := j.find(e.Path); i >= 0 {
		was := j.entries[i]
		e.Times = was.Times
		if e.At.Sub(was.At) > secondTry {
			e.Times++
		}
		j.entries = slices.Delete(j.entries, i, i+1)
	}
	if len(j.entries) == journalLines {
		i := max(0, slices.IndexFunc(j.entries, func(e journalEntry) bool { return !e.Conflict }))
		j.entries = slices.Delete(j.entries, i, i+1)
	}
	j.entries = append(j.entries, e)
	j.size.Store(int64(len(j.entries)))
	j.changes.Add(1)
}

// quotePlace puts double quotes around the place that a text is about: the first
// STORE:/path in it, or a bare name behind the operation's name.
func quotePlace(text, path string) string {
	before, after, found := strings.Cut(text, path)
	if !strings.HasPrefix(path, "/") {
		before, after, found = strings.Cut(text, " "+path+":")
		before, after = before+" ", ":"+after
	}
	if !found {
		return text
	}
	store := strings.LastIndexByte(before, ' ') + 1
	return before[:store] + quote.Name(before[store:]+path) + after
}

// find returns the place of a path's entry, or -1. Caller holds j.mu.
func (j *journal) find(path string) int {
	return slices.IndexFunc(j.entries, func(e journalEntry) bool { return e.Path == path })
}

// written takes the error of a path away, to which a write has succeeded.
func (j *journal) written(path string) {
	if j.size.Load() == 0 {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if i := j.find(path); i >= 0 {
		j.entries = slices.Delete(j.entries, i, i+1)
		j.size.Store(int64(len(j.entries)))
		j.changes.Add(1)
	}
}

// lines returns the text of .mneme/errors.
func (j *journal) lines() []byte {
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
