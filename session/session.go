// Package session lets one session read and change a memory store, and keeps what the session
// knows of it.
//
// Several sessions write to one store, and none of them locks anything there. A session therefore
// replaces only what it knows: for each path it remembers the version that it has read or written
// last, and names that version when it writes. Where another session was faster, an append goes
// to the end of the current version. Changes to other lines are merged, if the session merges.
// Anything else is refused, and its bytes are kept as a conflict before the caller hears of it. A
// commit whose reply was lost is settled under its key.
//
// A program uses a session in one of two ways. It calls Read, Write, Append, Edit, Rename, Remove
// and Batch. Or, if it holds the text that is being written itself, as a mount does, it hands
// that in as a Text, and Save makes it a version; such a program is called a face.
//
// Save explains the life of a write, Knowledge and Known explain what a session knows, and
// pending explains lost replies. The package knows no FUSE and no HTTP.
package session

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"mneme/memory"
	"mneme/session/conflict"
	"mneme/versionlog"
)

// Options say how a session behaves; nil and the zero value are the default.
type Options struct {
	ID        string          // the session's id, as its versions carry it; "" is that of no session
	Strict    bool            // refuse to replace what the session has never read
	Merge     bool            // merge what lost a race with what won it, by lines, where that is without doubt
	Conflicts *conflict.Store // where what lost is kept; nil: nowhere
	Budget    *Budget         // of calls and bytes; nil: none. Several sessions may share one
	Logger    *slog.Logger    // nil discards

	// Followed says that a follower of the log tells the session of every commit, with
	// Meet. Without one the session forgets its own commits once they are made.
	Followed bool

	// Face is the word for the program or view that shows the store to the session's users, in
	// texts for them: "mount". "" is "session".
	Face string
	// Place says where they find what is kept of a conflict: ".mneme/conflicts/7/yours".
	// Nil: "conflict 7".
	Place func(id int) string
	// Name returns what they call the memory at a path, in texts for them. Nil:
	// "STORE:/path".
	Name func(path string) string
	// Alias returns the other name under which the face shows what is at a path; "": it has
	// none. It is called without locks, when a text is kept. Nil: there are no such names.
	Alias func(path string) string
	// Warn is called with a line that the journal has got about a change that was made all the
	// same: a content with a credential in it. Nil: only the reader of the journal is told.
	Warn func(line string)
	// Changed is called with each path of which something else is known than before. It is called
	// with locks held and must only take a note. Nil: no caller needs it.
	Changed func(path string)
}

// Session is one session's dealings with one store. Its methods may be called at once
// from many goroutines. Changes of one path follow one another.
//
// Locks, in the order in which they are taken: Claims and then a text's Turn, which are
// held during I/O; the face's own lock; and as leaves, with which nothing is called,
// those of Session, Known and Journal.
type Session struct {
	store   *memory.Store
	opts    Options
	claims  Claims
	known   Known
	journal Journal
	tasks   sync.WaitGroup // conflicts being settled on disk

	mu        sync.Mutex          // guards what follows
	pending   map[string]*pending // commits of this session, by key; see pending
	met       uint64              // the newest commit that the follower has told of
	unsettled map[string][]int    // the conflicts of this session that are not settled, by path
	appended  appendedOn          // the newest append on top of another session's version
	lastLoss  Loss                // the newest that was kept once, see Loss.Once
	doubtful  []Text              // texts of calls whose reply was lost, the oldest first
	lostCalls []lostCall          // other calls, likewise
	blind     int                 // how often the session was let replace what it had never read

	now   func() time.Time
	sleep func(context.Context, time.Duration)
	rand  func(time.Duration) time.Duration // below a positive duration
}

// appendedOn is the newest append of a session that came on top of another session's
// version. Where several sessions append to one file without a pause, the one that has
// just appended knows what the others have to fetch first, and would win again and again:
// so it lets them go first.
type appendedOn struct {
	path string
	at   time.Time
	took time.Duration // the commit
}

// New returns a session of an open store.
func New(store *memory.Store, opts *Options) *Session {
	s := &Session{
		store: store, pending: map[string]*pending{}, unsettled: map[string][]int{},
		now: time.Now, sleep: sleep, rand: rand.N[time.Duration],
	}
	if opts != nil {
		s.opts = *opts
	}
	if s.opts.Logger == nil {
		s.opts.Logger = slog.New(slog.DiscardHandler)
	}
	s.known.strict, s.known.changed = s.opts.Strict, s.opts.Changed
	return s
}

// Close returns when nothing works in the background any longer. No other method may be running
// or be called after.
func (s *Session) Close() { s.tasks.Wait() }

// ID returns the session's id, as its versions carry it.
func (s *Session) ID() string { return s.opts.ID }

// Claims are the claims that currently exclude one another in the session. A face takes them
// itself where Settle is not needed.
func (s *Session) Claims() *Claims { return &s.claims }

// Known is what the session knows of each path.
func (s *Session) Known() *Known { return &s.known }

// Journal has the newest error of each path.
func (s *Session) Journal() *Journal { return &s.journal }

func (s *Session) slug() string { return s.store.Info().Slug }

// sleep returns after a time, or when ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// content returns the text of a version; nil when there is none, or it cannot be read,
// which is logged with what it was for.
func (s *Session) content(ctx context.Context, v *memory.Head, purpose string) []byte {
	if v == nil {
		return nil
	}
	data, err := s.store.ContentOf(ctx, v)
	if err != nil {
		s.opts.Logger.Error("content is missing", "store", s.slug(), "path", v.Path(), "purpose", purpose, "err", err)
		return nil
	}
	return data
}

// headOf returns the version at a path; nil: no memory.
func (s *Session) headOf(ctx context.Context, path string) (*memory.Head, error) {
	v, err := s.headVersion(ctx, path)
	return memory.NewHead(v), err
}

func (s *Session) headVersion(ctx context.Context, path string) (*versionlog.Version, error) {
	v, err := s.store.Head(ctx, path)
	switch {
	case errors.Is(err, versionlog.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return &v, nil
}
