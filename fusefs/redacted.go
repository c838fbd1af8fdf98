package fusefs

import (
	"path"

	"mneme/fusefs/virtual"
)

// forgetPastLocked makes the mount and its kernel forget what they have of the past of the
// store, of which versions were erased. Nobody knows which, so all of it goes: what the
// directories of the past have read, texts of open files, and the kernel's names and
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
		if at.store != s.id() || !isOfPast(at.path) {
			continue
		}
		s.fs.notify.Content(v.id)
		if above := all.places[virtualPlace{at.store, path.Dir(at.path)}]; above != nil {
			s.fs.notify.Name(above.id, path.Base(at.path))
		}
	}
	for _, h := range all.handles {
		if at := h.inode.at; at.store == s.id() && isOfPast(at.path) && h.text != nil {
			s.fs.budget.changeOpen(-int64(len(h.text)))
			h.text = nil // which Read makes anew
		}
	}
}
