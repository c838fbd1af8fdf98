package fusefs

import (
	"errors"
	"slices"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/cas"
	"mneme/memory"
	"mneme/versionlog"
)

// Flush implements fuse.RawFileSystem: the close of one descriptor.
//
// A shell that redirects into a file opens it, duplicates the descriptor and
// closes the first before anything is written; and every program it then starts
// closes its copy. A file that is only emptied or made so far is therefore not
// committed while the process that closes it, or one it descends from, has
// another descriptor of it: the close of that one will come.
func (fs *fileSystem) Flush(_ <-chan struct{}, in *fuse.FlushIn) fuse.Status {
	if fs.quiet {
		return fuse.ENOSYS
	}
	fs.mu.RLock()
	h := fs.handles[in.Fh]
	wait := h != nil && h.stage != nil && h.stage.dirty && !h.stage.wrote
	fs.mu.RUnlock()
	if h == nil || h.stage == nil {
		return fuse.OK
	}
	if wait && fs.writtenOn(in.Pid, h.node.id) {
		return fuse.OK
	}
	status := fs.commitFile(h.node, h.stage, false)
	if !status.Ok() && !fs.writtenOn(in.Pid, h.node.id) {
		fs.closeFailed(h.node, h.stage, status)
	}
	return status
}

// closeFailed gives up what the last writer's close could not commit: whoever
// opens the file after that close, and before the kernel gets around to
// releasing the handle, finds what was there before.
func (fs *fileSystem) closeFailed(n *node, st *stage, status fuse.Status) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if st.writers == 1 && st.err == 0 {
		st.poison(syscall.Errno(status))
		fs.notify.content(n)
	}
}

// Fsync implements fuse.RawFileSystem.
func (fs *fileSystem) Fsync(_ <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	fs.mu.RLock()
	h := fs.handles[in.Fh]
	fs.mu.RUnlock()
	if h == nil || h.stage == nil {
		return fuse.OK
	}
	return fs.commitFile(h.node, h.stage, false)
}

// draft is what one commit of a file takes from its stage.
type draft struct {
	path    string
	data    []byte
	changes uint64
	expect  versionlog.Expectation
	same    bool // as what it is based on
}

// commitFile makes what was written to a file a version, if it changed
// anything. Scratch files are passed over, temporary ones unless they have
// lingered.
func (fs *fileSystem) commitFile(n *node, st *stage, lingered bool) fuse.Status {
	s := n.store
	s.ops.RLock()
	defer s.ops.RUnlock()
	n.commitMu.Lock()
	defer n.commitMu.Unlock()

	fs.mu.Lock()
	d, status := fs.draft(n, st, lingered)
	fs.mu.Unlock()
	if d == nil {
		return status
	}
	if d.same {
		fs.mu.Lock()
		defer fs.mu.Unlock()
		st.settle(d.changes)
		return fuse.OK
	}
	put := memory.Change{Action: versionlog.Put, Path: d.path, Content: d.data, Expect: d.expect}
	var satisfied bool
	err := s.commit([]memory.Change{put}, func(c *versionlog.Commit) {
		if satisfied = len(c.Versions) == 0; !satisfied {
			fs.committed(n, st, c.Versions[0], d.changes)
		}
	})
	if err == nil && satisfied { // somebody else wrote the very same bytes
		var head versionlog.Version
		if head, err = s.memory.Head(fs.ctx, d.path); err == nil {
			fs.mu.Lock()
			fs.committed(n, st, head, d.changes)
			fs.mu.Unlock()
		}
	}
	if err != nil {
		return fs.commitFailed(n, st, d.path, err)
	}
	return fuse.OK
}

// draft takes from the stage what is to be committed, or says why nothing is.
// Caller holds fs.mu.
func (fs *fileSystem) draft(n *node, st *stage, lingered bool) (*draft, fuse.Status) {
	if st.err != 0 {
		return nil, fuse.Status(st.err)
	}
	if !st.dirty || n.removed {
		return nil, fuse.OK
	}
	path, ok := n.path()
	if !ok || n.stage != st { // another session took its name away, or a later writer replaced it
		st.poison(syscall.ESTALE)
		return nil, fuse.Status(st.err)
	}
	if n.local {
		switch fs.classOf(n) {
		case editorScratch:
			return nil, fuse.OK
		case temporary:
			if !lingered {
				return nil, fuse.OK
			}
		}
	}
	d := &draft{path: path, data: slices.Clone(st.data), changes: st.changes}
	base := st.base
	if n.local {
		base = nil
		if hidden := n.parent.hidden[n.name]; hidden != nil {
			base = hidden.head
		}
	}
	d.expect = expectVersion(base)
	d.same = base != nil && !n.local && cas.Sum(d.data) == base.Digest
	return d, fuse.OK
}

func expectVersion(v *versionlog.Version) versionlog.Expectation {
	if v == nil {
		return versionlog.ExpectAbsent()
	}
	return versionlog.ExpectVersion(v.ID)
}

// committed notes that v holds what the stage was after changes changes.
// Caller holds fs.mu.
func (fs *fileSystem) committed(n *node, st *stage, v versionlog.Version, changes uint64) {
	if path, ok := n.path(); !ok || path != v.Path {
		// Another session's commit has moved or removed n since the draft.
		n.store.place(v)
		st.settle(changes)
		fs.notify.content(n)
		return
	}
	if n.local || n.head == nil || n.head.Seq < v.Seq {
		n.head, n.content = &v, nil
	}
	if hidden := n.parent.hidden[n.name]; hidden != nil && n.local {
		n.store.unhide(hidden)
	}
	n.parent.settle()
	n.local = false
	st.base = &v
	st.settle(changes)
}

// settle notes that what the stage was after changes changes is committed.
func (st *stage) settle(changes uint64) {
	if st.changes == changes {
		st.dirty, st.wrote = false, false
	}
}

// settle notes that a memory has landed in dir: from now on the directory
// exists because of it.
func (n *node) settle() {
	for ; n != nil; n = n.parent {
		n.kept = false
	}
}

// commitFailed decides what becomes of the stage. A conflict or a memory that
// is too big is final. Anything else may go away, so the stage stays for the
// next fsync or close.
func (fs *fileSystem) commitFailed(n *node, st *stage, path string, err error) fuse.Status {
	status := n.store.fail("close", path, err)
	if isConflict(err) || errors.Is(err, versionlog.ErrOverlap) || errors.Is(err, memory.ErrTooBig) {
		fs.mu.Lock()
		defer fs.mu.Unlock()
		st.poison(syscall.Errno(status))
		fs.notify.content(n)
	}
	return status
}

// linger makes a memory of a temporary file unless that is renamed, removed
// or opened again within temporaryLife. Caller holds fs.mu.
func (fs *fileSystem) linger(n *node) {
	fs.timers.Add(1)
	changes := n.stage.changes
	go func() {
		defer fs.timers.Done()
		select {
		case <-fs.ctx.Done():
			return
		case <-time.After(temporaryLife):
		}
		fs.mu.Lock()
		st := n.stage
		idle := st != nil && st.writers == 0 && st.changes == changes && n.local
		if idle {
			st.writers++
		}
		fs.mu.Unlock()
		if idle {
			fs.commitUnheard(n, st, true)
			fs.mu.Lock()
			defer fs.mu.Unlock()
			fs.endLinger(n, st)
		}
	}()
}

// endLinger ends the writer that linger was. A file that could not become a
// memory stays in this mount. Caller holds fs.mu.
func (fs *fileSystem) endLinger(n *node, st *stage) {
	st.writers--
	switch {
	case st.writers > 0 || n.stage != st:
	case st.err != 0:
		fs.giveUp(n)
	case !n.local:
		n.stage = nil
	}
}

// commitAll commits every file that is not committed but should be, when the
// mount ends.
func (fs *fileSystem) commitAll() {
	type pending struct {
		n  *node
		st *stage
	}
	var dirty []pending
	fs.mu.RLock()
	for _, n := range fs.nodes {
		if n.stage != nil && n.stage.dirty && !n.removed {
			dirty = append(dirty, pending{n, n.stage})
		}
	}
	fs.mu.RUnlock()
	for _, p := range dirty {
		fs.commitUnheard(p.n, p.st, true)
	}
}

// commitUnheard is commitFile where no program hears of an error.
func (fs *fileSystem) commitUnheard(n *node, st *stage, lingered bool) {
	if status := fs.commitFile(n, st, lingered); !status.Ok() {
		fs.log.Error("not committed", "store", n.store.slug(), "path", fs.where(n), "err", syscall.Errno(status))
	}
}
