package session

import (
	"context"
	"errors"

	"mneme/cas"
	"mneme/errkind"
	"mneme/memory"
	"mneme/versionlog"
)

// ErrUncommitted says that a text stays as it is, since it cannot be committed, and no caller has
// asked for that (SaveOptions.Unasked).
var ErrUncommitted = errkind.New(errkind.Conflict, "not committed: another session has changed the memory")

// Save makes a text the next version of its path, or fails with its bytes kept.
//
// # The life of a write
//
//  1. Claim: the path, so that no other save and no rename of it is under way, and then the
//     text's turn. If the path has moved meanwhile, it is claimed again.
//  2. Draft: the bytes to commit, and on top of which version. A draft whose reply was lost comes
//     first, as it was; then the bytes that were written since.
//  3. Judge, once per Save: a text that takes back a change which the session has only
//     read (see Change) is merged with it, or loses, as if it were based on the version
//     before.
//  4. Propose, under one key: "put this at this path, provided that Base is there".
//  5. The outcome. Accepted: the text is told (Text.Committed). Nothing to do: another session
//     wrote the same bytes, and the text is on that version; but two appends of one line must
//     give two lines, so that an append continues with 6. Not known: the draft keeps its key (see
//     pending), and the error says why. Final, and no conflict: the error; if a directory has
//     taken the path, or the store's policy holds them back, the bytes are kept.
//  6. Refused, as another session was faster: the text is told (Text.Met). An append goes to the
//     end of the current version; before each new try it waits for a random time that grows, and
//     a session that has just appended on top of another's version lets others go first
//     (takeTurn). If the session merges, changes to other lines are merged. Then it starts over
//     with 2. After 1,000 tries, or 50 for one and the same version, it continues with 7: then
//     the face and the log do not agree on what is there.
//  7. Lost: the written text, its base and the version that is there instead are kept on disk.
//     The path is refused until the session has read it. Then, and not before, the caller gets a
//     *LostError.
//
// # Invariants
//
// One key: while the fate of a draft is not known, no other of its text is proposed, and
// nothing renames or removes its path (Settle).
//
// Known base: Base is the version that the session knows to be there or, where it knows nothing,
// the version that was there when it began to write.
//
// Bytes before the error: when Save returns a *LostError, the bytes are on disk, or its
// Conflict says that they could not be kept.
//
// No conflict with itself: two saves of one path do not overlap, and a commit of the
// session's own that turns up late is told to its text, not taken for another session's.
//
// Settled once: a draft is told to be committed by its Save or by the follower, never by
// both.
//
// # What was tried before
//
// Reading the head right before the commit, instead of naming the version that the writer knew:
// two sessions that read, think and write then overwrite each other, which a versioned memory
// must prevent. A lock for all commits of a store, with renames as its writers: the close of
// every file waited for the slowest rename; so claims are of paths. The text's turn before its
// claims: a save that waits for a rename of its path holds what the rename needs to settle that
// very text. A commit at every write: a program that writes in parts makes versions that it did
// not mean. Giving a draft up when its reply is lost: the next try conflicts with the session's
// own commit.
func (s *Session) Save(ctx context.Context, t Text, opts *SaveOptions) error {
	w := &saving{}
	if opts != nil {
		w.SaveOptions = *opts
	}
	for {
		again, err := s.saveInTurn(ctx, t, w)
		if !again {
			return err
		}
	}
}

// saving is how far one Save has come.
type saving struct {
	SaveOptions
	claims  []Claim // that are held
	asked   int     // how often claims were asked for
	room    [2][2]Claim
	try     int
	refused refusals
	decided string // the path at which the log has just said what is there; ""
	judged  bool
	back    bool   // the text was merged, since it would have taken a change back
	message string // of the next commit: that it is a merge
}

// saveInTurn takes the claim and the text's turn. It reports that the path has moved, so that
// they must be taken again.
func (s *Session) saveInTurn(ctx context.Context, t Text, w *saving) (again bool, err error) {
	if !w.Claimed {
		release, err := s.claims.Take(ctx, func() []Claim {
			w.asked++
			w.claims = s.claimsOf(t, w.room[w.asked%2][:0]) // what was asked before is being compared with that
			return w.claims
		})
		if err != nil {
			return false, err
		}
		defer release()
	}
	end, err := t.Turn().Take(ctx)
	if err != nil {
		return false, err
	}
	defer end()
	return s.saveClaimed(ctx, t, w)
}

// claimsOf returns the claims of the save of a text: the path where it must go, and the path for
// which its lost reply was. It uses the room of claims.
func (s *Session) claimsOf(t Text, claims []Claim) []Claim {
	path := t.Path()
	if path != "" {
		claims = append(claims, Claim{Path: path})
	}
	if d := s.lostDraft(t); d != nil && d.Path != path {
		claims = append(claims, Claim{Path: d.Path})
	}
	return claims
}

func (s *Session) saveClaimed(ctx context.Context, t Text, w *saving) (again bool, err error) {
	for ; ; w.try++ {
		d, err := s.nextDraft(t, w)
		switch {
		case d == nil:
			return false, err
		case d.Aside != nil:
			return false, d.Aside(ctx)
		case !w.Claimed && d.Path != "" && !covers(w.claims, d.Path):
			return true, nil
		case d.Lost && !d.Append && d.Theirs != nil && d.Theirs.Digest() == cas.Sum(d.Data):
			t.Committed(d, d.Theirs.Version(), nil) // another session wrote the very same bytes
			return false, nil
		}
		if done, err := s.saveDraft(ctx, t, d, w); done || err != nil {
			return false, err
		}
	}
}

// saveDraft judges a draft and proposes it. It reports whether the save has ended. If it has not, the
// text's next draft is the next try.
func (s *Session) saveDraft(ctx context.Context, t Text, d *Draft, w *saving) (done bool, err error) {
	if d.Append && w.try == 0 {
		s.takeTurn(ctx, d.Path)
	}
	if merged, err := s.judge(ctx, t, d, w); merged || err != nil {
		return false, err
	}
	if !d.Lost {
		resumed := d.resumed
		err := t.Beside(d, func() error { return s.propose(ctx, t, d) })
		if err == nil {
			if resumed { // now the text that was written since
				w.message = ""
			}
			return !resumed, nil
		}
		if err := s.refusedBy(ctx, t, d, w, err); err != nil {
			return false, err
		}
		if resumed && t.Path() != d.Path { // it is not in the log, and another session has moved the path since
			return false, nil
		}
	}
	var ok bool
	if w.message, ok = s.rebase(ctx, t, d, w.try); !ok {
		return true, s.lose(ctx, t, d, nil, w)
	}
	if w.decided = ""; !d.Lost {
		w.decided = d.Path
	}
	return false, nil
}

// nextDraft returns the next draft to commit: the draft whose reply was lost, if there is one.
func (s *Session) nextDraft(t Text, w *saving) (*Draft, error) {
	if d := s.lostDraft(t); d != nil {
		return d, nil
	}
	d, err := t.Draft(w.decided)
	if d == nil {
		return nil, err
	}
	if d.Key == "" {
		d.Key = versionlog.NewKey()
	}
	d.message, d.back = w.message, w.back
	return d, nil
}

// judge returns an error if a draft takes a change back, and has lost. If it could be
// merged with that change, the next draft is the merged text.
func (s *Session) judge(ctx context.Context, t Text, d *Draft, w *saving) (merged bool, err error) {
	if d.Lost || d.resumed || w.judged {
		return false, nil
	}
	w.judged = true
	change := s.takenBack(ctx, d)
	if change == nil {
		return false, nil
	}
	if w.message, w.back = s.mergeBack(ctx, t, d, change); w.back {
		return true, nil
	}
	return false, s.lose(ctx, t, d, change, w)
}

// refusedBy returns the error with which a save ends whose commit has ended with err; nil if the
// draft was refused and may be tried again: then the text knows which version is there.
func (s *Session) refusedBy(ctx context.Context, t Text, d *Draft, w *saving, err error) error {
	theirs, refused := versionlog.ConflictAt(err, d.Path)
	if !refused {
		if w.Unasked {
			return err
		}
		if errors.Is(err, versionlog.ErrOverlap) {
			s.Keep(ctx, Loss{Path: d.Path, Base: d.Base, Yours: d.Data, Why: err.Error()})
		}
		return s.keepIfHeld(ctx, err, d.Path, d.Data, func() (*memory.Head, error) { return d.Base, nil }, nil)
	}
	d.Theirs = memory.NewHead(theirs)
	if w.refused.stuck(d.Theirs) {
		return s.lose(ctx, t, d, nil, w)
	}
	t.Met(d, theirs)
	return nil
}

// Lose keeps a text that has lost before any caller has asked to save it, and returns the
// *LostError: a program whose writes will not be committed hears of it with the first of them. It
// waits for the text's turn.
func (s *Session) Lose(ctx context.Context, t Text) error {
	end, err := t.Turn().Take(ctx)
	if err != nil {
		return err
	}
	defer end()
	return s.keepLost(ctx, t, t.Lost(nil))
}

// lose ends a save that has lost, with the bytes kept. change is what they would have
// taken back, nil where that is not why.
func (s *Session) lose(ctx context.Context, t Text, d *Draft, change *Change, w *saving) error {
	if w.Unasked {
		return ErrUncommitted
	}
	l := t.Lost(d)
	l.Theirs, l.Change = d.Theirs, change
	if change != nil && d.Base == nil { // nothing is there to be read: the next write is meant
		s.known.Update(d.Path, func(Knowledge) Knowledge { return Nothing() })
	}
	if change != nil {
		l.Base, l.Theirs = change.Under(d.Base), d.Base
	}
	return s.keepLost(ctx, t, l)
}

func (s *Session) keepLost(ctx context.Context, t Text, l Loss) error {
	lost := s.lostError(ctx, &l)
	t.Kept(l)
	return lost
}

// Loses notes that a text for a path has lost, which was to replace base. Text.Lost calls it,
// with the lock of the face held.
func (s *Session) Loses(path string, base *memory.Head) {
	s.known.Update(path, func(k Knowledge) Knowledge {
		if !k.IsKnown() {
			k = Of(base) // so that the same write, repeated, fails again
		}
		return k.Refused()
	})
}

// Holds notes that v holds a draft. Text.Committed calls it, with the lock of the face
// held. After an append, or a merge, the session may not know all that v holds.
func (s *Session) Holds(d *Draft, v *memory.Head) {
	s.Wrote(d.Path)
	s.known.Update(v.Path(), func(k Knowledge) Knowledge {
		switch head := k.Head(); {
		case d.Unchanged:
		case head != nil && head.Seq() > v.Seq(): // read since
			return k
		case d.Append:
			k = k.Appended(v, d.Base)
		case d.Merged():
			k = k.Merged(v, d.Base)
		default:
			k = k.Wrote(v)
		}
		if d.back {
			k = k.Refused()
		}
		return k
	})
}
