package fusefs

import (
	"slices"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"mneme/memory"
	"mneme/versionlog"
)

// move is one rename on its way. The names are canonical.
type move struct {
	s        *store
	n        *node // what moves
	from, to *node // directories
	old, new string
	target   *node // what is in the way; nil
}

// Rename implements fuse.RawFileSystem.
func (fs *fileSystem) Rename(_ <-chan struct{}, in *fuse.RenameIn, oldName, newName string) fuse.Status {
	if in.Flags&^unix.RENAME_NOREPLACE != 0 {
		return fuse.EINVAL // no exchange, no whiteout
	}
	fs.mu.RLock()
	from, status := fs.writable(in.NodeId)
	to, toStatus := fs.writable(in.Newdir)
	fs.mu.RUnlock()
	switch {
	case !status.Ok():
		return status
	case !toStatus.Ok():
		return toStatus
	case from.store != to.store:
		return fuse.EXDEV
	}
	n, status := fs.rename(in, from, oldName, newName)
	if status.Ok() && n != nil {
		status = fs.commitIdle(n)
	}
	return status
}

// commitIdle commits what was written to a scratch file, closed long ago, that
// has got the name of a memory.
func (fs *fileSystem) commitIdle(n *node) fuse.Status {
	fs.mu.Lock()
	st := n.stage
	idle := st != nil && st.writers == 0 && st.dirty && !n.local
	if idle {
		st.writers++
	}
	fs.mu.Unlock()
	if !idle {
		return fuse.OK
	}
	status := fs.commitFile(n, st, false)
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.endWrite(n, st)
	return status
}

// rename does it, and returns what has moved; nil when nothing had to.
func (fs *fileSystem) rename(in *fuse.RenameIn, from *node, oldName, newName string) (*node, fuse.Status) {
	from.store.ops.Lock()
	defer from.store.ops.Unlock()

	fs.mu.Lock()
	m, status := fs.newMove(in, from, oldName, newName)
	fs.mu.Unlock()
	if m == nil || m.n == m.target {
		return nil, status
	}
	if m.target != nil && in.Flags&unix.RENAME_NOREPLACE != 0 {
		return nil, fuse.Status(syscall.EEXIST)
	}
	var err error
	if m.n.isDir() {
		err = fs.renameDir(m)
	} else {
		err = fs.renameFile(m)
	}
	if err != nil {
		return nil, m.s.fail("rename "+oldName+" to", newName, err)
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if m.old != oldName {
		fs.notify.entry(m.from, m.old)
	}
	if m.new != newName {
		fs.notify.entry(m.to, m.new)
	}
	return m.n, fuse.OK
}

// newMove checks what does not depend on the log. Caller holds fs.mu.
func (fs *fileSystem) newMove(in *fuse.RenameIn, from *node, oldName, newName string) (*move, fuse.Status) {
	old, err := memory.ParseName(oldName)
	if err != nil {
		return nil, fuse.ENOENT
	}
	n := from.children[old]
	if n == nil {
		if from == from.store.root && old == memory.ReservedName {
			return nil, fuse.EROFS
		}
		return nil, fuse.ENOENT
	}
	below := 0
	if n.isDir() {
		below = 1
	}
	to, name, status := fs.place(in.Newdir, newName, below)
	if !status.Ok() {
		return nil, status
	}
	return &move{s: from.store, n: n, from: from, to: to, old: old, new: name, target: to.children[name]}, fuse.OK
}

// take moves the node. Caller holds fs.mu.
func (fs *fileSystem) take(m *move) {
	now := time.Now()
	if t := m.to.children[m.new]; t != nil && t != m.n {
		t.removed = true
		t.ctime = now
		fs.detach(t)
	}
	if m.n.parent != nil && m.n.parent.children[m.n.name] == m.n {
		delete(m.n.parent.children, m.n.name)
	}
	m.from.kept = true
	m.from.touch(now)
	attach(m.to, m.new, m.n)
	m.to.touch(now)
	m.n.ctime = now
	m.n.mkstemp = false
}

// renameDir moves a directory with all memories below it in one commit.
func (fs *fileSystem) renameDir(m *move) error {
	from, to, done, err := fs.beginRenameDir(m)
	if done || err != nil {
		return err
	}
	for range 5 { // what other sessions write meanwhile moves along
		err = m.s.commitWith(func(opts *memory.CommitOptions) (*versionlog.Commit, error) {
			return m.s.memory.Rename(fs.ctx, from, to, opts)
		}, func(c *versionlog.Commit) {
			stay := newcomers(m.n, c)
			if t := m.to.children[m.new]; t != nil && t != m.n {
				stay = append(stay, newcomers(t, c)...)
			}
			fs.take(m)
			m.s.renamed(c)
			m.to.settle()
			for _, n := range stay {
				m.s.putBack(n.file, n.path)
			}
		})
		if !isConflict(err) {
			break
		}
	}
	return err
}

// beginRenameDir checks the rename of a directory against the tree. One that
// holds no memories moves at once, under the same lock, so that none can arrive
// in between.
func (fs *fileSystem) beginRenameDir(m *move) (from, to string, done bool, err error) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	from, fromOK := m.n.path()
	to, toOK := m.to.childPath(m.new)
	target := m.to.children[m.new]
	switch {
	case !fromOK || !toOK: // pruned by another session's commit
		return "", "", false, syscall.ENOENT
	case target != nil && !target.isDir():
		return "", "", false, syscall.ENOTDIR
	case target != nil && len(target.children)+len(target.hidden) > 0:
		return "", "", false, syscall.ENOTEMPTY
	case m.n.holdsMemories():
		return from, to, false, nil
	}
	fs.take(m)
	return from, to, true, nil
}

// newcomer is a file below a directory that a rename moves or replaces, which
// another session has made there since the commit that renames was drawn up.
type newcomer struct {
	file *node
	path string
}

// newcomers returns the memories below dir that c does not move.
// Caller holds fs.mu.
func newcomers(dir *node, c *versionlog.Commit) []newcomer {
	moved := make(map[string]bool, len(c.Versions))
	for _, v := range c.Versions {
		moved[v.From] = true
	}
	var found []newcomer
	var walk func(*node)
	walk = func(n *node) {
		for _, child := range n.children {
			walk(child)
		}
		if path, ok := n.path(); ok && !n.isDir() && !n.local && n.head != nil && !moved[path] {
			found = append(found, newcomer{n, path})
		}
	}
	walk(dir)
	return found
}

// putBack gives n the place that it has in the log. Caller holds fs.mu.
func (s *store) putBack(n *node, path string) {
	from := n.parent
	s.fs.notify.entry(from, n.name)
	s.fs.detach(n)
	dirPath, name := split(path)
	dir := s.makeDirs(dirPath, n.mtime)
	if dir.children[name] != nil { // a file of this mount's own is there
		s.place(*n.head)
	} else {
		attach(dir, name, n)
		s.fs.nodes[n.id] = n
		s.fs.notify.entry(dir, name)
	}
	s.prune(from)
}

// holdsMemories reports whether the log has anything below dir.
// Caller holds fs.mu.
func (n *node) holdsMemories() bool {
	if len(n.hidden) > 0 {
		return true
	}
	for _, c := range n.children {
		if c.isDir() && c.holdsMemories() || !c.isDir() && !c.local {
			return true
		}
	}
	return false
}

// renamed gives the files of a directory that has moved their new versions.
// Caller holds fs.mu.
func (s *store) renamed(c *versionlog.Commit) {
	for _, v := range c.Versions {
		n := s.findHidden(v.Path)
		if n == nil {
			n = s.find(v.Path)
		}
		if n == nil || n.head == nil || n.isDir() || n.head.MemoryID != v.MemoryID {
			s.place(v) // made by another session since
			continue
		}
		n.rebase(v)
	}
}

// rebase makes v, which only gave the memory another path, its head.
// Caller holds fs.mu.
func (n *node) rebase(v versionlog.Version) {
	if n.stage != nil && n.stage.base != nil && n.stage.base.ID == v.Parent {
		n.stage.base = &v
	}
	if n.head.ID != v.Parent { // content of another session's that the tree has yet to see
		n.content = nil
		n.store.fs.notify.content(n)
	}
	n.head = &v
}

// renameFile moves a file: a memory, one that is hidden elsewhere, or one that
// the log does not have.
func (fs *fileSystem) renameFile(m *move) error {
	if m.target != nil && m.target.isDir() {
		return syscall.EISDIR
	}
	fs.mu.RLock()
	displaced := m.target != nil && m.target.origin != nil
	fs.mu.RUnlock()
	if displaced { // the last name of a memory that is hidden
		if err := m.s.remove(m.target); err != nil {
			return err
		}
	}
	if fs.renamedLocally(m) || fs.comesBack(m) {
		return nil
	}
	return fs.renameInLog(m)
}

// staysLocal reports whether the new name keeps the file out of the log.
// Caller holds fs.mu.
func (fs *fileSystem) staysLocal(m *move) bool {
	switch classify(m.to, m.new) {
	case editorScratch:
		return true
	case temporary:
		return m.n.local && m.n.origin == nil
	}
	return false
}

// renamedLocally changes names in this mount only, if that is all there is to
// do, and reports whether it was.
func (fs *fileSystem) renamedLocally(m *move) bool {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if target := m.to.children[m.new]; target != nil && !target.local || !fs.staysLocal(m) {
		return false
	}
	memoryMoves := !m.n.local && m.n.head != nil
	fs.take(m)
	m.n.local = true
	if memoryMoves {
		m.s.hide(m.from, m.old, m.n)
	} else if m.n.stage != nil && m.n.stage.writers == 0 && classify(m.to, m.new) == temporary {
		fs.linger(m.n)
	}
	return true
}

// comesBack undoes hiding: the file gets the name back under which the log has
// it. It reports whether that was all there was to do.
func (fs *fileSystem) comesBack(m *move) bool {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	o := m.n.origin
	if o == nil || o.dir != m.to || o.name != m.new || m.n.stage != nil || m.target != nil {
		return false
	}
	m.s.unhide(m.n)
	fs.take(m)
	m.n.local = false
	return true
}

// renameInLog commits the rename. A file that replaces a memory becomes that
// memory's next version, whose id and history go on; what it was itself, if it
// was a memory, is deleted in the same commit.
func (fs *fileSystem) renameInLog(m *move) error {
	fs.mu.RLock()
	source, known := m.source()
	target, ok := m.to.childPath(m.new)
	base := m.replaced()
	inLog := m.n.origin != nil || !m.n.local && m.n.head != nil
	self := inLog && known && source == target // a hidden file, changed, that comes back
	head, st := m.n.head, m.n.stage
	var data []byte
	var changes uint64
	loaded := m.n.staged()
	if loaded {
		data, changes = slices.Clone(st.data), st.changes
	}
	fs.mu.RUnlock()
	if !ok || inLog && !known { // another session's commit took the place away
		return syscall.ENOENT
	}

	if inLog && base == nil && !self {
		change := memory.Change{Action: versionlog.Rename, Path: source, To: target, Expect: versionlog.ExpectExists()}
		return m.s.commit([]memory.Change{change}, func(c *versionlog.Commit) {
			m.s.unhide(m.n)
			fs.take(m)
			m.n.rebase(c.Versions[0])
			m.n.local = false
			m.to.settle()
			m.s.vacateOther(source, m.n, c.Versions[0])
		})
	}
	switch {
	case !loaded && head == nil && st != nil && st.err != 0: // what was written to it was refused
		return st.err
	case !loaded && head == nil:
		return syscall.ENOENT
	case !loaded:
		var err error
		if data, err = m.s.memory.Content(fs.ctx, *head); err != nil {
			return err
		}
	}
	changesOf := []memory.Change{{Action: versionlog.Put, Path: target, Content: data, Expect: expectVersion(base)}}
	if inLog && !self {
		changesOf = append(changesOf, memory.Change{Action: versionlog.Remove, Path: source, Expect: versionlog.ExpectVersion(head.ID)})
	}
	return m.s.commit(changesOf, func(c *versionlog.Commit) {
		fs.replaced(m, c, target, base, changes)
	})
}

// source is where the log has the file that moves. Caller holds fs.mu.
func (m *move) source() (string, bool) {
	if o := m.n.origin; o != nil {
		return o.dir.childPath(o.name)
	}
	return m.n.path()
}

// replaced is the head in the log of the path that the file moves to, or nil.
// Caller holds fs.mu.
func (m *move) replaced() *versionlog.Version {
	if m.target != nil && !m.target.local {
		return m.target.head
	}
	if hidden := m.to.hidden[m.new]; hidden != nil {
		return hidden.head
	}
	return nil
}

// replaced brings a file over target into the tree. Caller holds fs.mu.
func (fs *fileSystem) replaced(m *move, c *versionlog.Commit, target string, base *versionlog.Version, changes uint64) {
	head := base // when it has the same content already
	for i := range c.Versions {
		if v := &c.Versions[i]; v.Path == target && v.Live() {
			head = v
		}
	}
	if t := m.to.children[m.new]; t != nil && !t.local && t.head != nil && t.head.Seq > head.Seq {
		head = t.head // another session wrote the same content meanwhile
	}
	if hidden := m.to.hidden[m.new]; hidden != nil {
		m.s.unhide(hidden)
	}
	m.s.unhide(m.n)
	fs.take(m)
	m.n.head, m.n.content, m.n.local = head, nil, false
	m.to.settle()
	st := m.n.stage
	if st == nil {
		return
	}
	st.base = head
	st.settle(changes)
	if st.writers == 0 && !st.dirty {
		m.n.stage = nil
	}
}
