package history

import (
	"context"
	"iter"
	"slices"
	"strings"
	"time"

	"mneme/memory"
	"mneme/versionlog"
)

// Query takes some versions of a store: those of which all holds that it asks for. A field
// that is zero asks for nothing.
type Query struct {
	Session  string
	Actor    string    // its id, or kind and id as Actor.String has them
	From, To time.Time // made in between, or then
	Op       versionlog.Op
	Text     string // that the version added or removed: what it replaced has it more or less often

	// Unread, unless nil, counts versions that Text might match, whose content or replaced
	// content could not be read.
	Unread *Unread
	// Progress, unless nil, is called with how many of how many commits were looked at for Text.
	Progress func(done, total int)
}

// Entry is a step of a history: the versions of one commit that a query takes.
type Entry struct {
	Commit   *versionlog.Commit // nil where the history is one of a memory
	Versions []versionlog.Version
}

// seq is the sequence number of the entry's commit.
func (e *Entry) seq() uint64 {
	if e.Commit != nil {
		return e.Commit.Seq
	}
	return e.Versions[0].Seq
}

// filter returns what a log can see to by itself.
func (q *Query) filter() versionlog.Filter {
	_, id := splitActor(q.Actor)
	return versionlog.Filter{Session: q.Session, ActorID: id, From: q.From, To: q.To, Op: q.Op}
}

// splitActor returns the kind and id of an actor; the kind may be missing.
func splitActor(text string) (kind versionlog.ActorKind, id string) {
	before, after, ok := strings.Cut(text, ":")
	switch kind := versionlog.ActorKind(before); kind {
	case versionlog.ActorSession, versionlog.ActorUser, versionlog.ActorAPIKey, versionlog.ActorServiceAccount:
		if ok {
			return kind, after
		}
	}
	return "", text
}

// takes reports whether the query takes a version, but for its text.
func (q *Query) takes(v *versionlog.Version) bool {
	kind, id := splitActor(q.Actor)
	return (q.Session == "" || v.Session == q.Session) && (id == "" || v.Actor.ID == id) && (kind == "" || v.Actor.Kind == kind) &&
		!v.Time.Before(q.From) && (q.To.IsZero() || !v.Time.After(q.To)) && (q.Op == "" || v.Op == q.Op)
}

// takesEvent reports whether the query takes a commit that is an event.
func (q *Query) takesEvent(c *versionlog.Commit) bool {
	kind, _ := splitActor(q.Actor)
	return c.Event != nil && q.Op == "" && q.Text == "" && (kind == "" || c.Actor.Kind == kind)
}

// LogDir yields the versions at a path and below it that q takes, newest first, as their commits
// have them; of "/" also the events of the store.
func LogDir(ctx context.Context, s *memory.Store, path string, q Query) iter.Seq2[Entry, error] {
	return ofText(ctx, s, q, func(yield func(Entry, error) bool) {
		for c, err := range s.CommitsBefore(ctx, 0, q.filter()) {
			if err != nil {
				yield(Entry{}, err)
				return
			}
			e := Entry{Commit: c}
			for i := range c.Versions {
				v := &c.Versions[i]
				if q.takes(v) && (path == "/" || !v.Redacted() && (IsWithin(v.Path, path) || IsWithin(v.From, path))) {
					e.Versions = append(e.Versions, *v)
				}
			}
			if (len(e.Versions) > 0 || path == "/" && q.takesEvent(c)) && !yield(e, nil) {
				return
			}
		}
	})
}

// LogMemory yields those of the versions that History does which q takes, newest first, from a
// sequence number on; 0 is from the newest on. versionlog.ErrNotFound.
func LogMemory(ctx context.Context, s *memory.Store, path string, from uint64, q Query) iter.Seq2[Entry, error] {
	return ofText(ctx, s, q, func(yield func(Entry, error) bool) {
		for v, err := range Versions(ctx, s, path) {
			if err == nil && v.Time.Before(q.From) {
				return
			}
			if err == nil && (from != 0 && v.Seq > from || !q.takes(&v)) {
				continue
			}
			if !yield(Entry{Versions: []versionlog.Version{v}}, err) || err != nil {
				return
			}
		}
	})
}

// ofText yields the versions that added or removed the text of a query; all, if it asks for
// none. It reads few entries before it yields the first one.
func ofText(ctx context.Context, s *memory.Store, q Query, entries iter.Seq2[Entry, error]) iter.Seq2[Entry, error] {
	if q.Text == "" {
		return entries
	}
	return func(yield func(Entry, error) bool) {
		t := &textChanges{textCounter: newTextCounter(s, q.Text), unread: q.Unread, skipped: map[string]bool{}}
		if t.unread == nil {
			t.unread = &Unread{}
		}
		var group []Entry
		versions, first := 0, uint64(0)
		flush := func() bool {
			changed, err := t.among(ctx, group)
			if n := len(group); n > 0 && q.Progress != nil {
				first = max(first, group[0].seq())
				q.Progress(int(first-group[n-1].seq())+1, int(first))
			}
			for _, e := range changed {
				if !yield(e, nil) {
					return false
				}
			}
			group, versions = nil, 0
			return err == nil || yield(Entry{}, err) && false
		}
		for e, err := range entries {
			if err != nil {
				if flush() {
					yield(e, err)
				}
				return
			}
			group = append(group, e)
			if versions += len(e.Versions); versions >= searchGroup && !flush() {
				return
			}
		}
		flush()
	}
}

// textChanges finds the versions that added or removed a text.
type textChanges struct {
	*textCounter
	unread  *Unread
	skipped map[string]bool // ids of versions that unread counts
}

// among returns the entries with their versions that added or removed the text.
func (t *textChanges) among(ctx context.Context, entries []Entry) (changed []Entry, err error) {
	var versions []versionlog.Version
	for _, e := range entries {
		versions = append(versions, e.Versions...)
	}
	parents, err := parents(ctx, t.s, versions)
	if err == nil {
		err = t.read(ctx, versions)
	}
	if err != nil {
		return nil, err
	}
	var older []versionlog.Version
	for _, p := range parents {
		if p != nil {
			older = append(older, *p)
		}
	}
	if err := t.read(ctx, older); err != nil {
		return nil, err
	}
	for _, e := range entries {
		var kept []versionlog.Version
		for i := range e.Versions {
			is, err := t.is(ctx, &e.Versions[i], parents[e.Versions[i].Parent])
			if err != nil {
				return changed, err
			}
			if is {
				kept = append(kept, e.Versions[i])
			}
		}
		if len(kept) > 0 {
			changed = append(changed, Entry{e.Commit, slices.Clip(kept)})
		}
	}
	return changed, nil
}

// skip is Unread.skip, which counts a version once, also where it is the one before another.
func (t *textChanges) skip(v *versionlog.Version, count int) bool {
	if v != nil && t.skipped[v.ID] {
		return true
	}
	skipped := t.unread.skip(v, count)
	if skipped {
		t.skipped[v.ID] = true
	}
	return skipped
}

// is reports whether a version added or removed the text.
func (t *textChanges) is(ctx context.Context, v, parent *versionlog.Version) (bool, error) {
	if v.IsDir() || v.Op == versionlog.OpRenamed && (parent == nil || parent.Digest == v.Digest || parent.Redacted()) {
		return false, nil
	}
	now, before := t.in(v), t.in(parent)
	if t.skip(v, now) || t.skip(parent, before) {
		return false, nil
	}
	if now > 0 && v.Op == versionlog.OpCreated && v.Parent == "" { // a save that made a new memory of a file
		replaced, err := replacedMemory(ctx, t.s, *v)
		if err != nil {
			return false, err
		}
		if replaced != nil {
			if err := t.read(ctx, []versionlog.Version{*replaced}); err != nil {
				return false, err
			}
			if before = t.in(replaced); t.skip(replaced, before) {
				return false, nil
			}
		}
	}
	return now != before, nil
}
