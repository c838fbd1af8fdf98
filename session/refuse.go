package session

import (
	"context"

	"mneme/memory"
)

// Refuse refuses a text for a path that was made from base, where another session has put theirs
// since; nil is that it has removed or renamed the memory. The text is kept, the journal says so,
// and the next change at the path is refused again until it is read. A text that is refused twice
// in a row is kept once. Refuse is for a face that makes texts from earlier reads.
func (s *Session) Refuse(ctx context.Context, path string, base, theirs *memory.Head, yours []byte) *LostError {
	s.known.Update(path, func(k Knowledge) Knowledge {
		if !k.IsKnown() {
			k = Of(base)
		}
		return k.Refused()
	})
	return s.lostError(ctx, &Loss{Path: path, Base: base, Theirs: theirs, Yours: yours, Once: true})
}
