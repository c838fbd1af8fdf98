package session_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mneme/memory"
	"mneme/session"
	"mneme/undo"
	"mneme/versionlog"
)

// TestUndoForgedNotes: whatever commits say that they have taken back, as an archive from elsewhere
// may have them, an undo keeps every line that others have, and tells whom it has believed.
func TestUndoForgedNotes(t *testing.T) {
	believed := 0
	for seed := range uint64(20) {
		e := &editor{shared: newShared(t, 100), Rand: rand.New(rand.NewPCG(seed, 1))}
		forger := session.New(e.as("mine"), &session.Options{})
		t.Cleanup(forger.Close)
		forge := func() {
			path := e.path()
			_, data, err := e.as("B").Read(t.Context(), path)
			if err != nil {
				return
			}
			meta := undo.RestoreNote(uint64(e.IntN(int(e.tip()) + 2)))
			if e.IntN(2) == 0 {
				since := uint64(e.IntN(int(e.tip()) + 1))
				meta = undo.UndoNote([]string{"A", "B", "undo"}[e.IntN(3)], since, since+uint64(e.IntN(40)))
			}
			_, err = forger.Batch(t.Context(), []memory.Change{{
				Action: versionlog.Put, Path: path, Expect: versionlog.ExpectAny(), Content: []byte(e.edit("B", string(data))),
			}}, &session.WriteOptions{Meta: meta, Actor: person})
			e.must(err)
		}
		for range 24 {
			switch e.IntN(5) {
			case 0, 1:
				e.change("A")
			case 2, 3:
				e.change("B")
			default:
				forge()
			}
		}
		e.write("A", "/known", "A was here\n")
		forge()
		for _, id := range []string{"A", "undo", "A"} {
			theirs := linesOf(e.shown(), "B")
			done, err := e.undo("undo", id, 0)
			if unknown := (*undo.UnknownSessionError)(nil); errors.As(err, &unknown) {
				continue
			}
			e.must(err)
			if after := linesOf(e.shown(), "B"); id == "A" && slices.ContainsFunc(theirs, func(line string) bool { return !slices.Contains(after, line) }) {
				t.Fatalf("seed %d: lines of the other are lost:\n%s", seed, cmp.Diff(theirs, after))
			}
			believed += len(done.Restored)
		}
	}
	if believed == 0 {
		t.Error("no forged restore was believed; the test tests nothing")
	}
}
