package tools

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"mneme/errkind"
	"mneme/memory"
)

// The bounds of a search.
const (
	DefaultMatches = 50
	MaxMatches     = 200
	maxPattern     = 1000      // bytes
	maxOfMemory    = 5         // lines of one memory
	maxMatchText   = 300       // characters of a line
	maxSearched    = 256 << 20 // bytes, in all
	maxBatch       = 4 << 20   // bytes of memories that are read together, unless one alone has more
)

// Query is what to search for.
type Query struct {
	Text       Secret
	Regexp     bool // Text is a regular expression, of RE2, in which ^ and $ are of lines
	IgnoreCase bool
	Under      string // the path of a directory or file; "": everything
	Limit      int    // of lines; 0: DefaultMatches; at most MaxMatches
	After      string // Coverage.After of the search that this goes on with; "": from the first
}

// Match is a line in which what was searched for begins.
type Match struct {
	Path    string // as the tool has it
	Version string // id of the version that has the line
	Line    int    // from 1 on
	Text    string // the line, or what is around the match
}

// Coverage says what a search has looked at.
type Coverage struct {
	Memories  int    // where it was to search
	Searched  int    // looked through
	NotText   int    // among Searched: they hold no text
	Damaged   int    // among Searched: they cannot be read
	Shortened int    // among Searched: they have more lines that match than are shown
	Why       string // it has ended early: "limit", "deadline" or "size"; "": it has not
	After     string // where to go on
}

// String says it in one sentence.
func (c Coverage) String() string {
	text := fmt.Sprintf("Searched %d of %d memories.", c.Searched, c.Memories)
	if c.Why != "" {
		text = fmt.Sprintf("Stopped (%s) after %d of %d memories; go on with after %q.", c.Why, c.Searched, c.Memories, c.After)
	}
	for _, part := range []struct {
		number int
		format string
	}{{c.Shortened, " In %d more lines match than are shown."}, {c.NotText, " %d are not text."}, {c.Damaged, " %d cannot be read."}} {
		if part.number > 0 {
			text += fmt.Sprintf(part.format, part.number)
		}
	}
	return text
}

// Search finds lines in the newest versions of memories, in the order of their paths. The
// same query, of stores that have not changed, has the same matches, unless its deadline
// ends it. Its error is an *Error.
func (m *Memory) Search(ctx context.Context, q Query) (matches []Match, c Coverage, err error) {
	if err := m.opts.Budget.Take(1, int64(len(q.Text.Reveal()))); err != nil {
		return nil, c, m.explain(err, &address{}, false)
	}
	s := &search{limit: DefaultMatches}
	if q.Limit != 0 {
		s.limit = min(q.Limit, MaxMatches)
	}
	if s.finder, err = q.finder(); err == nil && s.limit < 1 {
		err = errors.New("limit must be at least 1")
	}
	if err != nil {
		return nil, c, failed(errkind.Invalid, m.opts.Texts.say(refusedRequest, err))
	}
	_, found, e := m.find(ctx, q.Under, q.After)
	if e != nil {
		return nil, c, e
	}
	s.divide(slices.DeleteFunc(found, located.isDir))
	limited, cancel := context.WithTimeout(ctx, m.opts.Deadline)
	defer cancel()
	s.run(limited)
	if err := ctx.Err(); err != nil {
		return nil, s.coverage, m.explain(err, &address{}, false)
	}
	return s.matches, s.coverage, nil
}

// finder finds matches in a text: it returns the place of the first that is not before a
// place, or -1.
type finder func(from int) int

// finder returns what makes the finder of a text.
func (q Query) finder() (func(text []byte) finder, error) {
	text := q.Text.Reveal()
	switch {
	case text == "":
		return nil, errors.New("there is nothing to search for")
	case len(text) > maxPattern:
		return nil, fmt.Errorf("what to search for is longer than %d bytes", maxPattern)
	case !q.Regexp && !q.IgnoreCase:
		return func(data []byte) finder { return literally(data, []byte(text)) }, nil
	}
	pattern, flags := text, "(?m)"
	if !q.Regexp {
		pattern = regexp.QuoteMeta(text)
	}
	if q.IgnoreCase {
		flags = "(?mi)"
	}
	compiled, err := regexp.Compile(flags + pattern)
	if err != nil {
		return nil, errors.New("it is no regular expression as RE2 has them") // why would show it
	}
	small := bytes.ToLower([]byte(text))
	return func(data []byte) finder {
		if !q.Regexp && isASCII(small) && isASCII(data) { // ten times as fast
			return literally(bytes.ToLower(data), small)
		}
		return func(from int) int {
			if place := compiled.FindIndex(data[from:]); place != nil {
				return from + place[0]
			}
			return -1
		}
	}, nil
}

func literally(data, literal []byte) finder {
	return func(from int) int {
		if i := bytes.Index(data[from:], literal); i >= 0 {
			return from + i
		}
		return -1
	}
}

func isASCII(data []byte) bool {
	for _, b := range data {
		if b >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// search is one search.
type search struct {
	limit    int
	finder   func(text []byte) finder
	batches  [][]located
	answers  []chan []answer
	matches  []Match
	coverage Coverage
}

// answer is what was found in one memory.
type answer struct {
	lines              []Match
	more               bool // lines match that are not among them
	isText, isReadable bool
}

// divide makes batches of memories to be read together, up to the bound of a search.
func (s *search) divide(all []located) {
	s.coverage.Memories = len(all)
	var total, size int64
	var batch []located
	for _, one := range all {
		if total += one.head.Size(); total > maxSearched && len(s.batches)+len(batch) > 0 {
			s.coverage.Why = "size"
			break
		}
		if len(batch) > 0 && (len(batch) >= one.Store.BatchSize() || size+one.head.Size() > maxBatch || batch[0].place != one.place) {
			s.batches, batch, size = append(s.batches, batch), nil, 0
		}
		batch, size = append(batch, one), size+one.head.Size()
	}
	if batch != nil {
		s.batches = append(s.batches, batch)
	}
	for range s.batches {
		s.answers = append(s.answers, make(chan []answer, 1))
	}
}

// run looks through the batches, some at a time, and takes what is found in their order,
// until there is enough or ctx ends.
func (s *search) run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	var next atomic.Int64
	var workers sync.WaitGroup
	defer workers.Wait()
	defer cancel()
	for range min(4, 2*runtime.GOMAXPROCS(0), len(s.batches)) {
		workers.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(s.batches) || ctx.Err() != nil {
					return
				}
				s.answers[i] <- s.look(ctx, s.batches[i])
			}
		})
	}
	for i, batch := range s.batches {
		select {
		case found := <-s.answers[i]:
			if ctx.Err() != nil { // what cannot be read may be no fault of the memories
				s.coverage.Why = "deadline"
				return
			}
			if !s.take(batch, found) {
				s.coverage.Why = "limit"
				return
			}
		case <-ctx.Done():
			s.coverage.Why = "deadline"
			return
		}
	}
}

// take notes what was found in a batch. It reports false when there are enough lines: a
// memory whose lines do not fit is not taken in part, unless it is the first.
func (s *search) take(batch []located, found []answer) bool {
	for i, one := range found {
		room := s.limit - len(s.matches)
		if len(one.lines) > room && len(s.matches) > 0 {
			return false
		}
		if len(one.lines) > room {
			one.lines, one.more = one.lines[:room], true
		}
		s.matches = append(s.matches, one.lines...)
		c := &s.coverage
		c.Searched++
		c.After = batch[i].path()
		count(&c.Shortened, one.more)
		count(&c.Damaged, !one.isReadable)
		count(&c.NotText, one.isReadable && !one.isText)
	}
	return true
}

func count(number *int, is bool) {
	if is {
		*number++
	}
}

// look reads a batch and finds what is in it.
func (s *search) look(ctx context.Context, batch []located) []answer {
	heads := make([]*memory.Head, len(batch))
	for i, one := range batch {
		heads[i] = one.head
	}
	found := make([]answer, len(batch))
	for i, data := range batch[0].Store.Contents(ctx, heads) {
		found[i].isReadable = data != nil || heads[i].Size() == 0
		if found[i].isText = isText(data); found[i].isText {
			found[i].lines, found[i].more = s.linesIn(batch[i], data)
		}
	}
	return found
}

// linesIn returns the first lines of a memory that match, and whether there are more.
func (s *search) linesIn(one located, data []byte) (lines []Match, more bool) {
	next := s.finder(data)
	for number, from := 1, 0; from <= len(data); {
		at := next(from)
		if at < 0 {
			return lines, false
		}
		if len(lines) == maxOfMemory {
			return lines, true
		}
		start := bytes.LastIndexByte(data[:at], '\n') + 1
		end := len(data)
		if i := bytes.IndexByte(data[at:], '\n'); i >= 0 {
			end = at + i
		}
		number += bytes.Count(data[from:start], []byte("\n"))
		lines = append(lines, Match{Path: one.path(), Version: one.head.ID(), Line: number, Text: around(string(data[start:end]), at-start)})
		number, from = number+1, end+1
	}
	return lines, false
}

// around returns the part of a line around a place, if the line is long.
func around(line string, place int) string {
	if utf8.RuneCountInString(line) <= maxMatchText {
		return line
	}
	start := place
	for back := 0; start > 0 && back < maxMatchText/3; back++ {
		_, size := utf8.DecodeLastRuneInString(line[:start])
		start -= size
	}
	shown := cutRunes(line[start:], maxMatchText)
	before, behind := "", ""
	if start > 0 {
		before = "…"
	}
	if start+len(shown) < len(line) {
		behind = "…"
	}
	return before + strings.TrimSuffix(shown, "\r") + behind
}
