package memlog

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"mneme/versionlog"
)

// Tip returns the end of a store's history.
func (l *Log) Tip(ctx context.Context, storeID string) (tip versionlog.Tip, err error) {
	err = l.withStore(ctx, storeID, func(s *store) error {
		tip = s.tip()
		return nil
	})
	return tip, err
}

// Head returns the live version of a path.
func (l *Log) Head(ctx context.Context, storeID, path string) (versionlog.Version, error) {
	return l.at(ctx, storeID, path, true)
}

// Last returns the newest version that took place at a path.
func (l *Log) Last(ctx context.Context, storeID, path string) (versionlog.Version, error) {
	return l.at(ctx, storeID, path, false)
}

func (l *Log) at(ctx context.Context, storeID, path string, live bool) (v versionlog.Version, err error) {
	err = l.withStore(ctx, storeID, func(s *store) error {
		found, ok := s.last[path]
		if !ok || live && !found.live {
			return fmt.Errorf("store %s: %s: %w", s.Slug, path, versionlog.ErrNotFound)
		}
		v = found.version
		return nil
	})
	return v, err
}

// Held reports whether something is below a path, or ever was.
func (l *Log) Held(ctx context.Context, storeID, path string) (held bool, err error) {
	err = l.withStore(ctx, storeID, func(s *store) error {
		for at := range s.last {
			held = held || strings.HasPrefix(at, path+"/") && at != path+"/"
		}
		return nil
	})
	return held, err
}

// Heads yields the live versions at and below prefix in the order of their
// paths.
func (l *Log) Heads(ctx context.Context, storeID, prefix, after string) iter.Seq2[versionlog.Version, error] {
	return l.walk(ctx, storeID, func(s *store) []versionlog.Version {
		return s.liveBelow(prefix, func(path string) bool { return path > after })
	})
}

// Children yields one live version of each name in a directory, in the order
// of their paths.
func (l *Log) Children(ctx context.Context, storeID, dir string) iter.Seq2[versionlog.Version, error] {
	return l.walk(ctx, storeID, func(s *store) []versionlog.Version {
		below := strings.TrimSuffix(dir, "/") + "/"
		last := ""
		return s.liveBelow(dir, func(path string) bool {
			rest, ok := strings.CutPrefix(path, below)
			name, _, deeper := strings.Cut(rest, "/")
			again := deeper && name == last
			last = name
			return ok && name != "" && !again
		})
	})
}

// liveBelow returns the live versions at and below prefix that are wanted, in
// the order of their paths.
func (s *store) liveBelow(prefix string, wanted func(path string) bool) (found []versionlog.Version) {
	above := strings.TrimSuffix(prefix, "/")
	for path, at := range s.last {
		if at.live && (path == prefix || isBelow(path, above)) {
			found = append(found, at.version)
		}
	}
	slices.SortFunc(found, func(a, b versionlog.Version) int { return cmp.Compare(a.Path, b.Path) })
	return slices.DeleteFunc(found, func(v versionlog.Version) bool { return !wanted(v.Path) })
}

// Version returns a version of a store by its id.
func (l *Log) Version(ctx context.Context, storeID, id string) (v versionlog.Version, err error) {
	err = l.withStore(ctx, storeID, func(s *store) error {
		if found, _ := s.Version(id); found != nil {
			v = *found
			return nil
		}
		return fmt.Errorf("store %s: version %s: %w", s.Slug, id, versionlog.ErrNotFound)
	})
	return v, err
}

// History yields the versions of a memory below a sequence number, newest first.
func (l *Log) History(ctx context.Context, storeID, memoryID string, before uint64) iter.Seq2[versionlog.Version, error] {
	return l.walk(ctx, storeID, func(s *store) []versionlog.Version {
		found := slices.Clone(s.memories[memoryID])
		slices.Reverse(found)
		return slices.DeleteFunc(found, func(v versionlog.Version) bool { return before != 0 && v.Seq >= before })
	})
}

// Newest returns the newest version of a memory.
func (l *Log) Newest(ctx context.Context, storeID, memoryID string) (v versionlog.Version, err error) {
	err = l.withStore(ctx, storeID, func(s *store) error {
		all := s.memories[memoryID]
		if len(all) == 0 {
			return fmt.Errorf("store %s: memory %s: %w", s.Slug, memoryID, versionlog.ErrNotFound)
		}
		v = all[len(all)-1]
		return nil
	})
	return v, err
}

// At returns the store as it was after a commit.
func (l *Log) At(ctx context.Context, storeID string, seq uint64) (versionlog.State, error) {
	if _, err := l.Store(ctx, storeID); err != nil {
		return nil, err
	}
	return versionlog.Replay(seq, l.Commits(ctx, storeID, 0))
}

// SeqAt returns the newest commit that was made at a time or before.
func (l *Log) SeqAt(ctx context.Context, storeID string, at time.Time) (seq uint64, err error) {
	err = l.withStore(ctx, storeID, func(s *store) error {
		for _, c := range s.commits {
			if !c.Time.After(at) {
				seq = c.Seq
			}
		}
		return nil
	})
	return seq, err
}

// PathHistory yields every version that took place at a path, newest first.
func (l *Log) PathHistory(ctx context.Context, storeID, path string) iter.Seq2[versionlog.Version, error] {
	return l.walk(ctx, storeID, func(s *store) (found []versionlog.Version) {
		for _, c := range slices.Backward(s.commits) {
			for _, v := range c.Versions {
				if v.At(path) {
					found = append(found, v)
				}
			}
		}
		return found
	})
}

// walk yields what list returns, as of the beginning of the walk.
func (l *Log) walk(ctx context.Context, storeID string, list func(*store) []versionlog.Version) iter.Seq2[versionlog.Version, error] {
	return func(yield func(versionlog.Version, error) bool) {
		var found []versionlog.Version
		err := l.withStore(ctx, storeID, func(s *store) error {
			found = list(s)
			return nil
		})
		if err != nil {
			yield(versionlog.Version{}, err)
			return
		}
		for _, v := range found {
			if !yield(v, nil) {
				return
			}
		}
	}
}

// Commits yields the commits above after, oldest first.
func (l *Log) Commits(ctx context.Context, storeID string, after uint64) iter.Seq2[*versionlog.Commit, error] {
	return func(yield func(*versionlog.Commit, error) bool) {
		var commits []*versionlog.Commit
		err := l.withStore(ctx, storeID, func(s *store) error {
			commits = s.commits[min(after, uint64(len(s.commits))):]
			return nil
		})
		if err != nil {
			yield(nil, err)
			return
		}
		for _, c := range commits {
			if !yield(c, nil) {
				return
			}
		}
	}
}

// CommitsBefore yields the commits below a sequence number that f takes, newest first.
func (l *Log) CommitsBefore(ctx context.Context, storeID string, before uint64, f versionlog.Filter) iter.Seq2[*versionlog.Commit, error] {
	return func(yield func(*versionlog.Commit, error) bool) {
		var commits []*versionlog.Commit
		err := l.withStore(ctx, storeID, func(s *store) error {
			commits = s.commits
			return nil
		})
		if err != nil {
			yield(nil, err)
			return
		}
		for _, c := range slices.Backward(commits) {
			if (before == 0 || c.Seq < before) && f.Takes(c) && !yield(c, nil) {
				return
			}
		}
	}
}

// Wait returns when the store has a commit above after.
func (l *Log) Wait(ctx context.Context, storeID string, after uint64) error {
	for {
		var changed <-chan struct{}
		var tip versionlog.Tip
		err := l.withStore(ctx, storeID, func(s *store) error {
			changed, tip = l.changed, s.tip()
			return nil
		})
		if err != nil || tip.Seq > after {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Next returns the commits above after, once there are any.
func (l *Log) Next(ctx context.Context, storeID string, after uint64) (commits []*versionlog.Commit, err error) {
	for {
		if err := l.Wait(ctx, storeID, after); err != nil {
			return nil, err
		}
		for c, err := range l.Commits(ctx, storeID, after) {
			if err != nil {
				return nil, err
			}
			commits = append(commits, c)
		}
		if len(commits) > 0 {
			return commits, nil
		}
	}
}

// Capabilities has Near, Purge and Next.
func (l *Log) Capabilities() versionlog.Capabilities {
	return versionlog.Capabilities{Near: true, Purge: l.purge, Next: l.Next}
}

// purge has nothing to do: a redaction is over with its commit.
func (l *Log) purge(ctx context.Context, storeID string, _ []string) ([]versionlog.Purged, error) {
	return nil, l.withStore(ctx, storeID, func(*store) error { return nil })
}
