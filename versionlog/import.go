package versionlog

import (
	"cmp"
	"context"
	"fmt"
	"iter"
)

// Import appends commits that were made elsewhere to the history of a store, as they
// are: numbers, ids, times, keys, salts and digests stay. The commits are those of one
// history, in order. One that the store has already is passed over, for one read, so an
// import that failed can be repeated; it is best started after the tip. Several may import
// the same history at once.
//
// Every commit is held against the state that it is to follow, as Build does with a
// proposal; quotas do not bound it. An archived store accepts commits that were made before
// it was archived, and those that archived stores allow. The caller stores the contents
// before.
//
// Errors: ErrRewritten when the store has another commit of that number, ErrInvalid when
// a commit does not follow or does not verify, ErrArchived when it was made after the store
// was archived, and those of Log.Commit. The commits
// before it are in then.
func Import(ctx context.Context, log Log, storeID string, commits iter.Seq2[*Commit, error]) error {
	tip, err := log.Tip(ctx, storeID)
	if err != nil {
		return err
	}
	for c, err := range commits {
		if err != nil {
			return err
		}
		var failed error
		if c.Seq > tip.Seq {
			if failed = importOne(ctx, log, storeID, c); failed == nil {
				continue
			}
			// Another may have imported it meanwhile.
			if tip, err = log.Tip(ctx, storeID); err != nil {
				return err
			}
		}
		if c.Seq > tip.Seq {
			return fmt.Errorf("import commit %d: %w", c.Seq, failed)
		}
		if err := isThere(ctx, log, storeID, c); err != nil {
			return fmt.Errorf("import commit %d: %w", c.Seq, err)
		}
	}
	return nil
}

// CheckImport returns the error that Import has for a commit whatever comes before it, so that a
// history that a log cannot hold is known before anything is changed: ErrTooLarge, ErrInvalid,
// ErrErasedHistory.
func CheckImport(log Log, c *Commit) error {
	can, p := log.Capabilities(), c.finished()
	fits := can.Fits
	if fits == nil {
		fits = (*Proposal).Validate
	}
	err := fits(p)
	if err == nil && can.Purge == nil && (c.HasRedacted() || len(c.Event.ErasedVersions()) > 0) {
		err = ErrErasedHistory
	}
	if err != nil {
		return fmt.Errorf("commit %d cannot be imported: %w", c.Seq, err)
	}
	return nil
}

// isThere returns nil when a store has a commit, and ErrRewritten when it has another
// one of that number.
func isThere(ctx context.Context, log Log, storeID string, c *Commit) error {
	if c.Seq == 0 {
		return fmt.Errorf("%w: it has no number", ErrInvalid)
	}
	have, err := CommitAt(ctx, log, storeID, c.Seq)
	switch {
	case err != nil:
		return err
	case have == nil:
		return ErrNotFound // its store has just been deleted
	case have.Digest != c.Digest:
		return fmt.Errorf("%w: the store has another one, %.12s", ErrRewritten, have.Digest)
	}
	return nil
}

func importOne(ctx context.Context, log Log, storeID string, c *Commit) error {
	_, err := log.Commit(ctx, storeID, c.finished())
	return err
}

// finished is the proposal that has become c elsewhere.
func (c *Commit) finished() *Proposal {
	p := &Proposal{Key: c.Key, Actor: c.Actor, Session: c.Session, Message: c.Message, Meta: c.Meta, Event: c.Event, Finished: c}
	for i := range c.Versions {
		if v := &c.Versions[i]; !v.Redacted() {
			p.Changes = append(p.Changes, changeOf(v))
		}
	}
	return p
}

// Became reports whether a commit of the key of p is what p has become.
func (p *Proposal) Became(c *Commit) bool {
	return c.Key == p.Key && (p.Finished == nil || c.Digest == p.Finished.Digest)
}

// changeOf is the change that a version was made by.
func changeOf(v *Version) Change {
	c := Change{Action: Put, Path: v.Path, Spelling: cmp.Or(v.Spelling, v.Path), Expect: ExpectVersion(v.Parent), Digest: v.Digest, Size: v.Size}
	switch v.Op {
	case OpCreated:
		c.Expect, c.MemoryID = ExpectAbsent(), v.MemoryID
		if v.IsDir() {
			c.Action = MakeDir
		}
	case OpDeleted:
		c.Action = Remove
	case OpRenamed:
		c.Action, c.Path, c.To = Rename, v.From, v.Path
	}
	return c
}

// mayFollowArchived reports whether an archived store takes the commit.
func (c *Commit) mayFollowArchived() bool {
	if c.Event != nil {
		return c.Event.Kind == EventPromoted || c.Event.erases()
	}
	return onlyRemoves(c.Versions)
}

// adopt returns the finished commit of a proposal, which verifies, if it is what that
// becomes after tip.
func (b *builder) adopt(store Store, tip Tip, p *Proposal) (*Commit, error) {
	c := p.Finished
	if found, ok := b.view.(VersionView); ok {
		if err := b.passOver(found, c); err != nil {
			return nil, err
		}
	} else if c.HasRedacted() {
		return nil, fmt.Errorf("commit %d: %w", c.Seq, ErrErasedHistory)
	}
	if err := p.Event.mayErase(b.view); err != nil {
		return nil, fmt.Errorf("%w: commit %d: %w", ErrInvalid, c.Seq, err)
	}
	if err := b.judge(store.ID, p.Changes); err != nil {
		return nil, err
	}
	if err := c.mayFollow(store, tip); err != nil {
		return nil, err
	}
	if err := c.checkVersionIDs(); err != nil {
		return nil, err
	}
	if err := b.checkVersions(c); err != nil {
		return nil, err
	}
	adopted := *c
	return &adopted, nil
}

// mayFollow makes sure that a finished commit can be the next one of a store after its tip.
func (c *Commit) mayFollow(store Store, tip Tip) error {
	switch {
	case c.StoreID != store.ID:
		return fmt.Errorf("%w: it is of store %q", ErrInvalid, c.StoreID)
	case c.Seq != tip.Seq+1 || c.Prev != tip.Digest:
		return fmt.Errorf("%w: it does not follow commit %d, %.12s", ErrInvalid, tip.Seq, tip.Digest)
	case c.Epoch < store.Epoch:
		return fmt.Errorf("%w: commit %d is of epoch %d, and the store is in epoch %d", ErrFenced, c.Seq, c.Epoch, store.Epoch)
	case tip.Seq > 0 && c.IsEvent(EventCreated):
		return errCreatedLate
	case c.Epoch == store.Epoch && c.IsEvent(EventPromoted):
		return fmt.Errorf("%w: it promotes a store to epoch %d, which it is in", ErrInvalid, c.Epoch)
	case c.Epoch > store.Epoch && !c.IsEvent(EventPromoted):
		return fmt.Errorf("%w: it is of epoch %d, which nothing before it begins", ErrInvalid, c.Epoch)
	case c.Time.Before(tip.Time):
		return fmt.Errorf("%w: it is of %v, and the one before of %v", ErrInvalid, c.Time, tip.Time)
	case c.Time.After(store.ArchivedAt) && !store.ArchivedAt.IsZero() && !c.mayFollowArchived():
		return ErrArchived
	}
	return nil
}

// checkVersions makes sure that the versions of a finished commit are the ones that its changes make.
// It passes over redacted versions, see passOver.
func (b *builder) checkVersions(c *Commit) error {
	made := b.versions
	for i := range c.Versions {
		if c.Versions[i].Redacted() {
			continue
		}
		if len(made) == 0 {
			return fmt.Errorf("%w: %d of its %d versions change something", ErrInvalid, len(b.versions), len(c.Versions))
		}
		want := made[0]
		made = made[1:]
		want.ID = c.Versions[i].ID
		want.Seq, want.Actor, want.Session, want.Time, want.Message = c.Seq, c.Actor, c.Session, c.Time, c.Message
		if c.Versions[i] != want {
			return fmt.Errorf("%w: version %s does not follow from the one before", ErrInvalid, want.ID)
		}
	}
	if len(made) > 0 {
		return fmt.Errorf("%w: %d of its %d versions change something", ErrInvalid, len(b.versions), len(c.Versions))
	}
	return nil
}

// checkVersionIDs makes sure that the id of each version tells where it is.
func (c *Commit) checkVersionIDs() error {
	for i := range c.Versions {
		id := c.Versions[i].ID
		if seq, ordinal, err := LocateVersion(id); err != nil || seq != c.Seq || ordinal != i {
			return fmt.Errorf("%w: version %q is not version %d of commit %d", ErrInvalid, id, i, c.Seq)
		}
	}
	return nil
}
