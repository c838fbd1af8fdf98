package fusefs

import (
	"context"
	"slices"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/memory"
	"mneme/session"
)

// nameIn is a name in a directory, canonical or not.
type nameIn struct {
	dir  *node
	name string
}

// nameClaims is what an operation claims that changes some names: each, with all that is
// below it where it is a directory's or hides one, and the place in the log of a file
// that is hidden. What has no place in the store is not claimed.
func (s *store) nameClaims(names ...nameIn) (claims []session.Claim) {
	s.fs.mu.RLock()
	defer s.fs.mu.RUnlock()
	for _, at := range names {
		name, err := memory.ParseName(at.name)
		if err != nil {
			continue // the request itself refuses it
		}
		n := at.dir.children[name]
		if path, ok := at.dir.childPath(name); ok {
			claims = append(claims, session.Claim{Path: path, Below: n != nil && n.isDir() || at.dir.hiddenDirs[name] != nil})
		}
		if n != nil && n.isHidden() {
			if path, ok := n.logPath(); ok {
				claims = append(claims, session.Claim{Path: path})
			}
		}
	}
	return claims
}

// claimNames takes the claims of an operation that changes some names. Of what has these
// names, and of all below, it is known then what became of the commits whose replies
// were lost: each is tried again first, under the path that it was for. Where the status
// is not OK nothing is claimed.
func (s *store) claimNames(ctx context.Context, names ...nameIn) (release func(), status fuse.Status) {
	want := func() []session.Claim { return s.nameClaims(names...) }
	for {
		release, err := s.claims.Take(ctx, want)
		if err != nil {
			return nil, s.fail("change", names[0].name, err)
		}
		drafts := s.unsureAt(want())
		if len(drafts) == 0 {
			return release, fuse.OK
		}
		release()
		for _, d := range drafts {
			status := s.fs.commitFile(d.n, d.st, saved)
			s.fs.mu.RLock()
			unknown := d.st.attempt == d
			s.fs.mu.RUnlock()
			if unknown {
				return nil, status
			}
		}
	}
}

// claimDir takes the claim of a directory about to be made or removed, in which nothing
// is: not of what is below it.
func (s *store) claimDir(ctx context.Context, at nameIn) (release func(), status fuse.Status) {
	release, err := s.claims.Take(ctx, func() []session.Claim {
		s.fs.mu.RLock()
		defer s.fs.mu.RUnlock()
		name, err := memory.ParseName(at.name)
		path, ok := at.dir.childPath(name)
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

// unsureAt returns the drafts of files in the reach of some claims of which it is not
// known whether they are in the log.
func (s *store) unsureAt(claims []session.Claim) (drafts []*draft) {
	s.fs.mu.RLock()
	defer s.fs.mu.RUnlock()
	for _, d := range s.unsure {
		path, there := d.n.targetLocked()
		if d.st.attempt == d && there && slices.ContainsFunc(claims, func(c session.Claim) bool { return c.Covers(path) }) {
			drafts = append(drafts, d)
		}
	}
	return drafts
}
