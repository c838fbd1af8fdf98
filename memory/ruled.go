package memory

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"mneme/cas"
	"mneme/internal/quote"
	"mneme/versionlog"
)

// ErrKeyTaken says that another actor or session has used the key of a proposal.
var ErrKeyTaken = fmt.Errorf("%w: another actor or session has used its key", versionlog.ErrInvalid)

// Ruled returns the log of the library for callers that are not bound to obey this package, such
// as other machines. Their proposals become commits only by the rules that hold for a Store: of
// paths, of contents, of secrets and of the description of a store. The deletions of a session
// are counted here. Contents may ride with a commit, up to MaxRiding; they go where the library
// keeps them. A content that does not ride must be in the store already: cas.ErrNotFound.
func (l *Library) Ruled() versionlog.Log { return ruledLog{l.log, l} }

// MaxRiding is how many bytes a content may have that rides with a commit of Ruled.
const MaxRiding = 1 << 20

// Offers returns versionlog.ErrNotFound where a store is hidden, or not there.
func (l *Library) Offers(ctx context.Context, storeID string) error {
	if _, known := l.ruling.offered.Load(storeID); known {
		return nil
	}
	s, err := l.log.Store(ctx, storeID)
	if err == nil && IsHidden(s) {
		err = versionlog.ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("store %s: %w", quote.Name(storeID), err)
	}
	l.ruling.offered.Store(storeID, true)
	return nil
}

// MayPut returns why a content of n bytes cannot be stored for a commit to come; nil: it can.
func (l *Library) MayPut(ctx context.Context, st *Store, n int64) error {
	if err := st.MayGrow(); err != nil {
		return err
	}
	more := versionlog.Usage{Bytes: n + l.ruling.unclaimed.bytes(st.info.ID, time.Now())}
	if err := st.checkStoreQuota(ctx, more); err != nil {
		return fmt.Errorf("store %s: %w", st.info.Slug, err)
	}
	return nil
}

// WasPut notes that a content of n bytes was stored for a commit to come.
func (l *Library) WasPut(st *Store, d cas.Digest, n int64) {
	if st.hasQuota.Load() {
		l.ruling.unclaimed.add(st.info.ID, d, n, time.Now())
	}
}

// ruledLog is the log of Library.Ruled.
type ruledLog struct {
	versionlog.Log
	lib *Library
}

// Capabilities are those of the log, which keeps contents. Those who follow a store share one Next.
func (r ruledLog) Capabilities() versionlog.Capabilities {
	can := r.Log.Capabilities()
	can.ErasesContents = can.ErasesContents || can.MaxContent > 0
	can.MaxContent = max(can.MaxContent, MaxRiding)
	if next := can.Next; next != nil {
		can.Next = func(ctx context.Context, storeID string, after uint64) ([]*versionlog.Commit, error) {
			return r.lib.ruling.followings.next(ctx, storeID, after, next)
		}
	}
	return can
}

// CreateStore is Library.Adopt.
func (r ruledLog) CreateStore(ctx context.Context, s versionlog.Store) error {
	return r.lib.Adopt(ctx, s)
}

// DeleteStore is Library.DeleteStore.
func (r ruledLog) DeleteStore(ctx context.Context, id string) error {
	err := r.lib.DeleteStore(ctx, id)
	r.lib.ruling.offered.Delete(id)
	return err
}

// Commit commits by the rules of the store. The proposal is not changed.
func (r ruledLog) Commit(ctx context.Context, storeID string, proposed *versionlog.Proposal) (*versionlog.Commit, error) {
	st, err := r.lib.Open(ctx, storeID, &Author{Actor: proposed.Actor, Session: proposed.Session})
	if err != nil {
		return nil, err
	}
	p := *proposed
	p.Changes = append([]versionlog.Change(nil), p.Changes...)
	if err := p.Validate(); err != nil {
		return nil, err
	}
	if p.Finished == nil { // else it was made by the rules of its time
		if err := p.CheckTexts(); err != nil {
			return nil, err
		}
	}
	before, done := r.lib.deletions.begin(proposer{storeID, p.Actor, p.Session}, p.Changes)
	var deleted []versionlog.Version
	defer func() { done(deleted) }()
	p.Deleted = max(p.Deleted, before)
	if err := st.rule(ctx, &p); err != nil {
		if errors.Is(err, ErrSecrets) && !p.Fresh {
			if c, lookErr := st.Earlier(ctx, p.Key); c != nil || lookErr != nil {
				return mine(c, &p, lookErr)
			}
		}
		return nil, err
	}
	c, err := r.Log.Commit(ctx, storeID, &p)
	if errors.Is(err, cas.ErrNotFound) { // a redaction has erased what was stored already
		p.Changes = append([]versionlog.Change(nil), proposed.Changes...)
		if err = st.keepRiding(ctx, p.Changes); err == nil {
			c, err = r.Log.Commit(ctx, storeID, &p)
		}
	}
	if c, err = mine(c, &p, err); err == nil && c.Changes() {
		st.saw(c)
		r.lib.ruling.unclaimed.claim(storeID, p.Changes)
		deleted = c.Versions
	}
	return c, err
}

// mine returns the commit that a proposal has become: not that of another proposer, which has
// the same key.
func mine(c *versionlog.Commit, p *versionlog.Proposal, err error) (*versionlog.Commit, error) {
	if err == nil && c.Changes() && p.Finished == nil && (c.Actor != p.Actor || c.Session != p.Session) {
		return nil, ErrKeyTaken
	}
	return c, err
}

// rule holds a proposal against the rules, and stores the contents that the log does not keep.
func (s *Store) rule(ctx context.Context, p *versionlog.Proposal) error {
	for i := range p.Changes {
		if err := checkProposed(&p.Changes[i]); err != nil {
			return err
		}
	}
	switch {
	case p.Finished != nil: // its contents were let in where it was made
		for i := range p.Changes {
			if c := &p.Changes[i]; c.Content != nil && cas.Sum(c.Content) != c.Digest {
				return errOtherContent(c)
			}
		}
		return s.keepRiding(ctx, p.Changes)
	case p.Event != nil:
		return s.checkEvent(p)
	}
	if err := s.checkNew(ctx, p.Changes); err != nil {
		return err
	}
	if err := s.admit(ctx, p); err != nil {
		return err
	}
	for i := range p.Changes { // one at a time: together they may be more than fits into memory
		content, err := s.contentOfProposed(ctx, &p.Changes[i])
		if err != nil {
			return err
		}
		message := ""
		if i == 0 {
			message = p.Message
		}
		_, err = s.lookForSecrets(ctx, message, p.Changes[i:i+1], func(int) ([]byte, *versionlog.Version) { return content, nil }, p.Confirmed)
		if err != nil {
			return err
		}
	}
	return s.keepRiding(ctx, p.Changes)
}

// checkProposed checks the paths of a change, which must be in their canonical form, and that
// the spelling is one of them.
func checkProposed(c *versionlog.Change) error {
	path := c.Path
	for _, one := range []*string{&c.Path, &c.To} {
		if one == &c.To {
			if c.Action != versionlog.Rename {
				break
			}
			path = c.To
		}
		canonical, err := parseAny(*one)
		if err == nil && canonical != *one {
			err = &PathError{*one, fmt.Errorf("%w: its canonical form is another", ErrBadPath)}
		}
		if err != nil {
			return err
		}
	}
	if c.Spelling != "" && Spelled(path, c.Spelling) != c.Spelling {
		return fmt.Errorf("%w: %s is not a form of %s", ErrBadPath, quote.Name(c.Spelling), quote.Name(path))
	}
	return nil
}

// checkEvent holds the description that an event would give to a store against the rules of
// descriptions. An agent does not erase its own traces.
func (s *Store) checkEvent(p *versionlog.Proposal) error {
	switch p.Event.Kind {
	case versionlog.EventRedacted, versionlog.EventRetention:
		if IsAgent(p.Actor, p.Session) {
			return fmt.Errorf("store %s: %w", s.info.Slug, ErrSessionRedacts)
		}
	case versionlog.EventCreated, versionlog.EventUpdated:
		wanted := s.info.After(&versionlog.Commit{Event: p.Event}, false)
		if err := checkStore(wanted); err != nil {
			return err
		}
		if wanted.Name != s.info.Name {
			return checkNewStoreName(wanted.Name)
		}
	}
	return nil
}

// contentOfProposed returns the content that a change puts, once it is checked that it has
// the change's digest and may be the content of a memory.
func (s *Store) contentOfProposed(ctx context.Context, c *versionlog.Change) ([]byte, error) {
	if !c.Puts() {
		return nil, nil
	}
	content := c.Content
	if n, limit := c.Size, s.info.Limits.MaxMemoryBytes; n > limit {
		return nil, &SizeError{Path: c.Path, Size: n, Limit: limit}
	}
	if content == nil {
		stored, err := s.blobs.Get(ctx, c.Digest)
		if err != nil {
			return nil, fmt.Errorf("%s:%s: the content that is proposed: %w", s.info.Slug, c.Path, err)
		}
		content = stored
	} else if cas.Sum(content) != c.Digest {
		return nil, errOtherContent(c)
	}
	if int64(len(content)) != c.Size {
		return nil, fmt.Errorf("%w: %s: the content has %d bytes, not %d", versionlog.ErrInvalid, quote.Name(c.Path), len(content), c.Size)
	}
	if s.info.Limits.Content == versionlog.ContentText && !utf8.Valid(content) {
		return nil, &TextError{Path: c.Path, Offset: invalidUTF8(content)}
	}
	return content, nil
}

func errOtherContent(c *versionlog.Change) error {
	return fmt.Errorf("%w: %s: the content does not have the digest %v", versionlog.ErrInvalid, quote.Name(c.Path), c.Digest)
}

// keepRiding stores the contents that ride with changes and are larger than the log keeps.
func (s *Store) keepRiding(ctx context.Context, changes []versionlog.Change) error {
	for i := range changes {
		c := &changes[i]
		if c.Content == nil || len(c.Content) <= s.can.MaxContent {
			continue
		}
		if _, err := s.blobs.Put(ctx, c.Content); err != nil {
			return fmt.Errorf("%s:%s: store content: %w", s.info.Slug, c.Path, err)
		}
		c.Content = nil
	}
	return nil
}
