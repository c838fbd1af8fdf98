package undo

import (
	"context"
	"fmt"
	"strings"
	"time"

	"mneme/errkind"
	"mneme/internal/quote"
	"mneme/memory"
	"mneme/versionlog"
)

// UnknownSessionError says that no session of that id has changed a store. It is a
// versionlog.ErrNotFound, under errors.Is.
type UnknownSessionError struct {
	Store, Session string
	Recent         []string // the sessions that have changed it last, newest first; a few
	last           []time.Time
}

// How far the search for sessions goes.
const (
	maxRecent        = 5
	maxRecentCommits = 2000
)

// Error names the existing sessions.
func (e *UnknownSessionError) Error() string {
	text := fmt.Sprintf("%s: session %s: %v", e.Store, quote.Name(e.Session), versionlog.ErrNotFound)
	if len(e.Recent) == 0 {
		return text + "; no session has changed it lately"
	}
	recent := make([]string, len(e.Recent))
	for i, id := range e.Recent {
		recent[i] = fmt.Sprintf("%s (until %s)", quote.Name(id), e.last[i].UTC().Format(time.RFC3339))
	}
	return text + "; lately it was changed by " + strings.Join(recent, ", ")
}

// Is makes every *UnknownSessionError a versionlog.ErrNotFound.
func (e *UnknownSessionError) Is(target error) bool { return target == versionlog.ErrNotFound }

// Kind is errkind.NotFound.
func (e *UnknownSessionError) Kind() errkind.Kind { return errkind.NotFound }

func unknownSession(ctx context.Context, s *memory.Store, session string) error {
	e := &UnknownSessionError{Store: s.Info().Slug, Session: session}
	seen, looked := map[string]bool{"": true}, 0
	for c, err := range s.CommitsBefore(ctx, 0, versionlog.Filter{}) {
		if err != nil {
			return err
		}
		if !seen[c.Session] {
			seen[c.Session] = true
			e.Recent, e.last = append(e.Recent, c.Session), append(e.last, c.Time)
		}
		if looked++; looked == maxRecentCommits || len(e.Recent) == maxRecent {
			break
		}
	}
	return e
}
