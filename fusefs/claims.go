package fusefs

import (
	"context"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/fusefs/tree"
	"mneme/memory"
	"mneme/session"
)

// nameIn is a name in a directory, canonical or not.
type nameIn struct {
	dir  *tree.Entry
	name string
}

// nameClaims are the claims of an operation that changes some names: each name, with everything
// below it where it is a directory's or hides one, and the place in the log of a file that is
// hidden. A name without a place in the store is not claimed.
func (s *store) nameClaims(names ...nameIn) (claims []session.Claim) {
	s.fs.mu.RLock()
	defer s.fs.mu.RUnlock()
	for _, at := range names {
		name, err := memory.ParseName(at.name)
		if err != nil {
			continue // the request itself refuses it
		}
		n := at.dir.ChildLocked(name)
		if path, ok := at.dir.ChildPathLocked(name); ok {
			claims = append(claims, session.Claim{Path: path, Below: n != nil && n.IsDir() || at.dir.HiddenDirLocked(name) != nil})
		}
		if n != nil && n.IsHiddenLocked() {
			if path, ok := n.LogPathLocked(); ok {
				claims = append(claims, session.Claim{Path: path})
			}
		}
	}
	return claims
}

// claimNames takes the claims of an operation that changes some names. The outcome of each commit
// whose reply was lost is then known, for everything at these names and below them: each such
// commit is tried again first, under the path that it was for. If the status is not OK, nothing
// is claimed.
func (s *store) claimNames(ctx context.Context, names ...nameIn) (release func(), status fuse.Status) {
	release, err := s.session.Settle(ctx, func() []session.Claim { return s.nameClaims(names...) }, settleText)
	if told, isTold := err.(syscall.Errno); isTold {
		return nil, fuse.Status(told)
	}
	if err != nil {
		return nil, s.fail("change", names[0].name, err)
	}
	return release, fuse.OK
}

// claimDir takes the claim of an empty directory that is about to be made or removed. It does not
// claim the names below it.
func (s *store) claimDir(ctx context.Context, at nameIn) (release func(), status fuse.Status) {
	release, err := s.session.Claims().Take(ctx, func() []session.Claim {
		s.fs.mu.RLock()
		defer s.fs.mu.RUnlock()
		name, err := memory.ParseName(at.name)
		path, ok := at.dir.ChildPathLocked(name)
		if err != nil || !ok {
			return nil // the request itself refuses it
		}
		return []session.Claim{{Path: path}}
	})
	if err != nil {
		return nil, s.fail("change", at.name, err)
	}
	return release, fuse.OK
}
