package sqlitelog

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"

	"mneme/internal/safepath"
)

// changes tells waiters that something was committed, in this process or in another. The word
// goes through a file of one byte: every Log that waits watches it, and holds a shared lock on
// it; a Log that commits writes to it, if another Log holds such a lock. A write costs a tenth of
// a commit, also because it wakes the watcher of the process that makes it.
type changes struct {
	dir  *os.Root
	file *os.File // nil in a read-only log that has no waiter
	done chan struct{}

	mu      sync.Mutex // guards what follows
	signal  chan struct{}
	watcher *fsnotify.Watcher // nil until the first wait
	watched bool              // whether a watcher was tried
}

func newChanges(dir *os.Root) *changes {
	return &changes{dir: dir, signal: make(chan struct{}), done: make(chan struct{})}
}

func (c *changes) openForTouch() (err error) {
	c.file, err = safepath.OpenFile(c.dir, changedName, os.O_RDWR|os.O_CREATE, 0o600)
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
	if c.file == nil {
		c.file, err = safepath.OpenFile(c.dir, changedName, os.O_RDONLY, 0)
	}
	if err == nil {
		err = watcher.Add(filepath.Join(c.dir.Name(), changedName))
	}
	if err != nil {
		_ = watcher.Close()
		return
	}
	// Should it fail, processes that commit cannot ask for locks either.
	_ = unix.FcntlFlock(c.file.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_RDLCK, Whence: io.SeekStart})
	c.watcher = watcher
	go c.forward(watcher)
}

// watchedElsewhere reports whether another Log may be watching: the lock is that of an open file,
// so a Log's own is not in its way.
func (c *changes) watchedElsewhere() bool {
	lock := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
	err := unix.FcntlFlock(c.file.Fd(), unix.F_OFD_GETLK, &lock)
	return err != nil || lock.Type != unix.F_UNLCK
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

// touch tells all waiters of all processes. It follows a commit that is done, so it cannot fail
// the commit: waiters that it does not reach look without being told. A waiter that begins to
// watch later sees the commit, because it looks only then.
func (c *changes) touch() {
	if c.watchedElsewhere() {
		_, _ = c.file.WriteAt([]byte{'.'}, 0)
	}
	c.wake()
}

func (c *changes) close() error {
	var errs []error
	c.mu.Lock()
	watcher, file := c.watcher, c.file
	c.mu.Unlock()
	if watcher != nil {
		errs = append(errs, watcher.Close())
		<-c.done
	}
	if file != nil {
		errs = append(errs, file.Close())
	}
	return errors.Join(errs...)
}
