package fusefs

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// TestSetLen: on the heap, in a mapping and on the way between them, a stage holds what
// was written to it, and zeros elsewhere.
func TestSetLen(t *testing.T) {
	r := newRig(t, "/f")
	r.must(r.s.tree.Walk(t.Context()))
	fs, n := r.fs, r.s.tree.FindLocked("/f")
	st := &stage{writers: 1}
	random := rand.New(rand.NewPCG(1, 0))
	sizes := []int{0, 1, 4000, mapFrom - 1, mapFrom, mapFrom + 1, 2 * mapStep, 2*mapStep + 1, 5 * mapStep}
	var want []byte
	for i := range 300 {
		size := sizes[random.IntN(len(sizes))]
		if err := st.setLenLocked(size); err != nil {
			t.Fatal(err)
		}
		fs.accountStageLocked(n, st)
		want = append(want, make([]byte, max(0, size-len(want)))...)[:size]
		if !bytes.Equal(st.data, want) {
			t.Fatalf("after step %d, to %d bytes, the stage holds others", i, size)
		}
		if (st.mapping != nil) != (size > mapFrom) {
			t.Fatalf("%d bytes are in a mapping: %v", size, st.mapping != nil)
		}
		if size > 0 {
			at := random.IntN(size)
			st.data[at], want[at] = byte(i), byte(i)
			st.data[size-1], want[size-1] = byte(i), byte(i)
		}
	}
	st.writers = 0
	if fs.accountStageLocked(n, st); st.mapping != nil || fs.budget.held != 0 {
		t.Errorf("what has ended has a mapping: %v, and %d bytes count", st.mapping != nil, fs.budget.held)
	}
}
