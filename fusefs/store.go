package fusefs

import (
	"context"
	"sync/atomic"
	"syscall"
	"time"

	"mneme/fusefs/tree"
	"mneme/fusefs/virtual"
	"mneme/memory"
	"mneme/private"
	"mneme/session"
	"mneme/session/conflict"
	"mneme/spool"
	"mneme/versionlog"
)

// store is one attached memory store: its part of the tree, kept current by a
// follower of its log.
type store struct {
	fs      *fileSystem
	memory  *memory.Store
	tree    *tree.Tree // its names
	session *session.Session
	errors  *session.Journal // the session's
	known   *session.Known   // likewise, what it knows of each path

	kept    *conflict.Store // the conflicts; nil: none are kept
	spool   *spool.Spool    // what survives the mount of files that are not committed; nil: nothing does
	private *private.Modes  // of files and directories that others may not enter as they may the mount

	archived atomic.Bool // refuses every change; never false again
	settling atomic.Bool // settled is not empty

	rewritten atomic.Pointer[error] // why the store takes no writes, see noteRewritten; nil: it does
	unsaved   atomic.Pointer[error] // why the last commit failed, for no fault of its own; nil: it did not

	control virtual.Dir // .mneme

	pinned atomic.Uint64 // the commit as of which packs show the store; 0: no request has asked for one

	commits, conflicts atomic.Uint64 // made through this mount, and what ended them
	tries, nanoseconds atomic.Uint64 // to commit, and how long they took

	// Guarded by fs.mu.
	settled   []*spool.Slot // entries of the spool that are settled, see dropSettled
	left      []Left        // what the mount left uncommitted when it ended
	recovered []Left        // what it has found that others left
	taken     []Left        // what was kept when this mount was taken over
	degraded  error         // why the log cannot be followed; nil when it can
	used      usage

	patience time.Duration // of catchUp
	beside   func(func())  // has the follower's work done, which it cannot wait for
}

// usage is how much of its quota a store has used, as of the newest commit that was followed. The
// follower counts, so that reporting it needs no call.
type usage struct {
	tip   versionlog.Tip
	store versionlog.Store // for its quota
}

func newStore(fs *fileSystem, ms *memory.Store) *store {
	s := &store{fs: fs, memory: ms, patience: time.Second, beside: fs.tasks.Go}
	s.private = private.New("")
	if fs.opts.Conflicts != nil {
		s.kept = fs.opts.Conflicts(ms.Info().ID)
		s.private = private.New(s.kept.Dir())
		s.spool = spool.New(s.kept.Dir(), max(minSpoolBytes, 2*ms.Info().Limits.MaxMemoryBytes))
	}
	s.newSession()
	s.archived.Store(!ms.Info().ArchivedAt.IsZero())
	s.tree = tree.New(fs.ctx, &fs.mu, ms, &tree.Options{
		IDs: fs.ids, Session: knowing{s}, Told: telling{s}, Owner: s,
		Logger: fs.log, FileMode: s.fileMode, DirMode: s.dirMode, Begin: fs.tasks.Go, RootMode: syscall.S_IFDIR | fs.perm(0o777), Since: fs.since,
	})
	return s
}

// settleBeside lets a background task take removed directories that no longer hide anything out
// of the log, for the follower, which cannot wait for that.
func (s *store) settleBeside() {
	if s.tree.HasEmptied() {
		s.beside(s.dropSettled)
	}
}

func (s *store) slug() string { return s.memory.Info().Slug }
func (s *store) id() string   { return s.memory.Info().ID }

func (s *store) readOnly() bool {
	return !s.memory.MayWrite() || s.archived.Load() || s.rewrittenBy() != nil
}

// tip returns the end of the log, and learns whether the store has been
// archived since it was mounted, or its history is another now: then it is an error.
func (s *store) tip(ctx context.Context) (versionlog.Tip, error) {
	shown := s.tree.Shown()
	tip, err := s.memory.Tip(ctx)
	if _, past := s.memory.EndsAt(); err == nil && !past { // else the tree may show redactions behind the end
		err = checkTip(shown, tip)
	}
	s.noteRewritten(err)
	if err == nil && !tip.ArchivedAt.IsZero() && !s.archived.Swap(true) {
		s.tellGuide()
	}
	return tip, err
}

// tellGuide has the kernel read .mneme/README and .mneme/note again.
func (s *store) tellGuide() {
	s.fs.mu.RLock()
	defer s.fs.mu.RUnlock()
	for _, name := range []string{"/README", "/note"} {
		if v := s.fs.virtual.places[virtualPlace{s.id(), virtual.Root + name}]; v != nil {
			s.fs.notify.Content(v.id)
		}
	}
}

// refresh learns whether the store has been archived. When the log cannot be
// reached, the commit that follows finds out.
func (s *store) refresh(ctx context.Context) { _, _ = s.tip(ctx) }

// load fills the tree with the store's heads, until ctx ends.
func (s *store) load(ctx context.Context) {
	loaded := s.tree.Load(ctx)
	s.fs.returning.memoryPassed()
	if loaded && !s.readOnly() {
		s.tidyPrivate()
	}
}
