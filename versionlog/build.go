package versionlog

import (
	"crypto/rand"
	"fmt"
	"iter"
	"strings"
	"time"
)

// View is the state of one store that Build judges a proposal against. A
// backend implements it inside the transaction that will append the commit,
// so that nothing it answered can change before the commit is in.
type View interface {
	// Head returns the live version of a path, or nil.
	Head(path string) (*Version, error)
	// Below yields the live versions whose paths begin with path and a slash, in any
	// order: also that of the directory itself. The path has no slash at its end.
	Below(path string) iter.Seq2[Version, error]
	// Newest returns the newest version of a memory, or nil.
	Newest(memoryID string) (*Version, error)
}

// Build decides what commit a proposal becomes after tip, or why it cannot
// become one. Every backend's Commit is: look the key up, Build, persist the
// commit unless it has no versions, all in one transaction. Errors are those
// of Log.Commit and those of the view.
func Build(view View, store Store, tip Tip, p *Proposal, now time.Time) (*Commit, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	if p.Finished == nil && p.Epoch != 0 && p.Epoch != store.Epoch {
		return nil, fmt.Errorf("%w: it is of epoch %d, and the store is in epoch %d", ErrFenced, p.Epoch, store.Epoch)
	}
	at := now.UTC().Truncate(time.Microsecond)
	if at.Before(tip.Time) { // times of a store never run backwards, and later versions differ
		at = tip.Time.Add(time.Microsecond)
	}
	b := builder{
		view: view, now: now, at: at, adopts: p.Finished != nil, heads: map[string]*Version{}, revived: map[string]bool{},
		arriving: map[string]bool{}, leaving: map[string]bool{},
	}
	if p.Finished != nil {
		return b.adopt(store, tip, p)
	}
	if p.Event != nil {
		return p.becomes(view, store, tip, at)
	}
	if err := b.judge(store.ID, p.Changes); err != nil {
		return nil, err
	}
	switch {
	case len(b.versions) == 0:
		return alreadyTheCase(store, tip), nil
	case store.Replica:
		return nil, ErrReplica
	case !store.ArchivedAt.IsZero() && !onlyRemoves(b.versions):
		return nil, ErrArchived
	}
	if err := b.checkQuotas(&store.Quota, tip, p); err != nil {
		return nil, err
	}
	if !p.Confirmed {
		if err := store.Policy.Guard.check(b.versions, b.heads, p.Deleted); err != nil {
			return nil, err
		}
	}
	return b.commit(store, tip, p)
}

// judge makes the versions of changes, if they may be made together.
func (b *builder) judge(storeID string, changes []Change) error {
	if err := b.checkExpectations(storeID, changes); err != nil {
		return err
	}
	for _, c := range changes {
		if err := b.apply(c); err != nil {
			return err
		}
	}
	if len(b.versions) == 0 {
		return nil
	}
	return b.checkOverlaps()
}

type builder struct {
	view     View
	now      time.Time           // by the clock of the log
	at       time.Time           // of the commit
	adopts   bool                // a finished commit, whose memories have their ids
	heads    map[string]*Version // by path, as of before the commit
	versions []Version
	revived  map[string]bool // ids of memories that the commit brings back, or adopts
	arriving map[string]bool // paths that the commit makes live
	leaving  map[string]bool // paths that the commit frees
	staying  map[string]bool // directories to make that are there already
	showing  []string        // paths at which a memory is seen again that an erased version has hidden
}

func (b *builder) checkExpectations(storeID string, changes []Change) error {
	for _, c := range changes {
		for _, path := range c.paths() {
			head, err := b.view.Head(path)
			if err != nil {
				return err
			}
			b.heads[path] = head
		}
	}
	implied, err := b.directoriesInTheWay(changes)
	if err != nil {
		return err
	}
	var conflicts []Conflict
	for _, c := range changes {
		if head := b.heads[c.Path]; !c.satisfied(head) && !b.staying[c.Path] && !c.possible(head) {
			conflicts = append(conflicts, Conflict{Path: c.Path, Expected: c.Expect, Head: head})
		}
		if c.Action == Rename && b.heads[c.To] != nil {
			conflicts = append(conflicts, Conflict{Path: c.To, Expected: ExpectAbsent(), Head: b.heads[c.To]})
		}
	}
	conflicts = append(conflicts, implied...)
	if conflicts != nil {
		return &ConflictError{StoreID: storeID, Conflicts: conflicts}
	}
	return nil
}

// possible reports whether the change may be made to a path of that head.
func (c *Change) possible(head *Version) bool {
	if head == nil && (c.Action == Remove || c.Action == Rename) {
		return false
	}
	return c.Expect.Holds(head)
}

// satisfied reports whether the change is the case already. A writer that
// tries again after a lost reply, or two that write the same bytes, have
// nothing to lose, so the version they expected does not matter.
func (c *Change) satisfied(head *Version) bool {
	switch {
	case head == nil || c.Expect.kind == expectAbsent:
		return false
	case c.Action == MakeDir:
		return true
	}
	return c.Action == Put && head.Digest == c.Digest
}

func (b *builder) apply(c Change) error {
	head := b.heads[c.Path]
	if c.satisfied(head) || b.staying[c.Path] {
		return nil
	}
	v := Version{Path: c.Path, Spelling: c.Spelling}
	if head != nil {
		v.MemoryID, v.Parent, v.Digest, v.Size = head.MemoryID, head.ID, head.Digest, head.Size
		if v.Spelling == "" && c.Action == Put {
			v.Spelling = head.Spelling
		}
	}
	switch c.Action {
	case Put:
		v.Op, v.Digest, v.Size = OpModified, c.Digest, c.Size
		if head == nil {
			v.Op = OpCreated
			b.arriving[c.Path] = true
			if err := b.identify(&v, c.MemoryID); err != nil {
				return err
			}
		}
	case MakeDir:
		v.Op = OpCreated
		b.arriving[c.Path] = true
		if err := b.identify(&v, c.MemoryID); err != nil {
			return err
		}
	case Remove:
		v.Op, v.Spelling, v.Digest, v.Size = OpDeleted, "", Digest{}, 0
		b.leaving[c.Path] = true
	case Rename:
		v.Op, v.Path, v.From = OpRenamed, c.To, c.Path
		if c.Puts() {
			v.Digest, v.Size = c.Digest, c.Size
		}
		b.leaving[c.Path] = true
		b.arriving[c.To] = true
	}
	if v.Spelling == v.Path {
		v.Spelling = ""
	}
	b.versions = append(b.versions, v)
	return nil
}

// identify gives a created version its memory: a new one, or the deleted one
// of that id.
func (b *builder) identify(v *Version, memoryID string) error {
	if memoryID == "" {
		v.MemoryID = newMemoryID(b.at)
		return nil
	}
	newest, err := b.view.Newest(memoryID)
	if err != nil {
		return err
	}
	if newest == nil && b.adopts && !b.revived[memoryID] {
		if _, err := MemoryTime(memoryID); err != nil { // of which backends make keys
			return fmt.Errorf("%w: %s: %w", ErrInvalid, v.Path, err)
		}
		b.revived[memoryID] = true
		v.MemoryID = memoryID
		return nil
	}
	known := newest != nil && !newest.Redacted() || !b.adopts // whether it is a memory or a directory
	if newest == nil || newest.Live() || known && newest.IsDir() != v.IsDir() || b.revived[memoryID] {
		return fmt.Errorf("%w: %s: %s is not the id of something of this kind that was deleted from this store", ErrInvalid, v.Path, memoryID)
	}
	b.revived[memoryID] = true
	v.MemoryID, v.Parent = memoryID, newest.ID
	return nil
}

// onlyRemoves reports whether the versions of a commit do nothing but remove, and keep
// directories that it empties. An erased version may have been in any directory, and at any
// path.
func onlyRemoves(versions []Version) bool {
	emptied := map[string]bool{}
	removes, somewhere := false, false
	for i := range versions {
		if v := &versions[i]; v.Op == OpDeleted {
			emptied[dirOf(v.Path)] = true
			removes, somewhere = true, somewhere || v.Redacted()
		}
	}
	for i := range versions {
		v := &versions[i]
		kept := v.Op == OpCreated && (emptied[v.Path] || somewhere && v.IsDir() || removes && v.Redacted())
		if v.Op != OpDeleted && !kept {
			return false
		}
	}
	return true
}

// checkOverlaps makes sure that no path is both a memory and a directory once
// the commit is in, and that no directory goes without what is in it.
func (b *builder) checkOverlaps() error {
	for path := range b.arriving {
		if err := b.checkArriving(path); err != nil {
			return err
		}
	}
	for _, path := range b.showing {
		if err := b.checkArriving(path); err != nil {
			return err
		}
	}
	for path := range b.leaving {
		if !isDir(path) {
			continue
		}
		if below, err := b.staysBelow(path); err != nil || below != nil {
			return overlap(path, below, err)
		}
		for other := range b.arriving {
			if strings.HasPrefix(other, path) {
				return &OverlapError{Path: other}
			}
		}
	}
	return nil
}

func (b *builder) checkArriving(path string) error {
	if err := b.checkAbove(path); err != nil || isDir(path) {
		return err
	}
	if below, err := b.staysBelow(path); err != nil || below != nil {
		return overlap(path, below, err)
	}
	return nil
}

func overlap(path string, with *Version, err error) error {
	if err != nil {
		return err
	}
	return &OverlapError{Path: path, With: *with}
}

// checkAbove makes sure that no memory is above an arriving path.
func (b *builder) checkAbove(path string) error {
	for above := parentPath(path); above != ""; above = parentPath(above) {
		if b.arriving[above] {
			return &OverlapError{Path: path}
		}
		head, err := b.view.Head(above)
		if err != nil {
			return err
		}
		if head != nil && !b.leaving[above] {
			return &OverlapError{Path: path, With: *head}
		}
	}
	return nil
}

func (b *builder) checkQuotas(ofStore *Quota, tip Tip, p *Proposal) error {
	if onlyRemoves(b.versions) {
		return nil
	}
	more := UsageOf(b.versions)
	for i := range b.versions {
		if v := &b.versions[i]; v.Op == OpRenamed && v.Digest != b.heads[v.From].Digest {
			more.Bytes += v.Size // which the totals do not tell later, since a version does not say what was there before
		}
	}
	if err := p.Quota.CheckSession(p.Used, more); err != nil {
		return err
	}
	return ofStore.CheckStore(tip, b.now, more)
}

// dirOf returns the directory that a path lies in, with its slash.
func dirOf(path string) string {
	return path[:strings.LastIndexByte(strings.TrimSuffix(path, "/"), '/')+1]
}

// directoriesInTheWay returns the conflicts of changes that expect a directory to be absent
// although memories imply it: a directory that is made, and the target of a rename. It also
// notes which directories to make exist already and stay.
func (b *builder) directoriesInTheWay(changes []Change) ([]Conflict, error) {
	var conflicts []Conflict
	freed := map[string]bool{}
	for _, c := range changes {
		if c.Action == Remove || c.Action == Rename {
			freed[c.Path] = true
		}
	}
	b.staying = map[string]bool{}
	for _, c := range changes {
		path := c.Path
		if c.Action == Rename {
			path = c.To
		}
		if !isDir(path) || c.Action == Remove || b.heads[path] != nil {
			continue
		}
		below, err := b.below(path, freed)
		switch {
		case err != nil:
			return nil, err
		case below == nil:
		case c.Action == Rename:
			conflicts = append(conflicts, Conflict{Path: path, Expected: ExpectAbsent(), Head: below})
		case c.Expect.kind == expectAbsent:
			conflicts = append(conflicts, Conflict{Path: path, Expected: c.Expect, Head: below})
		default:
			b.staying[path] = true
		}
	}
	return conflicts, nil
}

// staysBelow returns something that lies below a path and is not freed by the commit,
// or nil.
func (b *builder) staysBelow(path string) (*Version, error) { return b.below(path, b.leaving) }

func (b *builder) below(path string, freed map[string]bool) (*Version, error) {
	for below, err := range b.view.Below(strings.TrimSuffix(path, "/")) {
		if err != nil {
			return nil, err
		}
		if below.Path != path && !freed[below.Path] {
			return &below, nil
		}
	}
	return nil, nil
}

// parentPath returns what is above a path, which for a directory is its path without
// the slash: there no memory can be either.
func parentPath(path string) string { return path[:strings.LastIndexByte(path, '/')] }

func (b *builder) commit(store Store, tip Tip, p *Proposal) (*Commit, error) {
	c := p.following(store, tip, b.at)
	c.Versions, c.Seals = b.versions, make([]Seal, len(b.versions))
	for i := range c.Versions {
		v := &c.Versions[i]
		v.ID = newVersionID(c.Seq, i)
		v.Seq, v.Actor, v.Session, v.Time, v.Message = c.Seq, c.Actor, c.Session, c.Time, c.Message
		_, _ = rand.Read(c.Seals[i].Salt[:])
		c.Seals[i].Payload = payloadDigest(c.Format, c.Seals[i].Salt, v)
	}
	return c.finish()
}
