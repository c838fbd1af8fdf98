package fusefs

import (
	"context"
	"strings"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/memory"
	"mneme/versionlog"
)

// A memory that is renamed to a scratch name is hidden: absent here, while in the
// log it stays the head. An editor that saves by renaming the old file away then
// writes the next version of the same memory, and one that dies in between has
// lost nothing.
//
// A directory whose memories are all hidden lists nothing, and can be removed.
// It is hidden then, too: it has its parent and its name still, so that what is
// hidden in it has a path, but is not among the parent's children. It comes back
// with the next directory of that name, and ends with the last that it hides.
// What else gets its name takes its place: then what it hides is removed.

// hide notes that n, which is committed at dir/name, has a scratch name now.
func (s *store) hide(dir *node, name string, n *node) {
	if dir.hidden == nil {
		dir.hidden = map[string]*node{}
	}
	dir.hidden[name] = n
	n.setLocal(true)
	n.setAside().origin = &origin{dir: dir, name: name}
}

// unhideLocked ends what hide began: n is a scratch file and nothing more.
func (s *store) unhideLocked(n *node) {
	o := n.origin
	if o == nil {
		return
	}
	n.setAside().origin = nil
	if o.dir.hidden[o.name] != n {
		return
	}
	delete(o.dir.hidden, o.name)
	for dir := o.dir; dir.isHiddenDir() && !dir.hides(); {
		if path, ok := dir.path(); ok && dir.marker != 0 { // it was removed, and the log still has it
			s.emptied[path] = dir.marker
			s.settling.Store(true)
		}
		up := dir.parent
		delete(up.hiddenDirs, dir.name)
		dir.parent = nil
		dir.markLocked()
		s.fs.collectLocked(dir)
		dir = up
	}
}

// revealLocked is unhide where another session has taken the path away at which n is
// hidden: what the session knows of that stays known.
func (s *store) revealLocked(n *node, path string) {
	s.unhideLocked(n)
	s.known.Left(path)
}

// hideDir takes a directory that hides memories out of the tree.
func (n *node) hideDir() {
	delete(n.parent.children, n.name)
	if n.parent.hiddenDirs == nil {
		n.parent.hiddenDirs = map[string]*node{}
	}
	n.parent.hiddenDirs[n.name] = n
}

func (n *node) isHiddenDir() bool { return n.parent != nil && n.parent.hiddenDirs[n.name] == n }

// hasPlace reports whether a directory has a path at which it is seen.
func (n *node) hasPlace() bool {
	_, ok := n.path()
	return ok && !n.isHiddenDir()
}

// hides reports whether memories are hidden directly in n, or in directories that
// are hidden there.
func (n *node) hides() bool { return len(n.hidden)+len(n.hiddenDirs) > 0 }

// adoptLocked gives n, the directory that is made under a hidden one's name, what that
// hides.
func (n *node) adoptLocked(old *node) {
	for name, h := range old.hidden {
		if n.hidden == nil {
			n.hidden = map[string]*node{}
		}
		n.hidden[name] = h
		h.origin.dir = n
	}
	for name, d := range old.hiddenDirs {
		if c := n.children[name]; c != nil && c.isDir() {
			c.adoptLocked(d)
			continue
		}
		d.parent = n
		d.hideDir()
	}
	old.hidden, old.hiddenDirs, old.parent = nil, nil, nil
	old.markLocked()
	n.store.fs.collectLocked(old)
}

// eachHidden calls do with everything that is hidden in dir or, where that is in a
// directory that is hidden itself, below it.
func (n *node) eachHidden(do func(*node)) {
	for _, h := range n.hidden {
		do(h)
	}
	for _, d := range n.hiddenDirs {
		d.eachHidden(do)
	}
}

// findHidden returns the file that this mount hides at a path, or nil, as at "".
func (s *store) findHidden(path string) *node {
	if path == "" {
		return nil
	}
	n := s.root
	dir, name := split(path)
	for dir != "" {
		segment, rest, _ := strings.Cut(dir[1:], "/")
		child := n.children[segment]
		if child == nil || !child.isDir() {
			child = n.hiddenDirs[segment]
		}
		if child == nil {
			return nil
		}
		n, dir = child, ""
		if rest != "" {
			dir = "/" + rest
		}
	}
	return n.hidden[name]
}

// bury removes from the log what is hidden in the directory that had a name, which
// something else is about to get: a hidden file itself, or another. Callers have
// claimed the name.
func (s *store) bury(dir *node, name string, itself *node) error {
	s.fs.mu.Lock()
	var hidden []*node
	note := func(h *node) {
		if h != itself {
			hidden = append(hidden, h)
		}
	}
	if d := dir.hiddenDirs[name]; d != nil {
		d.eachHidden(note)
	}
	if d := dir.children[name]; d != nil && len(d.children) == 0 { // that it replaces
		d.eachHidden(note)
	}
	var changes []memory.Change
	for _, h := range hidden {
		path, _ := h.logPath()
		changes = append(changes, memory.Change{Action: versionlog.Remove, Path: path, Expect: versionlog.ExpectVersion(h.head.ID())})
	}
	s.fs.mu.Unlock()
	if changes == nil {
		return nil
	}
	//archtest:locked commit calls it with the lock
	return s.commit(changes, func(*versionlog.Commit) {
		for _, h := range hidden {
			s.unhideLocked(h)
		}
	})
}

// buryFor is bury for a request that makes a file.
func (fs *fileSystem) buryFor(ctx context.Context, dir *node, name string) fuse.Status {
	canonical, err := memory.ParseName(name)
	fs.mu.RLock()
	there := err == nil && dir.hiddenDirs[canonical] != nil
	fs.mu.RUnlock()
	if !there {
		return fuse.OK
	}
	release, status := dir.store.claimNames(ctx, nameIn{dir, name})
	if !status.Ok() {
		return status
	}
	defer release()
	if err := dir.store.bury(dir, canonical, nil); err != nil {
		return dir.store.fail("create", name, err)
	}
	return fuse.OK
}
