package session

import (
	"context"
	"fmt"
	"time"

	"mneme/memory"
)

// maxRebases bounds how often a save starts over. Each time another session has got
// something done.
const maxRebases = 1000

// maxAlike is how often a save may be refused in a row for one version. While others move
// things it is two or three times; more when the face differs from the log, and then no
// try helps.
const maxAlike = 50

// refusals are the tries of one save that were refused in a row for one version.
type refusals struct {
	version *memory.Head
	number  int
}

// stuck notes a refusal, and reports whether it is one too many.
func (r *refusals) stuck(theirs *memory.Head) bool {
	if theirs == nil || !memory.SameVersion(theirs, r.version) {
		*r = refusals{}
	}
	if theirs != nil {
		r.version = theirs
		r.number++
	}
	return r.number > maxAlike
}

// rebase puts a text whose draft was overtaken on top of the current version, if that can be
// done: an append goes to the end of it; changes to other lines are merged, if the session
// merges. It returns the message for the commit, and false when the write has lost.
func (s *Session) rebase(ctx context.Context, t Text, d *Draft, try int) (message string, ok bool) {
	theirs := d.Theirs
	if try >= maxRebases || !d.Append && !(s.opts.Merge && d.Base != nil && theirs != nil) {
		return "", false
	}
	var content []byte
	if theirs != nil {
		var err error
		if content, err = s.store.ContentOf(ctx, theirs); err != nil {
			return "", false
		}
	}
	if !d.Append {
		base, err := s.store.ContentOf(ctx, d.Base)
		if err != nil {
			return "", false
		}
		if content, ok = memory.Merge(base, content, d.Data); !ok {
			return "", false
		}
		message = mergeMessage(theirs, d.Base)
	}
	s.backOff(ctx, try)
	return message, t.Rebase(d, theirs, content)
}

// backOff waits before another try: not before the first, then for a random time that
// grows up to 20 milliseconds.
func (s *Session) backOff(ctx context.Context, try int) {
	if try > 0 {
		s.sleep(ctx, s.rand(min(time.Duration(try), 20)*time.Millisecond))
	}
}

// takenBack returns the newest change that a draft takes back; nil when there is none.
func (s *Session) takenBack(ctx context.Context, d *Draft) *Change {
	content := func(v *memory.Head) ([]byte, bool) {
		data, err := s.store.ContentOf(ctx, v)
		if err != nil {
			s.opts.Logger.Error("content to judge a write", "store", s.slug(), "path", v.Path(), "err", err)
		}
		return data, err == nil
	}
	change := TakenBack(d.Judge, d.Base, d.Data, content)
	if change == nil || !d.Mapped {
		return change
	}
	from, there := once(content)(change.Under(d.Base))
	to, toThere := content(change.To)
	if !there || !toThere || !memory.MadeOf(from, to, d.Data) {
		return nil
	}
	return change
}

// mergeBack merges a draft that takes a change back with what it was to replace, if the
// session merges and that can be done.
func (s *Session) mergeBack(ctx context.Context, t Text, d *Draft, change *Change) (message string, ok bool) {
	if !s.opts.Merge {
		return "", false
	}
	merged, ok := change.MergeBack(d.Base, d.Data, func(v *memory.Head) []byte { return s.content(ctx, v, "merge") })
	if !ok {
		return "", false
	}
	return mergeMessage(d.Base, change.Under(d.Base)), t.Rebase(d, d.Base, merged)
}

func mergeMessage(theirs, base *memory.Head) string {
	return fmt.Sprintf("merge of %s with what was written on top of %s", theirs.ID(), base.ID())
}

// contention is for how long a session that appended is expected to continue.
const contention = time.Second

// takeTurn waits before an append to a path, on average for as long as a commit takes,
// when others have appended to it just now.
func (s *Session) takeTurn(ctx context.Context, path string) {
	s.mu.Lock()
	last := s.appended
	s.mu.Unlock()
	if last.path == path && s.now().Sub(last.at) < contention {
		s.sleep(ctx, s.rand(2*last.took+1))
	}
}

// hadTurn notes the commit of a draft that began then.
func (s *Session) hadTurn(d *Draft, began time.Time) {
	b := d.Base
	if !d.Append || b == nil || b.Session() == s.opts.ID || began.Sub(b.Time()).Abs() >= contention {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	s.appended = appendedOn{path: d.Path, at: now, took: now.Sub(began)}
}
