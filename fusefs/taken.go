package fusefs

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"mneme/memory"
	"mneme/spool"
)

// takenText is what was written and not committed. Until it is kept it stays in the
// journal.
type takenText struct {
	s      *store
	node   uint64
	path   string
	text   []byte
	again  bool   // an earlier process may have kept it
	number uint64 // of the stage as which it is noted; 0: not yet
}

// keepPatience is how long programs wait until what they had written is kept; then
// they are served beside.
const keepPatience = time.Second / 2

// keepAll keeps what was written and not committed, in the background if it is much.
func (fs *fileSystem) keepAll(left []*takenText) {
	fs.mu.Lock()
	fs.toKeep = slices.Clone(left)
	fs.mu.Unlock()
	var keeping errgroup.Group
	keeping.SetLimit(16) // each waits for the disk
	fs.tasks.Go(func() {
		defer close(fs.allKept)
		for _, l := range left {
			keeping.Go(func() error {
				fs.keepOne(l)
				return nil
			})
		}
		_ = keeping.Wait()
	})
	endsWithin(keepPatience, fs.awaitKept)
}

// awaitKept returns when what was taken over is kept, or could not be.
func (fs *fileSystem) awaitKept() { <-fs.allKept }

// keepAgain keeps the texts that could not be kept at once, if they can be kept now.
func (fs *fileSystem) keepAgain() {
	fs.awaitKept()
	fs.mu.RLock()
	left := slices.Clone(fs.toKeep)
	fs.mu.RUnlock()
	for _, l := range left {
		fs.keepOne(l)
	}
}

func (fs *fileSystem) keepOne(l *takenText) {
	if !l.s.keepTaken(l) {
		return
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.toKeep = slices.DeleteFunc(fs.toKeep, func(other *takenText) bool { return other == l })
	fs.handing.keptTextLocked(l)
}

// keepTaken keeps what was written and not committed when the process was killed, unless its
// bytes are in the history. It reports false if that must be tried again.
func (s *store) keepTaken(l *takenText) bool {
	ctx := context.WithoutCancel(s.fs.ctx) // also when the mount ends
	if s.kept == nil || l.path == "" {
		s.fs.log.Error("what was being written is lost", "store", s.slug(), "path", l.path, "bytes", len(l.text))
		return true
	}
	theirs, err := s.memory.Head(ctx, l.path)
	head := &theirs
	if err != nil {
		head = nil
	}
	e := &spool.Entry{Path: l.path, Data: l.text, Session: s.fs.opts.Session, Time: time.Now()}
	id := 0
	if l.again {
		if found, err := s.kept.Find(l.path, l.text); err == nil { // else it is kept twice
			id = found
		}
	}
	kept, err := s.keepLeftAs(ctx, id, e, memory.NewHead(head), "the process that served the mount ended before it was saved; redo your edit")
	if err != nil {
		s.fs.log.Error("what was being written is not kept", "store", s.slug(), "path", l.path, "err", err)
		s.errors.AddConflict(l.path, fmt.Sprintf("%s:%s is not in the history: the process that served the mount ended before it was saved; its text could not be kept, which is tried again: %v", s.slug(), l.path, err))
		return false
	}
	if kept == nil {
		return true
	}
	s.session.Conflicts().AdoptOne(l.path, kept.Conflict)
	s.fs.mu.Lock()
	defer s.fs.mu.Unlock()
	s.taken = append(s.taken, *kept)
	return true
}
