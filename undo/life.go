package undo

import (
	"bytes"
	"slices"

	"mneme/cas"
	"mneme/memory"
	"mneme/versionlog"
)

// life is the history of one memory or directory since before a session first changed it.
type life struct {
	before   *versionlog.Version // what the first of versions replaced; nil: nothing
	versions []versionlog.Version
	notes    []*undoNote // notes[i] is what the commit of versions[i] says; nil: nothing
	filled   []filling   // oldest first
}

// filling is a commit that has taken back the deletion of a memory without a version of it:
// its content is merged with the memory that was made in its place.
type filling struct {
	behind int                // the index of the deletion
	commit versionlog.Version // its session and sequence number
	note   *undoNote
}

// fill notes that a commit may be a filling, which has changed a memory at a path. The session that
// it takes back has made that memory, where it had deleted this one; or it takes back a filling.
func (l *life) fill(c *versionlog.Commit, note *undoNote, path string, other *life) {
	gone := l.newest()
	if gone.Live() || gone.Path != path {
		return
	}
	isMade := func(v versionlog.Version) bool { return v.Op == versionlog.OpCreated && note.covers(&v) }
	isBack := func(f filling) bool { return note.covers(&f.commit) }
	if note.covers(gone) && other != nil && slices.ContainsFunc(other.versions, isMade) || slices.ContainsFunc(l.filled, isBack) {
		l.filled = append(l.filled, filling{len(l.versions) - 1, versionlog.Version{Session: c.Session, Seq: c.Seq}, note})
	}
}

// add takes the next version.
func (l *life) add(v *versionlog.Version, note *undoNote) {
	l.versions, l.notes = append(l.versions, *v), append(l.notes, note)
}

// newest is the newest version.
func (l *life) newest() *versionlog.Version { return &l.versions[len(l.versions)-1] }

// lastPath is where the memory was last, as far as that was not erased; "" where all of it was.
func (l *life) lastPath() string {
	for _, v := range slices.Backward(l.versions) {
		if v.Path != "" {
			return v.Path
		}
	}
	if l.before != nil {
		return l.before.Path
	}
	return ""
}

// head is the live version; nil: there is none.
func (l *life) head() *versionlog.Version {
	if v := l.newest(); v.Live() {
		return v
	}
	return nil
}

// stretch are consecutive versions, all of a session that is undone: the versions before
// and after them.
type stretch struct {
	before, after *versionlog.Version // before is nil where there was nothing
}

// runs returns the runs of a session above a sequence number that are not yet taken back,
// newest first, and the notes by which others were taken back. A run counts again if the
// change that took it back was itself taken back.
func (l *life) runs(session string, since uint64) (runs []stretch, by []*undoNote) {
	var notes []*undoNote
	open := false // the version behind is one of the newest run
	for i := len(l.versions) - 1; i >= 0; i-- {
		v := &l.versions[i]
		for _, f := range slices.Backward(l.filled) {
			if f.behind == i && !slices.ContainsFunc(notes, func(n *undoNote) bool { return n.covers(&f.commit) }) {
				notes = append(notes, f.note)
			}
		}
		isBack := slices.ContainsFunc(notes, func(n *undoNote) bool { return n.covers(v) })
		if isBack && v.Session == session && v.Seq > since {
			for _, n := range notes {
				if n.covers(v) && !slices.Contains(by, n) {
					by = append(by, n)
				}
			}
		}
		if l.notes[i] != nil && !isBack {
			notes = append(notes, l.notes[i])
		}
		if isBack || v.Session != session || v.Seq <= since {
			open = false
			continue
		}
		if !open {
			runs = append(runs, stretch{after: v})
		}
		open = true
		if runs[len(runs)-1].before = l.before; i > 0 {
			runs[len(runs)-1].before = &l.versions[i-1]
		}
	}
	return runs, by
}

// present is the state of a memory in the course of an undo.
type present struct {
	path, spelling string
	digest         cas.Digest
	source         *versionlog.Version // whose content it is; nil: content is that
	content        []byte
}

func presentOf(v *versionlog.Version) *present {
	if v == nil || !v.Live() {
		return nil
	}
	return &present{path: v.Path, spelling: v.Spelling, digest: v.Digest, source: v}
}

// Why something is not taken back.
const (
	whyMade   = "the session made it, and others have changed it since"
	whyLines  = "others have changed the same lines since"
	whyBinary = "others have changed it since, and it is no text"

	whyErasedBefore = "what was there before the session was erased"
	whyErasedMade   = "what the session made of it was erased"
)

// clash is a run that cannot be taken back.
type clash struct {
	stretch
	why string
}

// undo returns the state of a memory once runs are taken back, newest first; nil: no memory. The first
// run that cannot be taken back is returned. text returns the content of a version, which is read only
// to merge two.
//
// Everything that others have done since stays: a name that they gave, a removal, a memory that they
// have made again, and their lines.
func undo(head *versionlog.Version, runs []stretch, text func(*present) ([]byte, error)) (*present, *clash, error) {
	now := presentOf(head)
	for _, r := range runs {
		left, why, err := r.takenFrom(now, text)
		if why != "" || err != nil {
			return left, &clash{r, why}, err
		}
		now = left
	}
	return now, nil, nil
}

// takenFrom returns what is left of a memory once the run is taken back, nil for nothing. If it cannot be
// taken back, why is the reason.
func (r stretch) takenFrom(now *present, text func(*present) ([]byte, error)) (left *present, why string, err error) {
	if r.isErased() {
		return now, r.whyErased(now), nil
	}
	was, made := presentOf(r.before), presentOf(r.after)
	switch {
	case was == nil && made == nil:
		return now, "", nil
	case now == nil && (was == nil || made != nil): // removed since
		return nil, "", nil
	case was == nil && now.digest != made.digest:
		return now, whyMade, nil
	case was == nil:
		return nil, "", nil
	case made == nil && now == nil:
		return was, "", nil
	case made == nil: // made again since
		return now, "", nil
	}
	why, err = now.takeBack(was, made, text)
	return now, why, err
}

// isErased reports whether a version at an end of the run was erased.
func (r stretch) isErased() bool {
	return r.after.Redacted() || r.before != nil && r.before.Redacted()
}

// whyErased returns the reason why an erased run cannot be taken back. The result is "" if the path had
// nothing before the run, and has nothing now.
func (r stretch) whyErased(now *present) string {
	switch {
	case now == nil && (r.before == nil || !r.before.Live()):
		return ""
	case r.before != nil && r.before.Redacted():
		return whyErasedBefore
	}
	return whyErasedMade
}

// takeBack takes back the change of a memory from was to made; why says why that is not
// possible.
func (p *present) takeBack(was, made *present, text func(*present) ([]byte, error)) (why string, err error) {
	back := *p
	if made.path == p.path && made.spelling == p.spelling {
		back.path, back.spelling = was.path, was.spelling
	}
	switch {
	case made.digest == was.digest, p.digest == was.digest:
	case p.digest == made.digest:
		back.digest, back.source, back.content = was.digest, was.source, was.content
	default:
		var texts [3][]byte
		for i, side := range []*present{made, p, was} {
			if texts[i], err = text(side); err != nil {
				return "", err
			}
			if !memory.IsText(texts[i]) || len(texts[i]) > memory.MostCompared {
				return whyBinary, nil
			}
		}
		merged, ok := memory.Merge(texts[0], texts[1], texts[2])
		if !ok {
			return whyLines, nil
		}
		if !bytes.Equal(merged, texts[1]) {
			back.digest, back.source, back.content = cas.Sum(merged), nil, merged
		}
	}
	*p = back
	return "", nil
}

// target returns the present as a target, for a memory whose newest version is given.
func (p *present) target(newest *versionlog.Version) *Target {
	return &Target{
		MemoryID: newest.MemoryID, Spelling: p.spelling, Digest: p.digest, Source: p.source, Content: p.content, Deleted: !newest.Live(),
	}
}
