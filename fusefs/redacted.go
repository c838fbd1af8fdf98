package fusefs

import (
	"path"
	"slices"
	"strings"

	"mneme/fusefs/tree"
	"mneme/fusefs/virtual"
	"mneme/versionlog"
)

// forgetPastLocked makes the mount and its kernel forget what they have of the past of the
// store, of which versions were erased, and of packs. Nobody knows which, so all of it goes:
// what their directories have read, texts of open files, and the kernel's names and
// pages. The kernel may keep all these for ever, since the past does not change but for
// this. The cache of contents was emptied before, by memory.Store.Follow; the tree has heads
// only, which nobody erases.
//
// A program that has such a file open reads on, and hears that what it reads was erased if
// it was.
func (s *store) forgetPastLocked() {
	virtual.ForgetPast(s.control)
	all := &s.fs.virtual
	for at, v := range all.places {
		if at.store != s.id() || !tellsErased(at.path) {
			continue
		}
		s.fs.notify.Content(v.id)
		if above := all.places[virtualPlace{at.store, path.Dir(at.path)}]; above != nil {
			s.fs.notify.Name(above.id, path.Base(at.path))
		}
	}
	for _, h := range all.handles {
		if at := h.inode.at; at.store == s.id() && tellsErased(at.path) && h.text != nil {
			s.fs.budget.changeOpen(-int64(len(h.text)))
			h.text = nil // which Read makes anew
		}
	}
}

// tellsErased reports whether what is at a path may be made of a version that is not a head, and is kept.
func tellsErased(at string) bool { return isOfPast(at) || strings.HasPrefix(at, virtual.Packs+"/") }

// isErased reports whether a version of a commit was erased. So may be those of a commit of this
// mount's own, of which the log had lost the reply, and asked later.
func isErased(c *versionlog.Commit) bool {
	return slices.ContainsFunc(c.Versions, func(v versionlog.Version) bool { return v.Redacted() })
}

// bringErasedLocked brings a commit of this mount into the tree of which isErased holds, as that of
// another session. The kernel, which is told that the request has done what it was to do, looks
// again at what is at the name by now.
func (s *store) bringErasedLocked(c *versionlog.Commit, dir *tree.Entry, name string) {
	s.tree.ApplyLocked(c)
	s.fs.notify.entryLocked(dir, name)
}
