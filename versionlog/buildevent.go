package versionlog

import (
	"fmt"
	"maps"
	"time"
)

// becomes decides what an event makes of a store after tip: the commit, one that says
// that it is the case already, or why it cannot be.
func (p *Proposal) becomes(view View, store Store, tip Tip, at time.Time) (*Commit, error) {
	c := p.following(store, tip, at)
	c.Event = p.Event.clone()
	switch p.Event.Kind {
	case EventCreated:
		if tip.Seq > 0 {
			return nil, errCreatedLate
		}
	case EventUpdated:
		if !store.ArchivedAt.IsZero() {
			return nil, ErrArchived
		}
		now := store.After(c, false)
		if err := CheckMeta(now.Metadata); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
		}
		if now.UpdatedAt = store.UpdatedAt; now.equal(&store) {
			return alreadyTheCase(store, tip), nil
		}
	case EventArchived:
		if !store.ArchivedAt.IsZero() {
			return alreadyTheCase(store, tip), nil
		}
	case EventPromoted:
		c.Epoch = store.Epoch + 1
		return c.finish()
	case EventRedacted, EventRetention:
		redaction, err := redact(view, &store, c)
		if err != nil {
			return nil, err
		}
		if redaction == nil {
			return alreadyTheCase(store, tip), nil
		}
	}
	if store.Replica {
		return nil, ErrReplica
	}
	return c.finish()
}

// errCreatedLate says that an event would create a store that has a history.
var errCreatedLate = fmt.Errorf("%w: a store is created before its first commit", ErrInvalid)

// following returns the commit that p becomes after tip, made at a time, without its
// versions and its event, and not chained yet, see finish.
func (p *Proposal) following(store Store, tip Tip, at time.Time) *Commit {
	return &Commit{
		Format: RecordFormat, StoreID: store.ID, Seq: tip.Seq + 1, Epoch: store.Epoch, Time: at,
		Actor: p.Actor, Session: p.Session, Message: p.Message, Key: p.Key, Meta: maps.Clone(p.Meta),
		Prev: tip.Digest, Versions: []Version{}, Seals: []Seal{},
	}
}

// finish chains a commit to the one before.
func (c *Commit) finish() (*Commit, error) {
	if c.Seq > maxSeq {
		return nil, fmt.Errorf("sequence numbers are used up: %w", ErrInvalid)
	}
	if c.Epoch > maxEpoch {
		return nil, fmt.Errorf("epochs are used up: %w", ErrInvalid)
	}
	c.Digest = chainDigest(c)
	return c, nil
}

// alreadyTheCase is what a proposal becomes that changes nothing.
func alreadyTheCase(store Store, tip Tip) *Commit {
	return &Commit{StoreID: store.ID, Seq: tip.Seq, Digest: tip.Digest, Time: tip.Time}
}
