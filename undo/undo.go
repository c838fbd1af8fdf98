package undo

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"mneme/cas"
	"mneme/errkind"
	"mneme/history"
	"mneme/internal/quote"
	"mneme/memory"
	"mneme/versionlog"
)

// Undo is the plan by which the changes of one session are taken back.
type Undo struct {
	Session    string
	Since, Tip uint64 // what it did above Since, in a history that went up to Tip
	Steps      []Step // see Plan
	// More says that there will be more steps once these are made: what a memory is to replace has to go
	// before.
	More bool
	// Conflicts are the memories that cannot be what they were without the session, since others
	// have changed the same. They stay as they are.
	Conflicts []UndoConflict
	// Left are the paths at which something cannot be again, since something else is there or in
	// the way, and whose content is elsewhere or was never theirs.
	Left []Left
	// By are the sessions that have taken back some of it already, and were not taken back
	// themselves.
	By []string
	// Restored are the commits of restores to an earlier point that have, the newest first. All that is
	// known of them and of By is what their commits say, which those of an archive from elsewhere may
	// say falsely: then what the session did stays, and nothing else comes of it.
	Restored []uint64
}

// UndoConflict is a memory that an undo leaves: the session's version, the current one, and
// the one before the session.
type UndoConflict struct {
	Path         string
	Base, Theirs *versionlog.Version // what the session made, and what is there now; nil: no memory
	Yours        []byte              // the content without the session
	Why          string
}

// PlanUndo plans how the changes of a session to the store above a sequence number are taken back,
// while the changes that others have made since stay. PlanUndo changes nothing.
//
// Each memory returns to its state before the session, run by run of its versions, the newest
// first: its content, its name, whether it exists. If others have written to it since, the lines
// of both are merged, with the session's content as the base (Merge). Changes that cannot be
// merged without doubt are a conflict.
//
// Changes that an undo or a restore has taken back are skipped, unless that was itself taken back.
// So a second undo finds nothing to do, and the undo of an undo brings the changes back.
//
// *UnknownSessionError: no session of that name has written.
func PlanUndo(ctx context.Context, s *memory.Store, session string, since uint64) (*Undo, error) {
	tip, err := s.Tip(ctx)
	if err != nil {
		return nil, err
	}
	u := &Undo{Session: session, Since: since, Tip: tip.Seq}
	lives, err := lives(ctx, s, u)
	if err != nil || len(lives) == 0 {
		return u, err
	}
	p := &undoing{
		Undo: u, s: s, now: map[string]*versionlog.Version{}, want: map[string]*Target{}, at: map[string]*back{}, none: map[string]bool{},
	}
	for _, id := range slices.Sorted(maps.Keys(lives)) { // in the order in which they were made
		if err := p.add(ctx, lives[id]); err != nil {
			return nil, err
		}
	}
	if err := p.arrange(ctx); err != nil {
		return nil, err
	}
	if err := p.lookAround(ctx); err != nil {
		return nil, err
	}
	var blocked map[string]string
	u.Steps, blocked = Plan(p.now, p.want)
	for _, path := range slices.Sorted(maps.Keys(blocked)) {
		if err := p.block(ctx, path, blocked[path]); err != nil {
			return nil, err
		}
	}
	u.Left = sortedByPath(u.Left)
	slices.SortFunc(u.Restored, func(a, b uint64) int { return cmp.Compare(b, a) })
	slices.SortStableFunc(u.Conflicts, func(a, b UndoConflict) int { return strings.Compare(a.Path, b.Path) })
	return u, nil
}

// lives returns the life of each memory that the session has changed, by id.
func lives(ctx context.Context, s *memory.Store, u *Undo) (map[string]*life, error) {
	lives, first, err := changedBy(ctx, s, u)
	if err != nil || len(lives) == 0 {
		return nil, err
	}
	if err := follow(ctx, s, lives, first, u.Tip); err != nil {
		return nil, err
	}
	for id, l := range lives {
		if len(l.versions) == 0 {
			delete(lives, id)
			continue
		}
		if l.versions[0].Session != u.Session { // the state before it does not matter
			continue
		}
		parent, ok, err := history.Parent(ctx, s, l.versions[0])
		if err != nil {
			return nil, err
		}
		if ok {
			l.before = &parent
		}
	}
	return lives, nil
}

// changedBy returns an empty life for each memory that the session has changed, by id, and the number of
// the session's first commit after u.Since.
func changedBy(ctx context.Context, s *memory.Store, u *Undo) (lives map[string]*life, first uint64, err error) {
	lives = map[string]*life{}
	known := false
	for c, err := range s.CommitsBefore(ctx, u.Tip+1, versionlog.Filter{Session: u.Session}) {
		if err != nil {
			return nil, 0, err
		}
		if known = true; c.Seq <= u.Since {
			break
		}
		first = c.Seq
		for i := range c.Versions {
			lives[c.Versions[i].MemoryID] = &life{}
		}
	}
	if !known || u.Session == "" {
		return nil, 0, unknownSession(ctx, s, u.Session)
	}
	return lives, first, nil
}

// follow adds to the lives their versions in the commits from first to tip. A memory that was deleted also
// gets the versions that an undo made at its path.
func follow(ctx context.Context, s *memory.Store, lives map[string]*life, first, tip uint64) error {
	deleted := map[string][]*life{} // by path
	for c, err := range s.Commits(ctx, first-1) {
		if err != nil {
			return err
		}
		if c.Seq > tip {
			break
		}
		note := noteOf(c)
		for i := range c.Versions {
			v := &c.Versions[i]
			l := lives[v.MemoryID]
			if l != nil {
				l.add(v, note)
			}
			switch {
			case l != nil && v.Op == versionlog.OpDeleted:
				deleted[v.Path] = append(deleted[v.Path], l)
			case note != nil && v.Op == versionlog.OpModified:
				for _, other := range deleted[v.Path] {
					other.fill(c, note, v.Path, l)
				}
			}
		}
	}
	return nil
}

// undoing is an Undo in the making.
type undoing struct {
	*Undo
	s     *memory.Store
	now   map[string]*versionlog.Version
	want  map[string]*Target
	at    map[string]*back // by path: what is live there, of those that the session has changed
	backs []*back
	none  map[string]bool // paths at which nothing is
}

// back is a memory that the session has changed, and its target without that.
type back struct {
	*life
	to     *present // nil: nothing
	clash  *clash   // why it cannot be that; nil: it can
	stuck  bool     // it stays as it is, which is said
	merged bool     // what others have made of it is brought together with what was at its path before
}

// isMade reports whether the session made the memory, and others have changed it.
func (b *back) isMade() bool { return b != nil && b.clash != nil && b.clash.why == whyMade && !b.stuck }

// moves reports whether the memory goes from where it is.
func (b *back) moves() bool {
	head := b.head()
	return head != nil && b.clash == nil && (b.to == nil || b.to.path != head.Path)
}

// add finds the target of a memory.
func (p *undoing) add(ctx context.Context, l *life) error {
	runs, by := l.runs(p.Session, p.Since)
	for _, note := range by {
		switch {
		case note.session == "" && !slices.Contains(p.Restored, note.until+1):
			p.Restored = append(p.Restored, note.until+1)
		case note.by != "" && !slices.Contains(p.By, note.by):
			p.By = append(p.By, note.by)
		}
	}
	head := l.head()
	if head != nil && head.Redacted() {
		return nil // its path is not known
	}
	to, clash, err := undo(head, runs, func(side *present) ([]byte, error) { return p.text(ctx, side) })
	switch {
	case errkind.Of(err) == errkind.Corrupt && head != nil:
		p.Left = append(p.Left, Left{Path: head.Path, Head: head, Why: err.Error()})
		return nil
	case err != nil:
		return err
	}
	b := &back{life: l, to: to, clash: clash}
	if head != nil {
		p.now[head.Path], p.at[head.Path] = head, b
	}
	if b.clash != nil || !isSame(to, presentOf(head)) {
		p.backs = append(p.backs, b)
	}
	return nil
}

func isSame(a, b *present) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.path == b.path && a.spelling == b.spelling && a.digest == b.digest
}

func (p *undoing) text(ctx context.Context, side *present) ([]byte, error) {
	if side == nil {
		return nil, nil
	}
	if side.source == nil {
		return side.content, nil
	}
	return p.s.Content(ctx, *side.source)
}

// arrange decides the target of each path: first for memories that stay where they are,
// then for those that move. If one of these must stay after all, all paths are decided
// again.
func (p *undoing) arrange(ctx context.Context) error {
	for again := true; again; {
		p.wantStaying()
		var err error
		if again, err = p.placeMoving(ctx); err != nil {
			return err
		}
	}
	for _, b := range p.backs {
		if b.clash != nil && !b.stuck && !b.merged {
			if err := p.conflict(ctx, b); err != nil {
				return err
			}
		}
	}
	return nil
}

// wantStaying starts the decision: memories that stay at their paths get their targets, and the paths that
// other memories leave get none.
func (p *undoing) wantStaying() {
	p.want = map[string]*Target{}
	for _, b := range p.backs {
		b.merged = false
		switch {
		case b.clash != nil || b.stuck:
		case b.moves():
			p.want[b.head().Path] = nil
		case b.head() != nil:
			p.want[b.to.path] = b.to.target(b.newest())
		}
	}
}

// placeMoving places the memories that need another path. It stops and returns again if one of them must
// stay where it is.
func (p *undoing) placeMoving(ctx context.Context) (again bool, err error) {
	for _, b := range p.backs {
		if b.clash != nil || b.stuck || b.to == nil || b.head() != nil && !b.moves() {
			continue
		}
		if err := p.place(ctx, b); err != nil {
			return false, err
		}
		if b.stuck && b.head() != nil {
			return true, nil
		}
	}
	return false, nil
}

// place gives a memory the path that it is to have, if nothing else stays there.
func (p *undoing) place(ctx context.Context, b *back) error {
	path := b.to.path
	there, err := p.head(ctx, path)
	if err != nil {
		return err
	}
	t, changes := p.want[path]
	leaves, same := changes && t == nil, there != nil && (there.IsDir() || there.Digest == b.to.digest)
	switch {
	case there == nil && !changes:
	case leaves && same && b.head() == nil && p.at[path].to == nil: // the session has made it again, as it was
		b.stuck = true
		delete(p.want, path)
		return nil
	case leaves && same: // what is there has to go first: a second commit of the same content would change nothing
		b.stuck, p.More = true, true
		return nil
	case leaves:
	case isDirPath(path): // others have made it, too
		return nil
	case b.head() == nil && t == nil && same: // others have it there already
		return nil
	case t == nil && p.at[path].isMade():
		return p.placeOver(ctx, b, p.at[path])
	default:
		return p.inTheWay(ctx, b, path, path)
	}
	p.want[path] = b.to.target(b.newest())
	return nil
}

// placeOver is place where the session has made another memory at the path, which others have
// changed since: their changes are brought together with what was there before.
func (p *undoing) placeOver(ctx context.Context, b, other *back) error {
	var texts [3][]byte
	for i, side := range []*present{presentOf(other.clash.after), presentOf(other.head()), b.to} {
		var err error
		if texts[i], err = p.text(ctx, side); err != nil {
			return err
		}
	}
	base, head := other.clash.after, other.head()
	merged, ok := []byte(nil), false
	if memory.IsText(texts[0]) && memory.IsText(texts[1]) && memory.IsText(texts[2]) {
		merged, ok = memory.Merge(texts[0], texts[1], texts[2])
	}
	if !ok {
		b.stuck, other.stuck = true, true
		p.Conflicts = append(p.Conflicts, UndoConflict{Path: head.Path, Base: base, Theirs: head, Yours: texts[2], Why: whyLines})
		return nil
	}
	other.merged = true
	p.want[head.Path] = &Target{MemoryID: head.MemoryID, Spelling: b.to.spelling, Digest: cas.Sum(merged), Content: merged}
	return nil
}

// inTheWay leaves a memory that cannot have a path. A memory that has no path then becomes
// a conflict.
func (p *undoing) inTheWay(ctx context.Context, b *back, path, other string) error {
	if b.stuck = true; b.head() != nil || isDirPath(path) {
		p.Left = append(p.Left, Left{Path: path, InTheWay: other})
		return nil
	}
	yours, err := p.text(ctx, b.to)
	if err != nil {
		return err
	}
	p.Conflicts = append(p.Conflicts, UndoConflict{Path: path, Theirs: p.now[path], Yours: yours, Why: whyTaken(path, other)})
	return nil
}

func whyTaken(path, other string) string {
	if path == other {
		return "others have made another memory there since"
	}
	return quote.Name(other) + " is in its way"
}

// conflict leaves a memory that others have changed, too.
func (p *undoing) conflict(ctx context.Context, b *back) error {
	head := b.head()
	if left := (Left{Path: b.lastPath(), Head: head, Why: b.clash.why}); left.IsErased() {
		p.Left = append(p.Left, left)
		return nil
	}
	yours, err := p.text(ctx, presentOf(b.clash.before))
	if err != nil {
		return err
	}
	p.Conflicts = append(p.Conflicts, UndoConflict{Path: b.newest().Path, Base: b.clash.after, Theirs: head, Yours: yours, Why: b.clash.why})
	return nil
}

// head returns the live version at a path, which the plan knows then; nil: none.
func (p *undoing) head(ctx context.Context, path string) (*versionlog.Version, error) {
	if v := p.now[path]; v != nil || p.none[path] {
		return v, nil
	}
	v, err := p.s.Log().Head(ctx, p.s.Info().ID, path)
	switch {
	case errors.Is(err, versionlog.ErrNotFound):
		p.none[path] = true
		return nil, nil
	case err != nil:
		return nil, p.s.Wrap(path, err)
	}
	p.now[path] = &v
	return &v, nil
}

// lookAround finds everything above and below the targets, and in directories that will be
// removed.
func (p *undoing) lookAround(ctx context.Context) error {
	for _, path := range slices.Sorted(maps.Keys(p.want)) {
		isGone := p.want[path] == nil
		for above := parentPath(path); above != "" && !isGone; above = parentPath(above) {
			if _, err := p.head(ctx, above); err != nil {
				return err
			}
		}
		if isGone && !isDirPath(path) {
			continue
		}
		for v, err := range p.s.Log().Heads(ctx, p.s.Info().ID, strings.TrimSuffix(path, "/"), "") {
			if err != nil {
				return p.s.Wrap(path, err)
			}
			if p.now[v.Path] == nil {
				p.now[v.Path] = &v
			}
			if _, changes := p.want[v.Path]; !changes {
				break
			}
		}
	}
	return nil
}

// block leaves memories that Plan cannot place.
func (p *undoing) block(ctx context.Context, path, other string) error {
	for _, b := range p.backs {
		if b.to != nil && b.to.path == path && b.newest().MemoryID == p.want[path].MemoryID {
			return p.inTheWay(ctx, b, path, other)
		}
	}
	p.Left = append(p.Left, Left{Path: path, InTheWay: other})
	return nil
}
