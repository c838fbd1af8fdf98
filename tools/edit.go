package tools

import (
	"context"
	"errors"
	"slices"
	"strings"
	"unicode/utf8"

	"mneme/errkind"
	"mneme/memory"
	"mneme/session"
	"mneme/versionlog"
)

// maxOldShown bounds how much of old_str an error shows, in bytes.
const maxOldShown = 2000

// staleEdit says that an edit, which was made for the version of a file that the session
// has seen, does not fit the version that another session has written since.
type staleEdit struct {
	base, theirs *memory.Head // theirs nil: removed or renamed
	yours        []byte
}

func (*staleEdit) Error() string { return "the file has changed" }

// edit is session.Session.Edit, but that an edit which ends with a *staleEdit is refused, and
// its text kept.
func (m *Memory) edit(ctx context.Context, a *address, r *request, edit func(session.Seen) ([]byte, error)) (versionlog.Version, error) {
	v, err := a.Session.Edit(ctx, a.path, edit, m.writeOptions(a.place, r.command, &r.told))
	var stale *staleEdit
	if errors.As(err, &stale) {
		err = a.Session.Refuse(ctx, a.path, stale.base, stale.theirs, stale.yours)
	}
	if err != nil {
		return v, m.explain(err, a.shown, true)
	}
	return v, nil
}

// isStale reports whether another session has changed or removed the file since this one has
// seen it.
func isStale(seen session.Seen) bool {
	known := seen.Known.Head()
	return known != nil && (seen.Version == nil || seen.Known.Stale(memory.NewHead(seen.Version)))
}

// knownText returns the text of the file that the session has seen; false when that cannot
// be read.
func (a *address) knownText(ctx context.Context, seen session.Seen) (string, bool) {
	data, err := a.Store.ContentOf(ctx, seen.Known.Head())
	return string(data), err == nil
}

// onNewest applies an edit of the text that the session has seen to the newest one: it
// merges the two if the Memory merges, and otherwise returns a *staleEdit.
func (m *Memory) onNewest(seen session.Seen, known, yours string) ([]byte, error) {
	head := memory.NewHead(seen.Version)
	if m.opts.Merge && head != nil {
		if merged, ok := memory.Merge([]byte(known), seen.Content, []byte(yours)); ok {
			return merged, nil
		}
	}
	return nil, &staleEdit{base: seen.Known.Head(), theirs: head, yours: []byte(yours)}
}

// toEdit returns the address of a file for an edit. absent is the error if the path has no
// store.
func (m *Memory) toEdit(ctx context.Context, path string, absent, directory text) (*address, error) {
	a, e := m.address(ctx, path)
	switch {
	case e != nil:
		return nil, e
	case a.nobody:
		return nil, failed(errkind.NotFound, m.opts.Texts.say(absent, a.shown))
	case a.isRoot():
		return nil, failed(errkind.NotFound, m.opts.Texts.say(directory, a.shown))
	case a.Session == nil:
		return nil, failed(errkind.ReadOnly, m.opts.Texts.say(readOnly, a.shown))
	}
	return a, nil
}

// nothingThere is the error of an edit of a path at which there is no file.
func (m *Memory) nothingThere(ctx context.Context, a *address, seen session.Seen, absent, directory text) error {
	if seen.Try > 0 {
		return failed(errkind.NotFound, m.opts.Texts.say(vanished, a.shown))
	}
	if root, err := m.tree(ctx, a); err == nil && root != nil {
		return failed(errkind.NotFound, m.opts.Texts.say(directory, a.shown))
	}
	return failed(errkind.NotFound, m.opts.Texts.say(absent, a.shown))
}

// replacement is the result of a str_replace.
type replacement struct {
	text  string // all of the file
	first int    // the line at which it begins, from 0 on
	lines int    // line breaks in what was put there
	note  string // that it was made on a version which the session has not seen
}

// replace replaces the one place of old_str, in the newest version, whether or not the
// session has seen that.
func (m *Memory) replace(ctx context.Context, r *request) (Result, error) {
	a, err := m.toEdit(ctx, r.path, missingToEdit, directoryToEdit)
	if err != nil {
		return Result{}, err
	}
	if r.oldText.Reveal() == "" {
		return Result{}, failed(errkind.Invalid, m.opts.Texts.say(emptyOld))
	}
	var done replacement
	v, err := m.edit(ctx, a, r, func(seen session.Seen) (data []byte, err error) {
		done, err = m.replaceIn(ctx, a, r, seen)
		if err != nil {
			return nil, err
		}
		return []byte(done.text), nil
	})
	if err != nil {
		return Result{}, err
	}
	return Result{Text: m.opts.Texts.say(replaced, m.snippet(done)) + done.note, Made: []Made{a.made(&v)}}, nil
}

func (m *Memory) replaceIn(ctx context.Context, a *address, r *request, seen session.Seen) (replacement, error) {
	t := m.opts.Texts
	old, now, stale := r.oldText.Reveal(), string(seen.Content), isStale(seen)
	if place, once := onlyPlace(now, old); seen.Version != nil && once {
		done := replacedAt(now, place, old, r.newText.Reveal())
		if stale {
			done.note = t.say(editedNewest, a.Session.Changed(a.path, seen.Known.Head(), memory.NewHead(seen.Version)))
		}
		return done, nil
	}
	if stale {
		known, ok := a.knownText(ctx, seen)
		if place, once := onlyPlace(known, old); ok && once {
			yours := replacedAt(known, place, old, r.newText.Reveal())
			merged, err := m.onNewest(seen, known, yours.text)
			yours.text, yours.note = string(merged), t.say(editedNewest, a.Session.Changed(a.path, seen.Known.Head(), memory.NewHead(seen.Version)))
			return yours, err
		}
	}
	shownOld := clip(old, maxOldShown)
	switch {
	case seen.Version == nil:
		return replacement{}, m.nothingThere(ctx, a, seen, missingToEdit, directoryToEdit)
	case !strings.Contains(now, old):
		return replacement{}, failed(errkind.Invalid, t.say(noMatch, shownOld, a.shown))
	}
	return replacement{}, failed(errkind.Invalid, t.say(manyMatches, shownOld, joinNumbers(linesOf(now, old))))
}

// onlyPlace returns the place of old in text, if it is there once.
func onlyPlace(text, old string) (place int, once bool) {
	place = strings.Index(text, old)
	if place < 0 {
		return 0, false
	}
	_, size := utf8.DecodeRuneInString(old)
	return place, !strings.Contains(text[place+size:], old) // which may overlap
}

// maxLinesNamed bounds how many lines an error names.
const maxLinesNamed = 100

// linesOf returns the first lines of text, from 1 on, in which old begins, and whether there
// are more.
func linesOf(text, old string) (lines []int, more bool) {
	for line := 1; ; line++ {
		place := strings.Index(text, old)
		switch {
		case place < 0:
			return lines, false
		case len(lines) == maxLinesNamed:
			return lines, true
		}
		line += strings.Count(text[:place], "\n")
		lines = append(lines, line)
		end := strings.IndexByte(text[place:], '\n')
		if end < 0 {
			return lines, false
		}
		text = text[place+end+1:]
	}
}

func replacedAt(text string, place int, old, with string) replacement {
	return replacement{
		text:  text[:place] + with + text[place+len(old):],
		first: strings.Count(text[:place], "\n"),
		lines: strings.Count(with, "\n"),
	}
}

// snippet shows the replaced text, with two lines before and after.
func (m *Memory) snippet(r replacement) string {
	last := r.first + 2
	if m.opts.Texts == Documentation {
		last += r.lines
	}
	last = min(last, strings.Count(r.text, "\n"))
	shown, _, _ := numbered(r.text, max(0, r.first-2)+1, last+1, m.room(""))
	return shown
}

// insert inserts a text after a line. The line number is one of the version that the
// session has seen: on another session's version it would be another line.
func (m *Memory) insert(ctx context.Context, r *request) (Result, error) {
	a, err := m.toEdit(ctx, r.path, missingToInsert, directoryToFill)
	if err != nil {
		return Result{}, err
	}
	note := ""
	v, err := m.edit(ctx, a, r, func(seen session.Seen) ([]byte, error) {
		note = ""
		if isStale(seen) {
			known, ok := a.knownText(ctx, seen)
			if yours, err := m.insertedIn(known, r); ok && err == nil {
				note = m.opts.Texts.say(editedNewest, a.Session.Changed(a.path, seen.Known.Head(), memory.NewHead(seen.Version)))
				return m.onNewest(seen, known, yours)
			}
		}
		if seen.Version == nil {
			return nil, m.nothingThere(ctx, a, seen, missingToInsert, directoryToFill)
		}
		text, err := m.insertedIn(string(seen.Content), r)
		return []byte(text), err
	})
	if err != nil {
		return Result{}, err
	}
	return Result{Text: m.opts.Texts.say(inserted, a.shown) + note, Made: []Made{a.made(&v)}}, nil
}

// insertedIn returns a text with another one after a line of it. One line break at the end
// of the inserted text ends its last line.
func (m *Memory) insertedIn(text string, r *request) (string, error) {
	lines := strings.Split(text, "\n")
	if r.line < 0 || r.line > int64(len(lines)) {
		return "", failed(errkind.Invalid, m.opts.Texts.say(badLine, r.line, len(lines)))
	}
	return strings.Join(slices.Insert(lines, int(r.line), strings.TrimSuffix(r.insertText.Reveal(), "\n")), "\n"), nil
}
