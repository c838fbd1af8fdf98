package memory

import (
	"context"
	"errors"
	"fmt"

	"mneme/cas"
	"mneme/errkind"
	"mneme/versionlog"
)

// ErrSessionRedacts says that a session, rather than a person, was to erase versions.
var ErrSessionRedacts = errkind.New(errkind.Denied, "a session does not erase versions; a person does")

// MayErase returns why versions cannot be erased through the store; nil: they can. Errors: ErrReadOnly,
// ErrSessionRedacts, versionlog.ErrNoRedaction.
func (s *Store) MayErase() error {
	var err error
	switch {
	case s.author == nil:
		err = ErrReadOnly
	case IsAgent(s.author.Actor, s.author.Session):
		err = ErrSessionRedacts
	case s.can.Purge == nil:
		err = versionlog.ErrNoRedaction
	default:
		return nil
	}
	return fmt.Errorf("store %s: %w", s.info.Slug, err)
}

// Erase commits an event by which the log erases versions from records and heads. Versions
// that are erased already are skipped, and no commit is made if none is left. Contents,
// caches and other traces that the log keeps of the versions stay; package forget removes
// these, too. Errors: those of MayErase, versionlog.ErrLiveHead, versionlog.ErrNotFound,
// versionlog.ErrInvalid.
func (s *Store) Erase(ctx context.Context, e *versionlog.Event, message string) (*versionlog.Commit, error) {
	if err := s.MayErase(); err != nil {
		return nil, err
	}
	c, err := s.log.Commit(ctx, s.info.ID, &versionlog.Proposal{
		Key: versionlog.NewKey(), Fresh: true, Actor: s.author.Actor, Session: s.author.Session, Message: message, Epoch: s.info.Epoch, Event: e,
	})
	if err != nil {
		return nil, fmt.Errorf("store %s: %w", s.info.Slug, err)
	}
	if c.Changes() {
		s.saw(c)
	}
	return c, nil
}

// Purge removes the traces of erased versions in the places of the log, see
// versionlog.Capabilities, and returns the outcome for each place. Errors: those of
// MayErase and of the log.
func (s *Store) Purge(ctx context.Context, ids []string) ([]versionlog.Purged, error) {
	if err := s.MayErase(); err != nil {
		return nil, err
	}
	places, err := s.can.Purge(ctx, s.info.ID, ids)
	if err != nil {
		err = fmt.Errorf("store %s: %w", s.info.Slug, err)
	}
	return places, err
}

// Unpurged returns the sequence numbers of events whose versions have left something where the log keeps them.
func (s *Store) Unpurged(ctx context.Context) ([]uint64, error) {
	if s.can.Unpurged == nil {
		return nil, nil
	}
	seqs, err := s.can.Unpurged(ctx, s.info.ID)
	if err != nil {
		err = fmt.Errorf("store %s: %w", s.info.Slug, err)
	}
	return seqs, err
}

// ErasesContents reports whether the log erases the contents of erased versions itself, so that EraseContent
// has nothing to do.
func (s *Store) ErasesContents() bool { return s.can.MaxContent > 0 || s.can.ErasesContents }

// EraseContent deletes a content, which no version may have. errors.ErrUnsupported where the contents of the
// store cannot be deleted.
func (s *Store) EraseContent(ctx context.Context, d cas.Digest) error {
	deleter, ok := s.blobs.(cas.Deleter)
	if !ok {
		return errors.ErrUnsupported
	}
	return deleter.Delete(ctx, d)
}
