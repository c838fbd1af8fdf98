package memory

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"mneme/errkind"
	"mneme/versionlog"
)

// ErrRedacted matches every *RedactedError, under errors.Is.
var ErrRedacted = errkind.New(errkind.NotFound, "its content was redacted")

// RedactedError says that a version was erased on purpose.
type RedactedError struct {
	Version string
	By      versionlog.Actor // and the next fields: the actor that erased it, when and why; zero where no event says so
	At      time.Time
	Why     string
	Seq     uint64 // of the event

	Rule versionlog.Retention // that let go of it; zero: a person has erased it
}

// Error names the actor that erased it, the time and the reason.
func (e *RedactedError) Error() string {
	if e.Rule != (versionlog.Retention{}) {
		return fmt.Sprintf("version %s: its content is gone: the store keeps %v; %q applied that at %s, commit %d", e.Version, e.Rule, e.By.String(), e.At.Format(time.RFC3339), e.Seq)
	}
	if e.Seq == 0 {
		return fmt.Sprintf("version %s: %v", e.Version, ErrRedacted)
	}
	return fmt.Sprintf("version %s: %v by %q at %s, commit %d: %q", e.Version, ErrRedacted, e.By.String(), e.At.Format(time.RFC3339), e.Seq, e.Why)
}

// Is makes every *RedactedError an ErrRedacted.
func (e *RedactedError) Is(target error) bool { return target == ErrRedacted }

// Kind is errkind.NotFound.
func (e *RedactedError) Kind() errkind.Kind { return errkind.NotFound }

// RedactionOf returns the error of a version that was erased. It reads the history behind the
// version.
func (s *Store) RedactionOf(ctx context.Context, v *versionlog.Version) error {
	e := &RedactedError{Version: v.ID}
	for c, err := range s.log.Commits(ctx, s.info.ID, v.Seq) {
		if err != nil {
			return err
		}
		if slices.Contains(c.Event.ErasedVersions(), v.ID) {
			e.By, e.At, e.Why, e.Seq, e.Rule = c.Actor, c.Time, c.Message, c.Seq, c.Event.Rule()
			break
		}
	}
	return e
}

// WatchErased returns a function that reports whether something of the store's past has been
// erased since the call, also of a store that OpenAt has opened.
func (s *Store) WatchErased(ctx context.Context) (erased func(context.Context) (bool, error), err error) {
	log := s.wholeLog()
	from, err := log.Tip(ctx, s.info.ID)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (bool, error) {
		for c, err := range log.Commits(ctx, s.info.ID, from.Seq) {
			if err != nil || c.Erases() {
				return err == nil, err
			}
		}
		return false, nil
	}, nil
}

// ErasedSince reports whether an event of that time or later has erased versions, also of a store
// that OpenAt has opened. Where a log is not near, it also takes what may be of that time by a
// clock that is skewed. It reads the commits since then, and none where there are none.
func (s *Store) ErasedSince(ctx context.Context, at time.Time) (bool, error) {
	log := s.wholeLog()
	if !s.can.Near {
		at = at.Add(-versionlog.MaxSkew)
	}
	tip, err := log.Tip(ctx, s.info.ID)
	if err != nil || tip.Time.Before(at) {
		return false, err
	}
	for c, err := range log.CommitsBefore(ctx, s.info.ID, 0, versionlog.Filter{}) {
		if err != nil || c.Time.Before(at) {
			return false, err
		}
		if c.Erases() {
			return true, nil
		}
	}
	return false, nil
}

// Redacted returns those of some versions, by their ids, that were redacted, also of a store that
// OpenAt has opened. Versions that the rule of the store let go of are others, and so are ids that the
// history does not have. It asks for each version and, if one was erased, reads the history behind it.
// With an error it returns those that it has found all the same.
func (s *Store) Redacted(ctx context.Context, ids []string) (map[string]bool, error) {
	log, erased, redacted, first := s.wholeLog(), map[string]bool{}, map[string]bool{}, uint64(math.MaxUint64)
	var failed error // the first
	for _, id := range ids {
		v, err := log.Version(ctx, s.info.ID, id)
		if err != nil && !errors.Is(err, versionlog.ErrNotFound) && failed == nil {
			failed = fmt.Errorf("store %s: %w", s.info.Slug, err)
		}
		if err == nil && v.Redacted() {
			erased[id], first = true, min(first, v.Seq)
		}
	}
	if len(erased) == 0 {
		return nil, failed
	}
	tip, err := log.Tip(ctx, s.info.ID)
	if err != nil {
		return nil, fmt.Errorf("store %s: %w", s.info.Slug, err)
	}
	for c, err := range readable(ctx, log, s.info.ID, first, tip.Seq, func(uint64, string) {}) {
		if err != nil {
			return redacted, fmt.Errorf("store %s: %w", s.info.Slug, err)
		}
		if c.IsEvent(versionlog.EventRedacted) {
			for _, id := range c.Event.ErasedVersions() {
				if erased[id] {
					redacted[id] = true
				}
			}
		}
	}
	return redacted, failed
}

// wholeLog is the log of the store, including commits after the point of OpenAt.
func (s *Store) wholeLog() versionlog.Log {
	if past, ok := s.log.(*pastLog); ok {
		return past.Log
	}
	return s.log
}

// RedactedVersions returns the ids of all versions that were ever redacted, by the events that
// can be read; those that the rule of the store let go of are others.
func (s *Store) RedactedVersions(ctx context.Context) (map[string]bool, error) {
	tip, err := s.Tip(ctx)
	if err != nil {
		return nil, err
	}
	ids := map[string]bool{}
	for c, err := range s.Readable(ctx, tip.Seq, func(uint64, string) {}) {
		if err != nil {
			return nil, fmt.Errorf("store %s: %w", s.info.Slug, err)
		}
		if c.IsEvent(versionlog.EventRedacted) {
			for _, id := range c.Event.ErasedVersions() {
				ids[id] = true
			}
		}
	}
	return ids, nil
}
