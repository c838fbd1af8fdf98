package versionlog

import (
	"fmt"
	"iter"
)

// An erased version has its memory, the version that it replaced and its operation, but not
// its path. So a memory has no path from such a version on, up to its next version that is
// whole, which has the path. The visible state is always a part of the real state, so
// nothing is in the way that was not in the way when the commit was made.

// partView is a View in which some paths are free, and at some are memories that were hidden.
type partView struct {
	View
	hidden map[string]bool
	shown  map[string]*Version
}

// Head is part of View.
func (p *partView) Head(path string) (*Version, error) {
	if v := p.shown[path]; v != nil || p.hidden[path] {
		return v, nil
	}
	return p.View.Head(path)
}

// Below is part of View.
func (p *partView) Below(path string) iter.Seq2[Version, error] {
	return func(yield func(Version, error) bool) {
		for v, err := range p.View.Below(path) {
			if !p.hidden[v.Path] && !yield(v, err) {
				return
			}
		}
	}
}

// passOver judges the erased versions of a finished commit, and makes the view of b what its
// other versions are judged on.
func (b *builder) passOver(view VersionView, c *Commit) error {
	part := &partView{View: view, hidden: map[string]bool{}, shown: map[string]*Version{}}
	seen := map[string]bool{}
	for i := range c.Versions {
		v := &c.Versions[i]
		if seen[v.MemoryID] {
			return fmt.Errorf("%w: it has two versions of %s", ErrInvalid, v.MemoryID)
		}
		seen[v.MemoryID] = true
		newest, err := view.Newest(v.MemoryID)
		if err != nil {
			return err
		}
		if !v.Redacted() {
			if err := b.show(part, v, newest); err != nil {
				return err
			}
			continue
		}
		if err := v.mayFollow(newest); err != nil {
			return err
		}
		if newest != nil && newest.Live() && !newest.Redacted() {
			part.hidden[newest.Path] = true
		}
	}
	if len(part.hidden)+len(part.shown) > 0 {
		b.view = part
	}
	return nil
}

// mayFollow reports why an erased version cannot be the next of its memory.
func (v *Version) mayFollow(newest *Version) error {
	parent := ""
	if newest != nil {
		parent = newest.ID
	}
	makes, lives := v.Op == OpCreated, newest != nil && newest.Live()
	switch {
	case v.Op != OpCreated && v.Op != OpModified && v.Op != OpRenamed && v.Op != OpDeleted, v.Parent != parent, makes == lives:
		return fmt.Errorf("%w: version %s does not follow from the one before", ErrInvalid, v.ID)
	}
	if _, err := MemoryTime(v.MemoryID); err != nil {
		return fmt.Errorf("%w: version %s: %w", ErrInvalid, v.ID, err)
	}
	return nil
}

// show puts a memory, whose version before v was erased, where v says that it was.
func (b *builder) show(part *partView, v, newest *Version) error {
	if newest == nil || !newest.Redacted() || !newest.Live() || v.Op == OpCreated {
		return nil
	}
	was := *newest
	if was.Path = v.Path; v.Op == OpRenamed {
		if v.Digest.IsZero() != v.IsDir() {
			return fmt.Errorf("%w: version %s does not follow from the one before", ErrInvalid, v.ID)
		}
		was.Path, was.Digest, was.Size = v.From, v.Digest, v.Size // so that it can be followed, whatever it was
	}
	there, err := part.View.Head(was.Path)
	if err != nil || there != nil { // another, which the judgement will come upon
		return err
	}
	if part.shown[was.Path] = &was; v.Op == OpModified {
		b.showing = append(b.showing, was.Path)
	}
	return nil
}
