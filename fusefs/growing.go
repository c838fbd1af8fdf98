package fusefs

import (
	"slices"
	"sync"
	"time"
)

// A log is written by a program that does not close it. So bytes that were only appended to a
// file are committed without a close, too: when nothing has been appended for a while, and now
// and then while the appending continues. No program hears of an error: bytes that could not be
// committed stay as they are, for the next try, or the close.

// patience is how long appended bytes wait for a close, and temporary files for a rename.
type patience struct {
	idle      time.Duration // since the newest
	growing   time.Duration // since the oldest
	temporary time.Duration // temporaryLife
}

// A due commit is found within a quarter of idle, so that it takes 5 s and 30 s.
var ordinaryPatience = patience{idle: 4 * time.Second, growing: 29 * time.Second, temporary: temporaryLife}

// appending is when bytes were appended that are not committed.
type appending struct {
	first, last time.Time
	failed      time.Time // when they could not be committed
}

// appendedLocked notes that bytes were appended to a stage.
func (fs *fileSystem) appendedLocked(st *stage, now time.Time) {
	st.last = now
	if st.first.IsZero() {
		st.first = now
		select {
		case fs.grown <- struct{}{}:
		default:
		}
	}
}

// followAppends commits what is appended until the mount ends.
func (fs *fileSystem) followAppends() {
	for {
		select {
		case <-fs.ctx.Done():
			return
		case <-fs.grown:
		}
		for fs.commitAppended(time.Now()) {
			select {
			case <-fs.ctx.Done():
				return
			case <-time.After(fs.patience.idle / 4):
			}
		}
	}
}

// commitAppended commits what is due, and reports whether something is waiting.
func (fs *fileSystem) commitAppended(now time.Time) (more bool) {
	var due []writer
	var upTo []*mark
	fs.mu.RLock()
	for _, h := range fs.handles {
		st := h.stage
		w := writer{h.node, st}
		if st == nil || !st.wrote || !st.appendOnly || st.err != 0 || st.overtaken || slices.Contains(due, w) {
			continue
		}
		more = true
		idle := now.Sub(st.last) >= fs.patience.idle
		if !idle && now.Sub(st.first) < fs.patience.growing || now.Sub(st.failed) < fs.patience.growing {
			continue
		}
		until := st.whole // a write may be under way
		if idle {
			until = st.mark
		}
		due, upTo = append(due, w), append(upTo, &until)
	}
	fs.mu.RUnlock()
	var work sync.WaitGroup
	for i, w := range due {
		work.Go(func() {
			status := fs.commitUpTo(w.node, w.stage, unasked, upTo[i])
			fs.mu.Lock()
			defer fs.mu.Unlock()
			if w.stage.failed = (time.Time{}); !status.Ok() {
				w.stage.failed = now
			}
		})
	}
	work.Wait()
	return more
}
