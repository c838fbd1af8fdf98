package history

import (
	"context"
	"fmt"
	"iter"

	"mneme/memory"
	"mneme/versionlog"
)

// Blamed says of each line of a text which version brought it.
type Blamed struct {
	Version versionlog.Version // whose content the text is
	Lines   []BlamedLine
}

// BlamedLine is a line of a text.
type BlamedLine struct {
	Text string // with its end
	By   *versionlog.Version
	// Unsure says that an earlier version may have brought the line: the one before By
	// cannot be read, since it was redacted or is lost.
	Unsure bool
}

// Blame looks for the versions that brought the lines of a version's content: back through
// renames, deletions that were taken back, and saves that made a new memory of a file. It
// reads each content at most once, and none that are older than the oldest line. Progress,
// unless nil, is called with how many of the lines are found. ErrBadVersion: v is a deletion, a
// directory, or holds no text.
func Blame(ctx context.Context, s *memory.Store, v versionlog.Version, progress func(done, total int)) (*Blamed, error) {
	data, err := s.Content(ctx, v)
	if err == nil && !memory.IsText(data) {
		err = fmt.Errorf("%w: version %s of %s is not text, and has no lines", memory.ErrBadVersion, v.ID, v.Path)
	}
	if err != nil {
		return nil, err
	}
	t := newTracing(v, data)
	for before, err := range lineage(ctx, s, v) {
		if err != nil {
			return nil, err
		}
		if before.IsDir() || !before.Redacted() && !before.Live() {
			continue // what came back was there before
		}
		data, err := contentIfNew(ctx, s, before, t.by.Digest)
		switch {
		case before.Redacted() || memory.IsLost(err):
			t.gap = true
			continue
		case err != nil:
			return nil, err
		}
		t.back(before, data)
		if progress != nil {
			progress(t.found, len(t.blame.Lines))
		}
		if t.found == len(t.blame.Lines) {
			break
		}
	}
	t.end()
	return t.blame, nil
}

// contentIfNew returns the content of a version; nil if it was redacted, or if the digest
// is that of a content which the caller has.
func contentIfNew(ctx context.Context, s *memory.Store, v versionlog.Version, have versionlog.Digest) ([]byte, error) {
	if v.Redacted() || v.Digest == have {
		return nil, nil
	}
	return s.Content(ctx, v)
}

// tracing is how far Blame has come.
type tracing struct {
	blame *Blamed
	found int // lines of the blame that have their version

	// The oldest content that was looked at, of which by is the oldest version: its
	// lines, and which ones of the blame they are, -1 for others.
	lines []string
	of    []int
	by    *versionlog.Version
	gap   bool // before by are versions that cannot be read
}

func newTracing(v versionlog.Version, data []byte) *tracing {
	t := &tracing{blame: &Blamed{Version: v}, lines: splitLines(data), by: &v}
	for i, line := range t.lines {
		t.blame.Lines = append(t.blame.Lines, BlamedLine{Text: line})
		t.of = append(t.of, i)
	}
	return t
}

// back goes back to a version with a content, which is not given if it is the same one.
func (t *tracing) back(before versionlog.Version, data []byte) {
	if before.Digest != t.by.Digest {
		older := splitLines(data)
		of := make([]int, len(older))
		for i := range of {
			of[i] = -1
		}
		for i, was := range matchLines(older, t.lines) {
			if was >= 0 {
				of[was] = t.of[i]
			} else {
				t.put(t.of[i])
			}
		}
		t.lines, t.of = older, of
	}
	t.by, t.gap = &before, false
}

// put puts a line down to the version that is looked at.
func (t *tracing) put(line int) {
	if line >= 0 {
		t.blame.Lines[line].By, t.blame.Lines[line].Unsure = t.by, t.gap
		t.found++
	}
}

// end puts what is left down to the oldest version.
func (t *tracing) end() {
	for _, line := range t.of {
		t.put(line)
	}
	t.of = nil
}

// lineage yields what a version was made of, newest first: the versions of its memory before
// it and, where a program saved a file by renaming the old one away, those of the old one.
func lineage(ctx context.Context, s *memory.Store, v versionlog.Version) iter.Seq2[versionlog.Version, error] {
	return func(yield func(versionlog.Version, error) bool) {
		at, mayReplace := v, true
		for {
			var replaced *versionlog.Version
			next := func(parent *versionlog.Version) (err error) {
				if mayReplace && isNewText(&at, parent) {
					replaced, err = replacedMemory(ctx, s, at)
				}
				mayReplace = true
				return err
			}
			for parent, err := range s.Log().History(ctx, s.Info().ID, at.MemoryID, at.Seq) {
				if err == nil {
					err = next(&parent)
				}
				if err != nil {
					yield(parent, err)
					return
				}
				if replaced != nil {
					break
				}
				if at = parent; !yield(parent, nil) {
					return
				}
			}
			if replaced == nil {
				if err := next(nil); err != nil {
					yield(at, err)
					return
				}
			}
			if replaced == nil || !yield(*replaced, nil) {
				return
			}
			at, mayReplace = *replaced, false // it is where it was put away
		}
	}
}

// isNewText reports whether v brought a text to its path that its memory had not had before:
// it is the memory's first version, or a rename right after that by the same session.
func isNewText(v, parent *versionlog.Version) bool {
	if v.Redacted() {
		return false
	}
	if parent == nil {
		return v.Op == versionlog.OpCreated
	}
	return v.Op == versionlog.OpRenamed && parent.Op == versionlog.OpCreated && parent.Parent == "" &&
		parent.Actor == v.Actor && parent.Session == v.Session
}

// replacedMemory returns the version by which another memory was renamed away to make room for
// v, or nil.
func replacedMemory(ctx context.Context, s *memory.Store, v versionlog.Version) (*versionlog.Version, error) {
	before, ok, err := Replaced(ctx, s, v.Path, v)
	if err != nil || !ok || before.MemoryID == v.MemoryID {
		return nil, err
	}
	return &before, nil
}
