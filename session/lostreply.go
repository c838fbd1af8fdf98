package session

import (
	"context"
	"maps"

	"mneme/memory"
	"mneme/versionlog"
)

// IsInDoubt reports whether the reply to a commit of a text was lost, and it is still not
// known what became of it.
func (s *Session) IsInDoubt(lost *LostReply) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return lost != nil && lost.draft != nil && lost.draft.resumed
}

// GiveUp says that no call will save a text again. Should its commit be in the log, it is the
// session's own all the same when it turns up.
func (s *Session) GiveUp(lost *LostReply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if lost != nil {
		lost.draft = nil
	}
}

// Doubts returns of how many commits of texts, and of names, it is not known whether they
// are in the log.
func (s *Session) Doubts() (texts, names int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.pending {
		switch {
		case one.makers > 0 || one.brought:
		case one.draft != nil:
			texts++
		default:
			names++
		}
	}
	return texts, names
}

// lostDraft returns the draft of a text whose reply was lost, or nil.
func (s *Session) lostDraft(t Text) *Draft {
	s.mu.Lock()
	defer s.mu.Unlock()
	if lost := t.LostReply(); lost != nil {
		return lost.draft
	}
	return nil
}

// begin notes that a commit is under way.
func (s *Session) begin(key string) *pending {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.beginLocked(key)
}

func (s *Session) beginLocked(key string) *pending {
	one := s.pending[key]
	if one == nil {
		one = &pending{key: key}
		s.pending[key] = one
	}
	one.makers++
	return one
}

// beginDraft notes that the commit of a draft is under way. It returns nil when the draft was
// proposed before, and is settled already: the follower has met it.
func (s *Session) beginDraft(t Text, d *Draft) *pending {
	s.mu.Lock()
	defer s.mu.Unlock()
	lost := t.LostReply()
	if lost == nil { // no call tries it again
		return s.beginLocked(d.Key)
	}
	if d.resumed && lost.draft != d {
		return nil
	}
	s.forgetGivenUpLocked()
	one := s.beginLocked(d.Key)
	one.text, one.draft, lost.draft = t, d, d
	return one
}

// forgetGivenUpLocked drops the drafts of texts that were given up, when there are many.
func (s *Session) forgetGivenUpLocked() {
	if len(s.pending) < maxLost {
		return
	}
	maps.DeleteFunc(s.pending, func(_ string, one *pending) bool {
		return one.makers == 0 && one.draft != nil && one.text.LostReply().draft != one.draft
	})
}

// end notes how a commit has ended. c is nil where it has made nothing.
func (s *Session) end(one *pending, c *versionlog.Commit, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if one.makers--; one.makers == 0 && one.done != nil {
		close(one.done)
		one.done = nil
	}
	isKnown := err == nil || memory.IsFinal(err)
	if one.draft != nil && isKnown {
		if lost := one.text.LostReply(); lost.draft == one.draft {
			lost.draft = nil
		}
	}
	switch {
	case err == nil && c != nil && len(c.Versions) > 0 && s.opts.Followed && c.Seq > s.met:
		one.brought, one.text, one.draft = true, nil, nil
	case isKnown:
		s.forgetLocked(one)
	case one.draft != nil:
		one.draft.resumed = true
	case s.opts.Followed:
		s.forgetNamesLocked()
	default:
		s.forgetLocked(one)
	}
}

func (s *Session) forgetLocked(one *pending) {
	if one.makers == 0 && !one.brought {
		delete(s.pending, one.key)
	}
}

// forgetNamesLocked drops the lost replies of commits of names, when there are many.
func (s *Session) forgetNamesLocked() {
	lost := func(_ string, one *pending) bool { return one.makers == 0 && one.draft == nil && !one.brought }
	n := 0
	for key, one := range s.pending {
		if lost(key, one) {
			n++
		}
	}
	if n > maxLost {
		maps.DeleteFunc(s.pending, lost)
	}
}

// Met is the meaning of a commit of the log for the session.
type Met struct {
	Again bool   // it is under way once more: await it first
	Own   bool   // its maker has brought it in already
	Text  Text   // not nil: its reply was lost; the face does what Text.Committed does, with its lock held
	Draft *Draft // of Text, which the commit's first version holds
	Named bool   // its reply was lost, and it is of names: bring it in as another's, then call Adopt
}

// AwaitOwn returns when no commit under a key is under way by this session. It reports
// false if ctx has ended first.
//
// A follower of the log calls it with each commit, in order, and then Meet with the
// face's lock held:
//
//	for {
//		if !session.AwaitOwn(ctx, c.Key) {
//			return
//		}
//		face.Lock()
//		if met = session.Meet(c); !met.Again {
//			break
//		}
//		face.Unlock()
//	}
//	… bring c in, as met says …
//	face.Unlock()
func (s *Session) AwaitOwn(ctx context.Context, key string) bool {
	for {
		done := s.ownEnd(key)
		if done == nil {
			return true
		}
		select {
		case <-done:
		case <-ctx.Done():
			return false
		}
	}
}

// ownEnd returns a channel that is closed when no commit under a key is under way any longer;
// nil: none is.
func (s *Session) ownEnd(key string) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.pending[key]
	if one == nil || one.makers == 0 {
		return nil
	}
	if one.done == nil {
		one.done = make(chan struct{})
	}
	return one.done
}

// Meet says what the next commit of the log means for the session, which has settled it then. See
// AwaitOwn.
func (s *Session) Meet(c *versionlog.Commit) Met {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.pending[c.Key]
	if one != nil && one.makers > 0 {
		return Met{Again: true}
	}
	s.met = c.Seq
	if one == nil {
		return Met{}
	}
	delete(s.pending, c.Key)
	switch {
	case one.brought:
		return Met{Own: true}
	case one.draft != nil:
		if lost := one.text.LostReply(); lost.draft == one.draft {
			lost.draft = nil
		}
		return Met{Text: one.text, Draft: one.draft}
	}
	return Met{Named: true}
}

// Adopt notes what the session knows by a commit of its own that was brought in as another
// session's. head returns the memory that is at a path now, as the face shows it. The face calls
// Adopt with its lock held.
//
// A session that merges does not know the result.
func (s *Session) Adopt(c *versionlog.Commit, head func(path string) *memory.Head) {
	for i := range c.Versions {
		v := &c.Versions[i]
		switch {
		case v.IsDir() || v.Redacted(): // the place of such a version is not known
		case v.Op == versionlog.OpRenamed:
			s.known.Freed(v.From, v.Seq)
		case v.Op == versionlog.OpDeleted:
			s.known.Freed(v.Path, v.Seq)
		case v.Message != "":
		default:
			if now := head(v.Path); now != nil && now.Is(v) {
				s.known.Update(v.Path, func(k Knowledge) Knowledge { return k.Wrote(now) })
			} else {
				s.known.Note(v.Path, Of(memory.NewHead(v)))
			}
		}
	}
}
