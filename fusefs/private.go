package fusefs

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/fusefs/tree"
	"mneme/memory"
	"mneme/private"
	"mneme/versionlog"
)

// The history has no modes, and a mount gives each file the mount's. A file or directory whose
// mode lets others do less than that is private: the mode is remembered next to the conflicts,
// durably before the call returns that set it, and the next mount gives the file what both modes
// allow. The owner's bits are not remembered: they keep no other user out.
//
// A memory is remembered by its id, so that it stays private when a program renames it. A
// directory, which has none, is remembered by its path, and so is a file that is about to become
// a memory, until that has an id.

// others are the permission bits of everybody but the owner.
const others = 0o077

// unusedLife is how long a directory is remembered in which there is no memory. It
// may be one that another mount has made.
const unusedLife = 30 * 24 * time.Hour

// fileMode is the mode of a memory that the log tells of.
func (s *store) fileMode(v *versionlog.Version) uint32 {
	return syscall.S_IFREG | s.permOf(fileBits, v.MemoryID, v.Path)
}

// dirMode is the mode of a directory at a path that the log tells of.
func (s *store) dirMode(path string) uint32 { return syscall.S_IFDIR | s.permOf(dirBits, path) }

// The permission bits that files and directories have where the mount has all.
const (
	fileBits = 0o666
	dirBits  = 0o777
)

// permOf is what the mount's mode and those that are remembered of keys leave of
// permission bits.
func (s *store) permOf(bits uint32, keys ...string) uint32 {
	perm := s.fs.perm(bits)
	if s.private.Empty() {
		return perm
	}
	for _, key := range keys {
		if mode, known := s.private.Get(key); known {
			perm &= mode | ^uint32(others)
		}
	}
	return perm
}

// loadPrivate reads the remembered modes. If they cannot be read, that is an error where the
// mount lets others in.
func (s *store) loadPrivate() error {
	err := s.private.Load()
	if err != nil && s.fs.opts.Mode&others == 0 {
		s.fs.log.Warn("nobody else may enter this mount", "store", s.slug(), "err", err)
		err = nil
	}
	s.fs.mu.Lock()
	defer s.fs.mu.Unlock()
	s.tree.Root().SetModeLocked(s.dirMode("/"))
	return err
}

// isPrivate reports whether others may do less under a mode than under the mount's.
func isPrivate(n *tree.Entry, mode uint32) bool {
	return storeOf(n).fs.perm(bitsOf(n))&others&^mode != 0
}

func bitsOf(n *tree.Entry) uint32 {
	if n.IsDir() {
		return dirBits
	}
	return fileBits
}

// letsIn is the mode of a mount that lets others in. In a mount that lets no other user in, a
// chmod is judged by it: all modes look alike there, and a later mount may let others in.
const letsIn = 0o755

// chosenChange is changeOf for a mode that a program has set by chmod.
func chosenChange(n *tree.Entry, key string, mode uint32) (c private.Change, needed bool) {
	if storeOf(n).fs.opts.Mode&others == 0 && bitsOf(n)&letsIn&others&^mode != 0 {
		was, known := storeOf(n).private.Get(key)
		return private.Change{Key: key, Mode: mode & 0o777}, !known || was != mode&0o777
	}
	return changeOf(n, key, mode)
}

// changeOf is the change that must be noted for a key of n so that a mode is remembered, if any
// must. In a mount that lets no other user in, a mode that gives others no more than the
// remembered one changes nothing.
func changeOf(n *tree.Entry, key string, mode uint32) (c private.Change, needed bool) {
	was, known := storeOf(n).private.Get(key)
	switch {
	case isPrivate(n, mode):
		return private.Change{Key: key, Mode: mode & 0o777}, !known || was != mode&0o777
	case known && mode&^was&others != 0:
		return private.Change{Key: key, Forget: true}, true
	}
	return c, false
}

// memoryChange is what has to be noted of a key of n, a file that becomes a memory with a mode.
func memoryChange(n *tree.Entry, key string, mode uint32, chosen bool) (c private.Change, needed bool) {
	if chosen {
		return chosenChange(n, key, mode)
	}
	return changeOf(n, key, mode)
}

// notePrivate makes changes durable. Where there are too many, it makes room.
func (s *store) notePrivate(changes ...private.Change) error {
	err := s.private.Note(changes...)
	if errors.Is(err, private.ErrFull) && s.tidyPrivate() {
		err = s.private.Note(changes...)
	}
	return err
}

// keepMode remembers the mode that n is given. The mode of a file that is no memory yet is
// remembered when it becomes one.
func (fs *fileSystem) keepMode(n *tree.Entry, mode uint32) fuse.Status {
	fs.mu.Lock()
	n = n.LatestLocked()
	path, there := n.PathLocked()
	key := path
	switch {
	case n.IsDir() && path == "":
		key = "/"
	case !n.IsDir() && n.HeadLocked() != nil:
		key = n.HeadLocked().MemoryID()
	case !n.IsDir():
		n.SetModeChosenLocked()
		there = false
	}
	there = there && !n.IsRemovedLocked()
	fs.mu.Unlock()
	if c, needed := chosenChange(n, key, mode); there && needed {
		if err := storeOf(n).notePrivate(c); err != nil {
			return storeOf(n).fail("chmod", path, err)
		}
	}
	return fuse.OK
}

// keepingMode has a commit make n the memory at a path, in the place of before, and
// remembers its mode: by the path until the memory has an id that is known. nil
// before is no memory. Where the commit may be made though it has failed, the path
// stays remembered.
func (s *store) keepingMode(n *tree.Entry, path string, before *memory.Head, commit func() error) error {
	undo, err := s.beforeMemory(n, path, before)
	if err != nil {
		return err
	}
	err = commit()
	var changes []private.Change
	switch {
	case err == nil:
		changes = s.afterMemory(n)
	case refusesContent(err):
		changes = undo
	}
	if err := s.notePrivate(changes...); err != nil { // the path stays remembered
		s.fs.log.Warn("a private file", "store", s.slug(), "path", path, "err", err)
	}
	return err
}

// beforeMemory remembers the mode of n by a path, and returns what undoes that.
func (s *store) beforeMemory(n *tree.Entry, path string, before *memory.Head) (undo []private.Change, err error) {
	s.fs.mu.RLock()
	mode, chosen := n.ModeLocked(), n.ModeIsChosenLocked()
	s.fs.mu.RUnlock()
	if !isPrivate(n, mode) && !chosen {
		return nil, nil
	}
	if before != nil {
		if _, needed := memoryChange(n, before.MemoryID(), mode, chosen); !needed {
			return nil, nil
		}
	}
	c, needed := memoryChange(n, path, mode, chosen)
	if !needed {
		return nil, nil
	}
	undo = []private.Change{s.asItIs(path)}
	return undo, s.notePrivate(c)
}

// asItIs is the change that makes what is remembered of a key what it is now.
func (s *store) asItIs(key string) private.Change {
	mode, known := s.private.Get(key)
	return private.Change{Key: key, Mode: mode, Forget: !known}
}

// afterMemory is what has to be noted of n, which has become a memory.
func (s *store) afterMemory(n *tree.Entry) []private.Change {
	s.fs.mu.RLock()
	n = n.LatestLocked()
	path, there := n.PathLocked()
	mode, chosen, head := n.ModeLocked(), n.ModeIsChosenLocked(), n.HeadLocked()
	s.fs.mu.RUnlock()
	if !there || head == nil || !isPrivate(n, mode) && !chosen && s.private.Empty() {
		return nil
	}
	changes := s.forgetPath(path)
	if c, needed := memoryChange(n, head.MemoryID(), mode, chosen); needed {
		changes = append(changes, c)
	}
	return changes
}

// forgetPath is the change that forgets a path, if it is remembered.
func (s *store) forgetPath(path string) []private.Change {
	if _, known := s.private.Get(path); known {
		return []private.Change{{Key: path, Forget: true}}
	}
	return nil
}

// beforeMkdir remembers the mode of a directory that is about to be made.
func (fs *fileSystem) beforeMkdir(in *fuse.MkdirIn, name string) fuse.Status {
	canonical, err := memory.ParseName(name)
	if err != nil {
		return fuse.OK // which Mkdir refuses
	}
	fs.mu.RLock()
	parent := fs.node(in.NodeId)
	path, there := "", false
	if parent != nil && parent.IsDir() && parent.ChildLocked(canonical) == nil {
		path, there = parent.ChildPathLocked(canonical)
	}
	fs.mu.RUnlock()
	if !there || !isPrivate(parent, in.Mode) {
		return fuse.OK
	}
	if c, needed := changeOf(parent, path, in.Mode); needed {
		if err := storeOf(parent).notePrivate(c); err != nil {
			return storeOf(parent).fail("mkdir", path, err)
		}
	}
	return fuse.OK
}

// movePrivate remembers under another path what is private at and below a directory
// that is about to be renamed. The caller ends it, with whether it was.
func (s *store) movePrivate(from, to string) (end func(moved bool), err error) {
	found := s.private.Find(func(key string, _ private.Entry) bool {
		return key == from || strings.HasPrefix(key, from+"/")
	})
	var there, old, undo []private.Change
	for key, e := range found {
		moved := to + key[len(from):]
		there = append(there, private.Change{Key: moved, Mode: e.Mode})
		old = append(old, private.Change{Key: key, Forget: true})
		undo = append(undo, s.asItIs(moved))
	}
	if err := s.notePrivate(there...); err != nil {
		return nil, err
	}
	return func(moved bool) {
		if moved {
			undo = old
		}
		if err := s.private.Note(undo...); err != nil {
			s.fs.log.Warn("a private directory", "store", s.slug(), "err", fmt.Errorf("rename: %w", err))
		}
	}, nil
}

// tidyPrivate forgets the modes of files that are no longer there, and remembers by their ids the
// memories that a mount which was killed had remembered by path. It reports whether there is less
// to remember.
func (s *store) tidyPrivate() bool {
	if s.private.Empty() {
		return false
	}
	changes := s.untidy()
	if err := s.private.Note(changes...); err != nil {
		s.fs.log.Warn("forget which files were private", "store", s.slug(), "err", err)
		return false
	}
	return len(changes) > 0
}

func (s *store) untidy() (changes []private.Change) {
	known := s.private.Find(func(string, private.Entry) bool { return true })
	s.fs.mu.RLock()
	defer s.fs.mu.RUnlock()
	if loaded, _ := s.tree.LoadedLocked(); !loaded {
		return nil // what has not come yet may be there
	}
	there := map[string]bool{}
	for _, n := range s.fs.nodes {
		if storeOf(n) != s || n.HeadLocked() == nil {
			continue
		}
		if _, asked := known[n.HeadLocked().MemoryID()]; asked && !there[n.HeadLocked().MemoryID()] {
			_, there[n.HeadLocked().MemoryID()] = n.LogPathLocked()
		}
	}
	for key, e := range known {
		if !strings.HasPrefix(key, "/") {
			if !there[key] {
				changes = append(changes, private.Change{Key: key, Forget: true})
			}
			continue
		}
		n := s.tree.Root()
		if key != "/" {
			n = s.tree.FindLocked(key)
		}
		switch {
		case n.IsMemoryLocked():
			changes = append(changes, private.Change{Key: key, Forget: true})
			if !there[n.HeadLocked().MemoryID()] {
				changes = append(changes, private.Change{Key: n.HeadLocked().MemoryID(), Mode: e.Mode})
			}
		case n == nil && time.Since(e.Since) > unusedLife:
			changes = append(changes, private.Change{Key: key, Forget: true})
		}
	}
	return changes
}
