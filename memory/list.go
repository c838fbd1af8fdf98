package memory

import (
	"context"
	"iter"
	"strings"

	"mneme/versionlog"
)

// Newest returns the newest version of a memory, its deletion too. versionlog.ErrNotFound.
func (s *Store) Newest(ctx context.Context, memoryID string) (versionlog.Version, error) {
	return s.log.Newest(ctx, s.info.ID, memoryID)
}

// ReadNewest returns the newest version of a memory, and its bytes as Content does. They
// are nil if the version has none: a deletion, a directory or an erased one.
// versionlog.ErrNotFound.
func (s *Store) ReadNewest(ctx context.Context, memoryID string) (v versionlog.Version, data []byte, err error) {
	if s.can.NewestContent != nil {
		v, data, err = s.can.NewestContent(ctx, s.info.ID, memoryID)
	} else {
		v, err = s.Newest(ctx, memoryID)
	}
	if err == nil && data == nil && !v.Digest.IsZero() && !v.Redacted() {
		data, err = s.Content(ctx, v)
	}
	return v, data, err
}

// Version returns a version by its id. versionlog.ErrNotFound.
func (s *Store) Version(ctx context.Context, id string) (versionlog.Version, error) {
	return s.log.Version(ctx, s.info.ID, id)
}

// HistoryOf yields the versions of a memory below a sequence number, newest first; 0 is from
// the newest on.
func (s *Store) HistoryOf(ctx context.Context, memoryID string, before uint64) iter.Seq2[versionlog.Version, error] {
	return s.log.History(ctx, s.info.ID, memoryID, before)
}

// List yields the live versions of the memories below a prefix, which ends in a slash, in
// byte order of their paths from behind one on; "" is from the first. With rollUp, the
// memories of a directory below the prefix are one version instead, which has only its Path,
// with a slash at the end.
func (s *Store) List(ctx context.Context, prefix string, rollUp bool, after string) iter.Seq2[versionlog.Version, error] {
	return func(yield func(versionlog.Version, error) bool) {
		dir := strings.TrimSuffix(prefix, "/")
		if dir == "" {
			dir = "/"
		}
		for more := true; more; {
			more = false
			for v, err := range s.log.Heads(ctx, s.info.ID, dir, behind(after)) {
				if err != nil {
					yield(v, err)
					return
				}
				below, inside := strings.CutPrefix(v.Path, prefix)
				if !inside || v.IsDir() {
					continue
				}
				name, _, deeper := strings.Cut(below, "/")
				if !rollUp || !deeper {
					if !yield(v, nil) {
						return
					}
					continue
				}
				after, more = prefix+name+"/", true // and on behind all that is in it
				if !yield(versionlog.Version{Path: after}, nil) {
					return
				}
				break
			}
		}
	}
}

// behind is the path behind which Heads begins: for a directory, behind all that is in it.
func behind(after string) string {
	if strings.HasSuffix(after, "/") {
		return after + "\U0010ffff"
	}
	return after
}
