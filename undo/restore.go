package undo

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"mneme/history"
	"mneme/memory"
	"mneme/versionlog"
)

// Restoration is the plan by which everything at and below a path returns to an earlier
// state.
type Restoration struct {
	Seq   uint64 // the commit after which it was so
	Tip   uint64 // the newest commit when the plan was made
	Steps []Step // see Plan
	Left  []Left // what stays as it is, in the order of the paths
}

// Left is a path that does not get its target.
type Left struct {
	Path     string              // of an undo, the last one that is known; "" where all were erased
	Head     *versionlog.Version // what is there; nil: nothing
	InTheWay string              // the path of a memory or directory at, above or below it that stays; ""
	Why      string              // any other reason; "" and no InTheWay: others have changed it meanwhile
}

// PlanRestore plans how everything at and below a path, "/" being the whole store, returns to
// its state right after the commit of a sequence number. The paths of keep stay as they are.
// PlanRestore changes nothing. Memories come back with their ids if they were deleted; a memory
// that now lives outside of the path stays there, and a new memory is made.
//
// Two things are left as they are, since no commit can change them alone: the spelling of a
// name whose content is the same, and whether a directory with something in it was made on
// purpose.
//
// It holds only the differences in memory, not the states. versionlog.ErrNotFound: no such
// commit exists, or nothing is, or was, at the path.
func PlanRestore(ctx context.Context, s *memory.Store, path string, seq uint64, keep map[string]bool) (*Restoration, error) {
	tip, err := s.Tip(ctx)
	if err != nil {
		return nil, err
	}
	now, err := s.At(ctx, tip.Seq)
	if err != nil {
		return nil, err
	}
	then, err := s.At(ctx, seq)
	if err != nil {
		return nil, err
	}
	r := &Restoration{Seq: seq, Tip: tip.Seq}
	w := &restoring{path: path, keep: keep, now: map[string]*versionlog.Version{}, want: map[string]*Target{}}
	if path == "/" {
		w.live = map[string]bool{}
	}
	for d, err := range history.SideBySide(now.Heads(ctx, path, ""), then.Heads(ctx, path, "")) {
		if err != nil {
			return nil, err
		}
		w.add(d)
	}
	if !w.found {
		return nil, s.Wrap(path, versionlog.ErrNotFound)
	}
	if err := w.addAbove(ctx, now); err != nil {
		return nil, err
	}
	if err := leaveErased(ctx, s, w, seq); err != nil {
		return nil, err
	}
	if err := markDeleted(ctx, s, w); err != nil {
		return nil, err
	}
	var blocked map[string]string
	r.Steps, blocked = Plan(w.now, w.want)
	for path, other := range blocked {
		w.left = append(w.left, Left{Path: path, InTheWay: other})
	}
	r.Left = sortedByPath(w.left)
	return r, nil
}

// restoring has the parts of two states that Plan needs.
type restoring struct {
	path    string
	keep    map[string]bool
	now     map[string]*versionlog.Version
	want    map[string]*Target
	live    map[string]bool // of the whole store: the ids of live memories and directories; nil: not known
	left    []Left
	found   bool
	pending []string // directories that differ, above where the walk is, of which nothing is known to stay in them
}

// add takes what is at one path now, which is From, and what was, in the order of the paths.
func (w *restoring) add(d history.Difference) {
	w.found = true
	v := d.From
	if v == nil {
		v = d.To
	}
	path := v.Path
	for len(w.pending) > 0 && !strings.HasPrefix(path, w.pending[len(w.pending)-1]) {
		w.pending = w.pending[:len(w.pending)-1]
	}
	if w.live != nil && d.From != nil {
		w.live[d.From.MemoryID] = true
	}
	switch same := d.From != nil && d.To != nil && (d.From.Digest == d.To.Digest || d.From.IsDir()); {
	case same:
		if len(w.pending) > 0 {
			w.now[path], w.pending = d.From, nil
		}
		return
	case w.keep[path]:
		w.left = append(w.left, Left{Path: path, Head: d.From})
		if d.From != nil {
			w.now[path] = d.From
		}
		return
	}
	if d.From != nil {
		w.now[path] = d.From
	}
	if w.want[path] = nil; d.To != nil {
		w.want[path] = targetOf(d.To)
	}
	if v.IsDir() {
		w.pending = append(w.pending, path)
	}
}

// addAbove adds the memories and directories above the path, which may be in its way.
func (w *restoring) addAbove(ctx context.Context, now versionlog.State) error {
	for above := parentPath(w.path); above != ""; above = parentPath(above) {
		v, err := now.Head(ctx, above)
		switch {
		case errors.Is(err, versionlog.ErrNotFound):
		case err != nil:
			return err
		default:
			w.now[above] = &v
		}
	}
	return nil
}

// whyErased is why a restore leaves a path whose earlier state is erased.
const whyErased = "what it was then was erased"

// IsErased reports whether a path stays since its target, or a version that leads there,
// was erased.
func (l *Left) IsErased() bool {
	return l.Why == whyErased || l.Why == whyErasedBefore || l.Why == whyErasedMade
}

// leaveErased leaves memories that are there now and were missing at that time only because
// their version of that time was erased.
func leaveErased(ctx context.Context, s *memory.Store, w *restoring, seq uint64) error {
	var at time.Time // of the commit
	c, err := versionlog.CommitAt(ctx, s.Log(), s.Info().ID, seq)
	if err != nil {
		return s.Wrap(w.path, err)
	}
	if c != nil {
		at = c.Time
	}
	for path, t := range w.want {
		v := w.now[path]
		if t != nil || v == nil {
			continue
		}
		if made, err := versionlog.MemoryTime(v.MemoryID); err == nil && made.After(at) {
			continue
		}
		for old, err := range s.Log().History(ctx, s.Info().ID, v.MemoryID, seq+1) {
			if err != nil {
				return s.Wrap(path, err)
			}
			if old.Live() && !old.Redacted() && old.Path == path {
				return notHistory(s, &old, nil)
			}
			if old.Redacted() && old.Live() {
				delete(w.want, path)
				w.left = append(w.left, Left{Path: path, Head: v, Why: whyErased})
			}
			break
		}
	}
	return nil
}

// markDeleted finds out which of the memories and directories that come back were deleted.
// A directory whose newest version was erased cannot come back, since it can no longer be
// recognised as a directory, and a new one is made.
func markDeleted(ctx context.Context, s *memory.Store, w *restoring) error {
	for path, t := range w.want {
		switch {
		case t == nil || w.now[path] != nil:
		case w.live != nil && !isDirPath(path):
			t.Deleted = !w.live[t.MemoryID]
		default:
			newest, err := s.Log().Newest(ctx, s.Info().ID, t.MemoryID)
			if err != nil {
				return s.Wrap(path, err)
			}
			t.Deleted = !newest.Live() && !(isDirPath(path) && newest.Redacted())
		}
	}
	return nil
}

func sortedByPath(left []Left) []Left {
	slices.SortFunc(left, func(a, b Left) int { return strings.Compare(a.Path, b.Path) })
	return left
}
