package history

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"

	"mneme/cas"
	"mneme/memory"
	"mneme/versionlog"
)

// Unread counts versions that could not be searched, since their content is gone.
type Unread struct {
	Redacted int // on purpose
	Lost     int // the store should have it
}

// ErrNeverSaid says that no version holds a text. It is a versionlog.ErrNotFound, under
// errors.Is.
var ErrNeverSaid = fmt.Errorf("no version says that: %w", versionlog.ErrNotFound)

// textCounter counts something in contents. It reads each of them once, as long as it has not
// looked at very many.
type textCounter struct {
	s      *memory.Store
	count  func(d cas.Digest, content []byte) int
	counts map[cas.Digest]int // lost: there is no such content
}

const (
	lost         = -1
	maxCounts    = 1 << 20  // contents, of about 60 bytes each
	MaxReadAhead = 16 << 20 // bytes of contents
	searchGroup  = 64       // versions
)

func newTextCounter(s *memory.Store, text string) *textCounter {
	return newCounter(s, func(_ cas.Digest, content []byte) int { return bytes.Count(content, []byte(text)) })
}

// newCounter returns what counts by count, which is called once for each content at a time.
func newCounter(s *memory.Store, count func(cas.Digest, []byte) int) *textCounter {
	return &textCounter{s: s, count: count, counts: map[cas.Digest]int{}}
}

// read counts the text in the contents of versions, as many at a time as are worth reading
// together.
func (t *textCounter) read(ctx context.Context, versions []versionlog.Version) error {
	if len(t.counts) > maxCounts {
		clear(t.counts)
	}
	size, batch, bytes := t.s.BatchSize(), []*memory.Head(nil), int64(0)
	asked := map[cas.Digest]bool{}
	for i := range versions {
		v := &versions[i]
		if _, known := t.counts[v.Digest]; known || v.Digest.IsZero() || asked[v.Digest] {
			continue
		}
		if len(batch) > 0 && (len(batch) == size || bytes+v.Size > MaxReadAhead) {
			if err := t.readBatch(ctx, batch); err != nil {
				return err
			}
			batch, bytes = nil, 0
		}
		asked[v.Digest] = true
		batch, bytes = append(batch, memory.NewHead(v)), bytes+v.Size
	}
	return t.readBatch(ctx, batch)
}

func (t *textCounter) readBatch(ctx context.Context, heads []*memory.Head) error {
	for i, data := range t.s.Contents(ctx, heads) {
		if data == nil && heads[i].Size() > 0 {
			var err error
			if data, err = t.s.ContentOf(ctx, heads[i]); memory.IsLost(err) {
				t.counts[heads[i].Digest()] = lost
				continue
			} else if err != nil {
				return err
			}
		}
		t.counts[heads[i].Digest()] = t.count(heads[i].Digest(), data)
	}
	return nil
}

// in returns how often the text is in the content of a version that was read; nil has none.
func (t *textCounter) in(v *versionlog.Version) int {
	if v == nil || v.Redacted() || v.Digest.IsZero() {
		return 0
	}
	return t.counts[v.Digest]
}

// skip reports whether a version cannot be searched, and counts it.
func (u *Unread) skip(v *versionlog.Version, count int) bool {
	switch {
	case v == nil:
	case v.Redacted():
		u.Redacted++
		return true
	case count == lost:
		u.Lost++
		return true
	}
	return false
}

// FirstSaid returns the first version at a path or below it, of memories as they were called
// then, that holds a text; of a path where a memory is or was, the first in its History. It
// counts the versions before that one which cannot be searched; contents that are no text are
// searched, too. Progress, unless nil, is called with how many commits it has looked at.
// ErrNeverSaid.
func FirstSaid(ctx context.Context, s *memory.Store, path, text string, progress func(done, total int)) (first versionlog.Version, unread Unread, err error) {
	t := newTextCounter(s, text)
	groups := oldestFirst(ctx, s, path, nil, progress)
	for group, err := range groups {
		if err != nil {
			return first, unread, err
		}
		if err := t.read(ctx, group); err != nil {
			return first, unread, err
		}
		for i := range group {
			v := &group[i]
			if n := t.in(v); !unread.skip(v, n) && n > 0 {
				return *v, unread, nil
			}
		}
	}
	return first, unread, fmt.Errorf("store %s: %w", s.Info().Slug, ErrNeverSaid)
}

// oldestFirst yields the versions at and below a path in groups, the oldest first. Where it walks
// over the commits for that, each, unless nil, is called with every one.
func oldestFirst(ctx context.Context, s *memory.Store, path string, each func(*versionlog.Commit), progress func(done, total int)) iter.Seq2[[]versionlog.Version, error] {
	return func(yield func([]versionlog.Version, error) bool) {
		if path != "/" {
			var history []versionlog.Version
			for v, err := range Versions(ctx, s, path) {
				if errors.Is(err, versionlog.ErrNotFound) {
					break
				}
				if err != nil {
					yield(nil, err)
					return
				}
				history = append(history, v)
			}
			if len(history) > 0 {
				yieldBackward(history, yield)
				return
			}
		}
		tip, err := s.Tip(ctx)
		if err != nil {
			yield(nil, err)
			return
		}
		var group []versionlog.Version
		for c, err := range s.Commits(ctx, 0) {
			if err != nil {
				yield(nil, err)
				return
			}
			if each != nil {
				each(c)
			}
			for _, v := range c.Versions {
				if !v.IsDir() && (v.Redacted() && path == "/" || IsWithin(v.Path, path)) {
					group = append(group, v)
				}
			}
			if len(group) >= searchGroup {
				if !yield(group, nil) {
					return
				}
				group = group[:0]
			}
			if progress != nil {
				progress(int(c.Seq), int(tip.Seq))
			}
		}
		yield(group, nil)
	}
}

// yieldBackward yields versions in groups, the last one first.
func yieldBackward(versions []versionlog.Version, yield func([]versionlog.Version, error) bool) {
	for end := len(versions); end > 0; {
		start := max(0, end-searchGroup)
		group := make([]versionlog.Version, 0, end-start)
		for i := end - 1; i >= start; i-- {
			group = append(group, versions[i])
		}
		if !yield(group, nil) {
			return
		}
		end = start
	}
}

// IsWithin reports whether a version's path is a directory, of which prefix is the path
// without a slash at its end, or in it, or the path itself; "/" is the whole store.
func IsWithin(path, prefix string) bool {
	rest, ok := strings.CutPrefix(path, strings.TrimSuffix(prefix, "/"))
	return ok && (rest == "" || rest[0] == '/')
}

// StillSay yields the live memories at and below a path that hold a text, in the order of
// their paths, and behind them the memory of an id, if it has moved elsewhere; "" is none.
// Unread counts those that cannot be searched.
func StillSay(ctx context.Context, s *memory.Store, path, memoryID, text string, unread *Unread) iter.Seq2[versionlog.Version, error] {
	return func(yield func(versionlog.Version, error) bool) {
		t := newTextCounter(s, text)
		var group []versionlog.Version
		flush := func() bool {
			if err := t.read(ctx, group); err != nil {
				yield(versionlog.Version{}, err)
				return false
			}
			for i := range group {
				v := &group[i]
				if n := t.in(v); !unread.skip(v, n) && n > 0 && !yield(*v, nil) {
					return false
				}
			}
			group = group[:0]
			return true
		}
		for v, err := range s.Heads(ctx, path) {
			if err != nil {
				yield(v, err)
				return
			}
			if group = append(group, v); len(group) == searchGroup && !flush() {
				return
			}
		}
		if memoryID != "" {
			v, err := s.Log().Newest(ctx, s.Info().ID, memoryID)
			switch {
			case err != nil:
				yield(v, err)
				return
			case v.Live() && !IsWithin(v.Path, path):
				group = append(group, v)
			}
		}
		flush()
	}
}

// parentLookups is how many parents are asked of a remote log at once.
const parentLookups = 16

// parents returns the versions that versions replaced, by their ids. One that the log does not
// have is missing.
func parents(ctx context.Context, s *memory.Store, versions []versionlog.Version) (map[string]*versionlog.Version, error) {
	found := map[string]*versionlog.Version{}
	for i := range versions {
		found[versions[i].ID] = &versions[i]
	}
	var wanted []string
	for _, v := range versions {
		if _, known := found[v.Parent]; !known && v.Parent != "" {
			found[v.Parent] = nil
			wanted = append(wanted, v.Parent)
		}
	}
	slots := 1
	if !s.Near() {
		slots = parentLookups
	}
	var (
		work sync.WaitGroup
		mu   sync.Mutex // guards found and failed
		fail error
		next = make(chan string)
	)
	for range min(slots, len(wanted)) {
		work.Go(func() {
			for id := range next {
				v, err := s.Log().Version(ctx, s.Info().ID, id)
				mu.Lock()
				switch {
				case err == nil:
					found[id] = &v
				case !errors.Is(err, versionlog.ErrNotFound):
					fail = err
				}
				mu.Unlock()
			}
		})
	}
	for _, id := range wanted {
		next <- id
	}
	close(next)
	work.Wait()
	return found, fail
}
