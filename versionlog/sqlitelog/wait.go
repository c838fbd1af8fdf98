package sqlitelog

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"mneme/versionlog"

	"github.com/fsnotify/fsnotify"
)

// Wait returns when the store has, or may have, a commit above after: at once
// for commits of this Log, within milliseconds for those of others on the same
// directory, within Options.Refresh where file events are not to be had.
func (l *Log) Wait(ctx context.Context, storeID string, after uint64) error {
	return l.wait(ctx, storeID, after, func() bool { return false })
}

// Next implements versionlog.Follower. Commits of this Log are handed out as
// they were made, and shared by all who follow: callers must not change them.
func (l *Log) Next(ctx context.Context, storeID string, after uint64) ([]*versionlog.Commit, error) {
	for {
		var own []*versionlog.Commit
		err := l.wait(ctx, storeID, after, func() bool {
			own = l.recent.above(storeID, after)
			return own != nil
		})
		if own != nil || err != nil {
			return own, err
		}
		var read []*versionlog.Commit
		for c, err := range l.Commits(ctx, storeID, after) {
			if err != nil {
				return read, err
			}
			if read = append(read, c); len(read) == pageRecords {
				break
			}
		}
		if read != nil {
			return read, nil
		}
	}
}

// wait is Wait, which ends as soon as known knows of a commit above after.
func (l *Log) wait(ctx context.Context, storeID string, after uint64, known func() bool) error {
	timer := time.NewTimer(l.refresh)
	defer timer.Stop()
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		// First ask to be told, then look, then sleep: a commit made in
		// between is either seen or told.
		changed := l.changes.next()
		if known() {
			return nil
		}
		s, err := l.store(ctx, storeID)
		if err != nil {
			return err
		}
		if s.tip.Seq > after {
			return nil
		}
		timer.Reset(l.refresh)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		case <-timer.C:
		}
	}
}

// changes tells waiters that something was committed, in this process or in
// another. The word goes through a file of one byte: whoever commits writes
// to it, everyone watches it.
type changes struct {
	path string
	file *os.File // nil in a read-only log
	done chan struct{}

	mu      sync.Mutex // guards what follows
	signal  chan struct{}
	watcher *fsnotify.Watcher // nil until the first wait
	watched bool              // whether a watcher was tried
}

func newChanges(path string) *changes {
	return &changes{path: path, signal: make(chan struct{}), done: make(chan struct{})}
}

func (c *changes) openForTouch() (err error) {
	c.file, err = os.OpenFile(c.path, os.O_WRONLY|os.O_CREATE, 0o600)
	return err
}

// next returns a channel that is closed at the next change.
func (c *changes) next() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.watched {
		c.watched = true
		c.watch()
	}
	return c.signal
}

// watch starts the one watcher of this log. Where the system has none to give
// (inotify instances are limited), waiters rely on looking by themselves.
func (c *changes) watch() {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return
	}
	if err := watcher.Add(c.path); err != nil {
		_ = watcher.Close()
		return
	}
	c.watcher = watcher
	go c.forward(watcher)
}

// forward runs until the watcher is closed.
func (c *changes) forward(watcher *fsnotify.Watcher) {
	defer close(c.done)
	for {
		select {
		case _, ok := <-watcher.Events:
			if !ok {
				return
			}
		case _, ok := <-watcher.Errors: // events were lost: look
			if !ok {
				return
			}
		}
		c.wake()
	}
}

func (c *changes) wake() {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.signal)
	c.signal = make(chan struct{})
}

// touch tells all waiters of all processes, those of this one too if they watch
// the file. It follows a commit that is done, so it cannot fail the commit: those
// whom it does not reach look by themselves.
func (c *changes) touch() {
	_, err := c.file.WriteAt([]byte{'.'}, 0)
	c.mu.Lock()
	watching := c.watcher != nil
	c.mu.Unlock()
	if err != nil || !watching {
		c.wake()
	}
}

func (c *changes) close() error {
	var errs []error
	c.mu.Lock()
	watcher := c.watcher
	c.mu.Unlock()
	if watcher != nil {
		errs = append(errs, watcher.Close())
		<-c.done
	}
	if c.file != nil {
		errs = append(errs, c.file.Close())
	}
	return errors.Join(errs...)
}
