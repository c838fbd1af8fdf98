package fusefs

import (
	"errors"
	"fmt"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/internal/fusedev"
)

// These constants bound the time that the parts of an unmount may take, five seconds in all. The
// conflicts that are kept at the end may take longer where the parts before them have been quick.
const (
	commitPatience = 3 * time.Second // until what is not committed is kept as a conflict
	forgetPatience = time.Second / 2
	endPatience    = time.Second / 2
	fullPatience   = 4 * time.Second // from the beginning; `mneme unmount` waits a little longer
)

// unmount ends a mount, of which other mount namespaces may have copies. They keep it alive in
// the kernel for as long as they like; the order of the steps ensures that they cannot use it:
//
//  1. Written bytes are committed, while programs continue.
//  2. The device refuses every request. Bytes that write(2) acknowledged before that are in the
//     stages.
//  3. The kernel forgets all attributes and pages. Before it drops a page that a mapping has
//     changed, it writes that back, which is still served. Without its attributes it lets no
//     process open, list or stat anything, whatever names it has.
//  4. Bytes that the stages have got since the first step are committed.
//  5. The mount leaves the directory tree, scratch files are kept as conflicts, and
//     the device is closed.
//
// Aborting the connection first would be simpler. But a process that has a file open or mapped
// would keep what the kernel has in its page cache; and in a mount without opens, every process
// would keep every such file.
func (m *Server) unmount() error {
	select {
	case <-m.done: // another process unmounted it
		return nil
	default:
	}
	keepUntil := time.Now().Add(fullPatience)
	late := time.AfterFunc(commitPatience, m.cancel)
	defer late.Stop()
	saved := endsWithin(commitPatience+endPatience, func() {
		m.fs.commitAll()
		m.fs.keepAgain()
	})
	m.server.Revoke()
	m.forget()
	saved = saved && endsWithin(endPatience, m.fs.commitAll)
	err := m.attachment.Detach()
	if err != nil {
		err = fmt.Errorf("unmount %s: %w", m.dir, err)
	}
	m.server.Stop()
	answered := endsWithin(endPatience, func() { <-m.answered })
	ended := answered && endsWithin(max(endPatience, time.Until(keepUntil)), m.Wait)
	if !ended || !saved {
		err = errors.Join(err, fmt.Errorf("%s: %w", m.dir, ErrHangs))
	}
	return err
}

// endsWithin runs do, and reports whether it has ended after a time. If it has not, it continues.
func endsWithin(patience time.Duration, do func()) bool {
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	select {
	case <-done:
		return true
	case <-time.After(patience):
		return false
	}
}

// forgetAll makes the kernel forget what it knows of the mount's files, except their names. It
// does nothing where the kernel has no copy of the mount left.
func (m *Server) forgetAll() {
	all := func() {
		if m.server.NotifyAtOnce(fusedev.InodeNotice(fuse.FUSE_ROOT_ID, 0, 0))[0] == fuse.ENOENT {
			return
		}
		var notices []fusedev.Notice
		for _, id := range m.fs.known() {
			notices = append(notices, fusedev.InodeNotice(id, 0, 0))
		}
		m.server.NotifyAtOnce(notices...)
	}
	if !endsWithin(forgetPatience, all) { // a process that holds a page is waited for
		m.fs.log.Warn("the kernel has not forgotten all pages", "dir", m.dir)
	}
}

// known returns the ids of the nodes that the kernel knows.
func (fs *fileSystem) known() []uint64 {
	fs.mu.RLock()
	defer fs.mu.RUnlock()
	ids := make([]uint64, 0, len(fs.nodes))
	for id, n := range fs.nodes {
		if lookupsOf(n) > 0 {
			ids = append(ids, id)
		}
	}
	return ids
}
