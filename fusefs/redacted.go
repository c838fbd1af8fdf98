package fusefs

import (
	"path"
	"slices"
	"strings"

	"mneme/fusefs/tree"
	"mneme/fusefs/virtual"
	"mneme/versionlog"
)

// forgetPastLocked makes the mount and its kernel forget what they have of the past of the store,
// of which versions were erased, and of packs. It is not known which of it comes from those
// versions, so all of it goes: the data that their directories have read, texts of open files,
// and the kernel's names and pages. The kernel may keep all these permanently, since nothing else
// changes the past. The cache of contents was emptied before, by memory.Store.Follow; the tree
// has heads only, which are never erased.
//
// A program that has such a file open continues to read. If the bytes that it reads were erased,
// it hears of that.
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
			h.text = nil // which Read makes again
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

// bringErasedLocked brings a commit of this mount of which isErased holds into the tree, as a
// commit of another session. The kernel is told that the request has done its work, and looks up
// again the file that now has the name.
func (s *store) bringErasedLocked(c *versionlog.Commit, dir *tree.Entry, name string) {
	s.tree.ApplyLocked(c)
	s.fs.notify.entryLocked(dir, name)
}
