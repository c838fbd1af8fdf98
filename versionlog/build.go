package versionlog

import (
	"crypto/rand"
	"fmt"
	"iter"
	"strings"
	"time"
	"unicode/utf8"
)

// View is the state of one store that Build judges a proposal against. A
// backend implements it inside the transaction that will append the commit,
// so that nothing it answered can change before the commit is in.
type View interface {
	// Head returns the live version of a path, or nil.
	Head(path string) (*Version, error)
	// Below yields live versions whose path lies below path, in any order.
	Below(path string) iter.Seq2[Version, error]
	// Newest returns the newest version of a memory, or nil.
	Newest(memoryID string) (*Version, error)
}

// Build decides what commit a proposal becomes after tip, or why it cannot
// become one. Every backend's Commit is: look the key up, Build, persist the
// commit unless it has no versions, all in one transaction. Errors are those
// of Log.Commit and those of the view.
func Build(view View, store Store, tip Tip, p *Proposal, now time.Time) (*Commit, error) {
	if err := p.validate(); err != nil {
		return nil, err
	}
	at := now.UTC().Truncate(time.Microsecond)
	if at.Before(tip.Time) { // a writer whose clock is behind
		at = tip.Time
	}
	b := builder{
		view: view, at: at, adopts: p.Finished != nil, heads: map[string]*Version{}, revived: map[string]bool{},
		arriving: map[string]bool{}, leaving: map[string]bool{},
	}
	if err := b.checkExpectations(store.ID, p.Changes); err != nil {
		return nil, err
	}
	for _, c := range p.Changes {
		if err := b.apply(c); err != nil {
			return nil, err
		}
	}
	if p.Finished != nil {
		if err := b.checkOverlaps(); err != nil {
			return nil, err
		}
		return b.adopt(store, tip, p.Finished)
	}
	if len(b.versions) == 0 {
		return &Commit{StoreID: store.ID, Seq: tip.Seq, Digest: tip.Digest, Time: tip.Time}, nil
	}
	if !store.ArchivedAt.IsZero() && !b.onlyRemoves() {
		return nil, ErrArchived
	}
	if err := b.checkOverlaps(); err != nil {
		return nil, err
	}
	if err := b.checkQuotas(&store.Quota, tip, p); err != nil {
		return nil, err
	}
	return b.commit(store, tip, p)
}

func (p *Proposal) validate() error {
	if p.Key == "" || len(p.Key) > 128 {
		return fmt.Errorf("%w: the key has %d bytes, want 1 to 128", ErrInvalid, len(p.Key))
	}
	if len(p.Changes) == 0 {
		return fmt.Errorf("%w: no changes", ErrInvalid)
	}
	if len(p.Changes) > MaxChanges {
		return fmt.Errorf("%d changes, at most %d: %w", len(p.Changes), MaxChanges, ErrTooLarge)
	}
	if p.Finished != nil {
		if err := p.Finished.Verify(); err != nil {
			return fmt.Errorf("%w: %w", ErrInvalid, err)
		}
	}
	for _, text := range []string{p.Key, string(p.Actor.Kind), p.Actor.ID, p.Session, p.Message} {
		if !utf8.ValidString(text) {
			return fmt.Errorf("%w: %q is not UTF-8", ErrInvalid, text)
		}
	}
	seen := make(map[string]bool, len(p.Changes))
	for _, c := range p.Changes {
		if err := c.validate(); err != nil {
			return err
		}
		for _, path := range c.paths() {
			if seen[path] {
				return fmt.Errorf("%w: %s stands in two changes", ErrInvalid, path)
			}
			seen[path] = true
		}
	}
	return nil
}

func (c *Change) paths() []string {
	if c.Action == Rename {
		return []string{c.Path, c.To}
	}
	return []string{c.Path}
}

func (c *Change) validate() error {
	for _, path := range c.paths() {
		if len(path) < 2 || path[0] != '/' || path[len(path)-1] == '/' || !utf8.ValidString(path) {
			return fmt.Errorf("%w: path %q", ErrInvalid, path)
		}
	}
	switch {
	case c.Expect.kind == 0:
		return fmt.Errorf("%w: %s: no expectation", ErrInvalid, c.Path)
	case c.Action == Put && (c.Digest.IsZero() || c.Size < 0):
		return fmt.Errorf("%w: %s: put without content", ErrInvalid, c.Path)
	case c.Content != nil && (c.Action != Put || int64(len(c.Content)) != c.Size):
		return fmt.Errorf("%w: %s: content of %d bytes, want %d", ErrInvalid, c.Path, len(c.Content), c.Size)
	case c.Action < Put || c.Action > Rename:
		return fmt.Errorf("%w: %s: no such action", ErrInvalid, c.Path)
	}
	return nil
}

type builder struct {
	view     View
	at       time.Time           // of the commit
	adopts   bool                // a finished commit, whose memories have their ids
	heads    map[string]*Version // by path, as of before the commit
	versions []Version
	revived  map[string]bool // ids of memories that the commit brings back, or adopts
	arriving map[string]bool // paths that the commit makes live
	leaving  map[string]bool // paths that the commit frees
}

func (b *builder) checkExpectations(storeID string, changes []Change) error {
	var conflicts []Conflict
	for _, c := range changes {
		for _, path := range c.paths() {
			head, err := b.view.Head(path)
			if err != nil {
				return err
			}
			b.heads[path] = head
		}
		if head := b.heads[c.Path]; !c.satisfied(head) && !c.possible(head) {
			conflicts = append(conflicts, Conflict{Path: c.Path, Expected: c.Expect, Head: head})
		}
		if c.Action == Rename && b.heads[c.To] != nil {
			conflicts = append(conflicts, Conflict{Path: c.To, Expected: ExpectAbsent(), Head: b.heads[c.To]})
		}
	}
	if conflicts != nil {
		return &ConflictError{StoreID: storeID, Conflicts: conflicts}
	}
	return nil
}

// possible reports whether the change may be made to a path of that head.
func (c *Change) possible(head *Version) bool {
	if c.Action != Put && head == nil {
		return false
	}
	return c.Expect.Holds(head)
}

// satisfied reports whether the change is the case already. A writer that
// tries again after a lost reply, or two that write the same bytes, have
// nothing to lose, so the version they expected does not matter.
func (c *Change) satisfied(head *Version) bool {
	return c.Action == Put && head != nil && head.Digest == c.Digest && c.Expect.kind != expectAbsent
}

func (b *builder) apply(c Change) error {
	head := b.heads[c.Path]
	if c.satisfied(head) {
		return nil
	}
	v := Version{Path: c.Path}
	if head != nil {
		v.MemoryID, v.Parent, v.Digest, v.Size = head.MemoryID, head.ID, head.Digest, head.Size
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
	case Remove:
		v.Op, v.Digest, v.Size = OpDeleted, Digest{}, 0
		b.leaving[c.Path] = true
	case Rename:
		v.Op, v.Path, v.From = OpRenamed, c.To, c.Path
		b.leaving[c.Path] = true
		b.arriving[c.To] = true
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
		b.revived[memoryID] = true
		v.MemoryID = memoryID
		return nil
	}
	if newest == nil || newest.Live() || b.revived[memoryID] {
		return fmt.Errorf("%w: %s: memory %s is not a deleted memory of this store", ErrInvalid, v.Path, memoryID)
	}
	b.revived[memoryID] = true
	v.MemoryID, v.Parent = memoryID, newest.ID
	return nil
}

func (b *builder) onlyRemoves() bool {
	for i := range b.versions {
		if b.versions[i].Op != OpDeleted {
			return false
		}
	}
	return true
}

// checkOverlaps makes sure that no path is both a memory and a directory once
// the commit is in.
func (b *builder) checkOverlaps() error {
	for path := range b.arriving {
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
		for below, err := range b.view.Below(path) {
			if err != nil {
				return err
			}
			if !b.leaving[below.Path] {
				return &OverlapError{Path: path, With: below}
			}
		}
	}
	return nil
}

func (b *builder) checkQuotas(ofStore *Quota, tip Tip, p *Proposal) error {
	if b.onlyRemoves() {
		return nil
	}
	more := UsageOf(b.versions)
	if err := p.Quota.CheckSession(p.Used, more); err != nil {
		return err
	}
	return ofStore.CheckStore(tip, b.at, more)
}

func parentPath(path string) string { return path[:strings.LastIndexByte(path, '/')] }

func (b *builder) commit(store Store, tip Tip, p *Proposal) (*Commit, error) {
	c := &Commit{
		StoreID: store.ID, Seq: tip.Seq + 1, Time: b.at,
		Actor: p.Actor, Session: p.Session, Message: p.Message, Key: p.Key,
		Prev: tip.Digest, Versions: b.versions, Seals: make([]Seal, len(b.versions)),
	}
	if c.Seq > maxSeq {
		return nil, fmt.Errorf("sequence numbers are used up: %w", ErrInvalid)
	}
	for i := range c.Versions {
		v := &c.Versions[i]
		v.ID = newVersionID(c.Seq, i)
		v.Seq, v.Actor, v.Session, v.Time, v.Message = c.Seq, c.Actor, c.Session, c.Time, c.Message
		_, _ = rand.Read(c.Seals[i].Salt[:])
		c.Seals[i].Payload = payloadDigest(c.Seals[i].Salt, v)
	}
	c.Digest = chainDigest(c)
	return c, nil
}
