package fusefs

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

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
	fs     *fileSystem
	memory *memory.Store
	*tree
	errors *session.Journal
	known  *session.Known // what the session knows of each path

	kept    *conflict.Store // the conflicts; nil: none are kept
	spool   *spool.Spool    // what survives the mount of files that are not committed; nil: nothing does
	private *private.Modes  // of files and directories that others may not enter as they may the mount

	archived atomic.Bool // refuses every change; never false again
	settling atomic.Bool // settled is not empty

	rewritten atomic.Pointer[error] // why the store takes no writes, see noteRewritten; nil: it does

	commits, conflicts atomic.Uint64 // made through this mount, and what ended them
	tries, nanoseconds atomic.Uint64 // to commit, and how long they took

	claims session.Claims // of the paths that are being committed, renamed or removed; see claims.go

	// Guarded by fs.mu.
	inflight  map[string]*pending // this mount's commits that the follower has not met, by key
	unsure    map[string]*draft   // commits of files of which it is not known whether they are in the log, by key
	owed      map[string]bool     // likewise, the keys of commits of names
	unread    map[string]*node    // what this session has moved away, by the path where it was; see unread.go
	blind     int                 // how often the session opened for overwriting what it had not read
	settled   []*spool.Slot       // entries of the spool that are settled, see dropSettled
	left      []Left              // what the mount left uncommitted when it ended
	recovered []Left              // what it has found that others left
	taken     []Left              // what was kept when this mount was taken over
	lastLoss  loss                // the newest of a rename, which the kernel repeats
	open      map[string][]int    // the conflicts of this session that are not settled, by path
	turn      turn                // the newest of an append
	degraded  error               // why the log cannot be followed; nil when it can

	patience time.Duration // of catchUp
}

// pending is a commit that this mount is making or has made.
type pending struct {
	done    chan struct{} // closed when it is known how it ended
	applied bool          // it succeeded and is in the tree; valid once done is closed
}

func newStore(fs *fileSystem, ms *memory.Store) *store {
	s := &store{
		fs: fs, memory: ms, inflight: map[string]*pending{}, unsure: map[string]*draft{}, owed: map[string]bool{},
		unread: map[string]*node{}, open: map[string][]int{}, patience: time.Second,
		errors: &session.Journal{},
	}
	s.known = session.New(ms, &session.Options{ID: fs.opts.Session, Strict: fs.opts.Strict, Changed: s.markKnownLocked}).Known()
	s.private = private.New("")
	if fs.opts.Conflicts != nil {
		s.kept = fs.opts.Conflicts(ms.Info().ID)
		s.private = private.New(s.kept.Dir())
		s.spool = spool.New(s.kept.Dir(), max(minSpoolBytes, 2*ms.Info().Limits.MaxMemoryBytes))
	}
	s.archived.Store(!ms.Info().ArchivedAt.IsZero())
	s.tree = newTree(fs.ctx, &fs.mu, ms, fs.ids, knowing{s.known, s}, telling{s}, s, &treeOptions{
		Logger: fs.log, FileMode: s.fileMode, DirMode: s.dirMode, Begin: fs.tasks.Go, RootMode: syscall.S_IFDIR | fs.perm(0o777), Since: fs.since,
	})
	return s
}

func (s *store) slug() string { return s.memory.Info().Slug }
func (s *store) id() string   { return s.memory.Info().ID }

func (s *store) readOnly() bool {
	return s.memory.ReadOnly() || s.archived.Load() || s.rewrittenBy() != nil
}

// tip returns the end of the log, and learns whether the store has been
// archived since it was mounted, or its history is another now: then it is an error.
func (s *store) tip(ctx context.Context) (versionlog.Tip, error) {
	shown := s.shown()
	tip, err := s.memory.Tip(ctx)
	if err == nil {
		err = checkTip(shown, tip)
	}
	s.noteRewritten(err)
	if err == nil && !tip.ArchivedAt.IsZero() && !s.archived.Swap(true) {
		s.tellREADME()
	}
	return tip, err
}

// tellREADME has the kernel read .mneme/README again.
func (s *store) tellREADME() {
	s.fs.mu.RLock()
	defer s.fs.mu.RUnlock()
	if v := s.fs.virtual.places[virtualPlace{s.id(), virtual.Root + "/README"}]; v != nil {
		s.fs.notify.Content(v.id)
	}
}

// refresh learns whether the store has been archived. When the log cannot be
// reached, the commit that follows finds out.
func (s *store) refresh(ctx context.Context) { _, _ = s.tip(ctx) }

// follow applies what other sessions commit, until ctx ends. While the log
// cannot be reached it tries again every second. It ends when the history is
// another.
func (s *store) follow(ctx context.Context) {
	for {
		err := s.memory.Follow(ctx, s.shown(), func(c *versionlog.Commit) error {
			if err := s.rewrittenBy(); err != nil {
				return err
			}
			s.meet(ctx, c)
			return ctx.Err()
		})
		if s.noteRewritten(err); s.rewrittenBy() != nil {
			return
		}
		for err != nil { // until the log answers
			if ctx.Err() != nil {
				return
			}
			if was := s.setDegraded(err); was == nil || was.Error() != err.Error() {
				s.fs.log.Error("following the log", "store", s.slug(), "err", err)
			}
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
			// Following says nothing as long as nobody commits.
			_, err = s.memory.Tip(ctx)
		}
		s.setDegraded(nil)
	}
}

// setDegraded notes why the log cannot be followed, and returns what it was.
func (s *store) setDegraded(err error) (was error) {
	s.fs.mu.Lock()
	defer s.fs.mu.Unlock()
	was, s.degraded = s.degraded, err
	return was
}

// meet brings the next commit of the log into the tree. One that this mount
// makes itself is left to the request that makes it.
func (s *store) meet(ctx context.Context, c *versionlog.Commit) {
	s.fs.mu.Lock()
	defer s.fs.mu.Unlock()
	own := s.inflight[c.Key]
	if own != nil {
		s.fs.mu.Unlock()
		select {
		case <-own.done:
		case <-ctx.Done():
		}
		s.fs.mu.Lock()
		delete(s.inflight, c.Key)
	}
	switch d := s.unsure[c.Key]; {
	case own != nil && own.applied:
	case d != nil: // its reply was lost, and nobody has asked again yet
		s.fs.committedLocked(d, c.Versions[0])
		if d.n.stage() != d.st || d.st.err != 0 { // given up: the kernel has what was before it
			s.fs.notify.contentLocked(d.n)
		}
		delete(s.unsure, c.Key)
	default:
		s.applyLocked(c)
		if s.owed[c.Key] {
			delete(s.owed, c.Key)
			s.recogniseLocked(c)
		}
	}
	s.degraded = nil
	s.shownLocked(c)
}

// catchUp waits until the tree shows every commit that is in the log now, but
// not for long: what follows checks the log again when it commits. The error is
// that of a log which cannot be asked, or of ctx.
func (s *store) catchUp(ctx context.Context) error {
	tip, err := s.tip(ctx)
	if err != nil || s.shown().Seq >= tip.Seq {
		return err
	}
	patience, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	_ = s.awaitApplied(patience, tip.Seq)
	return ctx.Err()
}

// currentLocked reports whether the tree is known to show every commit that is in the
// log now, without asking the log.
func (s *store) currentLocked() bool {
	tip, known := s.memory.KnownTip()
	return known && tip.ArchivedAt.IsZero() && s.applied >= tip.Seq
}

// commit makes changes through commitWith, by memory.Store.Batch.
func (s *store) commit(changes []memory.Change, apply func(*versionlog.Commit)) error {
	return s.commitWith(versionlog.NewKey(), func(opts *memory.CommitOptions) (*versionlog.Commit, error) {
		return s.memory.Batch(s.fs.ctx, changes, opts)
	}, apply)
}

// commitWith runs one commit of this mount under an idempotency key, which is
// taken for fresh unless run says otherwise. When it is in the log, apply brings
// it into the tree, under fs.mu; the follower leaves it alone.
func (s *store) commitWith(key string, run func(*memory.CommitOptions) (*versionlog.Commit, error), apply func(*versionlog.Commit)) error {
	own := &pending{done: make(chan struct{})}
	s.fs.mu.Lock()
	s.inflight[key] = own
	s.fs.mu.Unlock()

	start := time.Now()
	var c *versionlog.Commit
	err := s.rewrittenBy()
	if err == nil {
		c, err = run(&memory.CommitOptions{Key: key, Fresh: true})
		s.noteRewritten(err)
	}
	s.tries.Add(1)
	s.nanoseconds.Add(uint64(time.Since(start)))
	if isGone(err) {
		_ = s.catchUp(s.fs.ctx) // who is told that a memory is gone finds it gone
	}

	s.fs.mu.Lock()
	defer s.fs.mu.Unlock()
	defer close(own.done)
	if err != nil || len(c.Versions) == 0 {
		delete(s.inflight, key)
	}
	if isConflict(err) {
		s.conflicts.Add(1)
		s.learnOfConflictLocked(err)
	}
	if err != nil {
		if !isFinal(err) && s.unsure[key] == nil {
			s.oweLocked(key)
		}
		return err
	}
	if len(c.Versions) > 0 {
		s.commits.Add(1)
	}
	own.applied = true
	if c.Seq <= s.applied { // a repeated commit, which the follower has met
		delete(s.inflight, key)
	}
	s.noteGoneLocked(c)
	apply(c)
	s.vacatedLocked(c)
	s.vacatedUnreadLocked(c)
	return nil
}

// learnOfConflictLocked shows what a commit was refused for: who is told of it sees it.
func (s *store) learnOfConflictLocked(err error) {
	var lost *versionlog.ConflictError
	if errors.As(err, &lost) {
		for _, c := range lost.Conflicts {
			if c.Head != nil {
				s.showLocked(*c.Head)
			}
		}
	}
}

// isGoneLocked reports whether a commit was refused because there is no memory where
// it expects one.
func isGone(err error) bool {
	var lost *versionlog.ConflictError
	if !errors.As(err, &lost) {
		return errors.Is(err, versionlog.ErrNotFound)
	}
	return slices.ContainsFunc(lost.Conflicts, func(c versionlog.Conflict) bool { return c.Head == nil })
}

func isConflict(err error) bool { return errors.Is(err, versionlog.ErrConflict) }

// begin notes where the follower has to begin. What is wrong with the store, or
// with the way to it, is known then.
func (s *store) begin(ctx context.Context) error {
	if err := s.loadPrivate(); err != nil {
		return err
	}
	tip, err := s.tip(ctx)
	if err != nil {
		return err
	}
	s.beginAt(tip)
	return nil
}

// load fills the tree with the store's heads, until ctx ends.
func (s *store) load(ctx context.Context) {
	if s.tree.load(ctx) && !s.readOnly() {
		s.tidyPrivate()
	}
}
