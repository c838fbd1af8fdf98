package tools

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"mneme/errkind"
	"mneme/internal/plural"
)

// The bounds of a search.
const (
	DefaultMatches = 50
	MaxMatches     = 200
	maxPattern     = 1000 // bytes
	maxOfMemory    = 5    // lines of one memory
	maxMatchText   = 300  // characters of a line
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

// Match is a line in which a match begins.
type Match struct {
	Path    string // as the tool has it
	Version string // id of the version that has the line
	Seq     uint64 // its sequence number
	Line    int    // from 1 on
	Text    string // the line, or the text around the match
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
	all := plural.Of(c.Memories, "memory")
	text := fmt.Sprintf("Searched %d of %s.", c.Searched, all)
	if c.Why != "" {
		text = fmt.Sprintf("Stopped (%s) after %d of %s; go on with after %q.", c.Why, c.Searched, all, c.After)
	}
	if c.Shortened > 0 {
		text += fmt.Sprintf(" In %s more lines match than are shown.", plural.Of(c.Shortened, "memory"))
	}
	switch {
	case c.NotText == 1:
		text += " 1 is not text."
	case c.NotText > 1:
		text += fmt.Sprintf(" %d are not text.", c.NotText)
	}
	if c.Damaged > 0 {
		text += fmt.Sprintf(" %d cannot be read.", c.Damaged)
	}
	return text
}

// Search finds lines in the newest versions of memories, in the order of their paths. The
// same query, of stores that have not changed, has the same matches, unless its deadline
// ends it. Its error is an *Error.
func (m *Memory) Search(ctx context.Context, q Query) (matches []Match, c Coverage, err error) {
	if err := m.opts.Budget.Take(1, int64(len(q.Text.Reveal()))); err != nil {
		return nil, c, m.explain(err, "", false)
	}
	s := &search{limit: DefaultMatches}
	if q.Limit != 0 {
		s.limit = min(q.Limit, MaxMatches)
	}
	limited, cancel := context.WithTimeout(ctx, m.opts.Deadline)
	defer cancel()
	if s.finder, err = q.finder(limited); err == nil && s.limit < 1 {
		err = errors.New("limit must be at least 1")
	}
	if err != nil {
		return nil, c, failed(errkind.Invalid, m.opts.Texts.say(refusedRequest, err))
	}
	_, found, e := m.find(ctx, q.Under, q.After)
	if e != nil {
		return nil, c, e
	}
	found = slices.DeleteFunc(found, located.isDir)
	s.coverage.Memories = len(found)
	s.coverage.Why = (&scan[answer]{m: m, take: s.take, look: func(one located, data []byte, isRead bool) (a answer) {
		if limited.Err() == nil { // otherwise no caller waits for it
			a = s.lookAt(one, data, isRead)
		}
		return a
	}}).run(limited, found)
	if err := ctx.Err(); err != nil {
		return nil, s.coverage, m.explain(err, "", false)
	}
	return s.matches, s.coverage, nil
}

// finder returns a function that makes the finder of a text. When ctx has ended, the
// results of a finder must not be used.
func (q Query) finder(ctx context.Context) (func(text []byte) finder, error) {
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
	e, err := newExpression(flags + pattern)
	if err != nil {
		return nil, explainPattern(text, err)
	}
	small := bytes.ToLower([]byte(text))
	return func(data []byte) finder {
		if !q.Regexp && isASCII(small) && isASCII(data) { // ten times as fast
			return literally(bytes.ToLower(data), small)
		}
		return func(from int) int { return e.find(ctx, data, from) }
	}, nil
}

// search is one search.
type search struct {
	limit    int
	finder   func(text []byte) finder
	matches  []Match
	coverage Coverage
}

// answer has the matches in one memory.
type answer struct {
	lines              []Match
	more               bool // lines match that are not among them
	isText, isReadable bool
}

// take notes the matches in a memory. It reports false when it has enough lines: a memory
// whose lines do not fit is not taken in part, unless it is the first.
func (s *search) take(from located, one answer) bool {
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
	c.After = from.path()
	count(&c.Shortened, one.more)
	count(&c.Damaged, !one.isReadable)
	count(&c.NotText, one.isReadable && !one.isText)
	return true
}

func count(number *int, is bool) {
	if is {
		*number++
	}
}

// lookAt finds the matches in a memory.
func (s *search) lookAt(one located, data []byte, isRead bool) answer {
	found := answer{isReadable: isRead, isText: isText(data)}
	if found.isText {
		found.lines, found.more = s.linesIn(one, data)
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
		lines = append(lines, Match{Path: one.path(), Version: one.head.ID(), Seq: one.head.Seq(), Line: number, Text: around(string(data[start:end]), at-start)})
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
