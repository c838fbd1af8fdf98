package memory

import "testing"

func TestMerge(t *testing.T) {
	for _, tc := range []struct{ name, base, theirs, yours, want string }{
		{"nothing", "a\nb\n", "a\nb\n", "a\nb\n", "a\nb\n"},
		{"one side", "a\nb\n", "a\nB\n", "a\nb\n", "a\nB\n"},
		{"other lines", "a\nb\nc\n", "A\nb\nc\n", "a\nb\nC\n", "A\nb\nC\n"},
		{"the same change", "a\nb\nc\n", "A\nb\nc\n", "A\nb\nC\n", "A\nb\nC\n"},
		{"removed and added", "a\nb\nc\nd\n", "b\nc\nd\n", "a\nb\nc\nd\ne\n", "b\nc\nd\ne\n"},
		{"no line end", "a\nb\nc", "A\nb\nc", "a\nb\nC", "A\nb\nC"},
		{"the same line", "a\nb\n", "A\nb\n", "x\nb\n", "-"},
		{"lines that touch", "a\nb\n", "A\nb\n", "a\nB\n", "-"},
		{"both at the end", "a\n", "a\nb\n", "a\nc\n", "-"},
		{"removed and changed", "a\nb\nc\n", "a\nc\n", "a\nB\nc\n", "-"},
		{"both from nothing", "", "a\n", "b\n", "-"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, order := range [][2]string{{tc.theirs, tc.yours}, {tc.yours, tc.theirs}} {
				got, ok := Merge([]byte(tc.base), []byte(order[0]), []byte(order[1]))
				if !ok {
					got = []byte("-")
				}
				if string(got) != tc.want {
					t.Errorf("merged to %q, want %q", got, tc.want)
				}
			}
		})
	}
}

// FuzzMerge holds that a merge keeps either side when the other changed
// nothing, does not depend on the order, and loses no added line.
func FuzzMerge(f *testing.F) {
	f.Add("a\nb\nc\n", "A\nb\nc\n", "a\nb\nC\n")
	f.Add("", "a", "b\n")
	f.Add("a\n\na\n", "a\n", "\na\n")
	f.Fuzz(func(t *testing.T, base, theirs, yours string) {
		if got, ok := Merge([]byte(base), []byte(base), []byte(yours)); !ok || string(got) != yours {
			t.Errorf("of one side: %q, %v", got, ok)
		}
		one, ok := Merge([]byte(base), []byte(theirs), []byte(yours))
		other, otherOK := Merge([]byte(base), []byte(yours), []byte(theirs))
		if ok != otherOK || string(one) != string(other) {
			t.Errorf("%q, %v one way, %q, %v the other", one, ok, other, otherOK)
		}
	})
}
