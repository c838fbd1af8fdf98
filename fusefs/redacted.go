package fusefs

import (
	"context"
	"path"
	"slices"
	"strings"
	"time"

	"mneme/errkind"
	"mneme/fusefs/tree"
	"mneme/fusefs/virtual"
	"mneme/versionlog"
)

// eraseMissed does, once the mount is served, what following a redaction does besides, for those
// before it began: nobody may have been there to follow them. What it has read of one that is still
// under way it lets go of as of one that it follows. While the store cannot be asked, it tries again.
func (s *store) eraseMissed(ctx context.Context) {
	for _, erase := range []func(context.Context) error{s.letGoBefore, s.eraseKeptBefore} {
		for {
			err := erase(ctx)
			if err == nil || ctx.Err() != nil {
				break
			}
			s.fs.log.Warn("look for redactions before the mount began", "store", s.slug(), "err", err)
			if errkind.Of(err) == errkind.Corrupt {
				break
			}
			select {
			case <-ctx.Done():
			case <-time.After(time.Minute):
			}
		}
	}
}

// letGoBefore lets go of what was erased a moment before the mount began as of what it follows.
func (s *store) letGoBefore(ctx context.Context) error {
	erased, err := s.memory.ErasedSince(ctx, s.fs.since.Add(-erasedWithin))
	if erased {
		s.fs.returning.versionsErased()
	}
	return err
}

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
