package history

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestMatchLines(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want []int
	}{
		{"", "", nil},
		{"", "x\n", []int{-1}},
		{"x\n", "", nil},
		{"a\nb\nc\n", "a\nb\nc\n", []int{0, 1, 2}},
		{"a\nb\nc\n", "a\nx\nc\n", []int{0, -1, 2}},
		{"a\nb\n", "x\na\nb\ny\n", []int{-1, 0, 1, -1}},
		{"a\nb", "a\nb\n", []int{0, -1}},
		{"a\r\nb\n", "a\nb\n", []int{-1, 1}},
	} {
		if got := matchLines(splitLines([]byte(c.a)), splitLines([]byte(c.b))); !slices.Equal(got, c.want) {
			t.Errorf("%q to %q: %v, want %v", c.a, c.b, got, c.want)
		}
	}
}

// TestMatchLinesFindsAllInMuchThatDiffers: lines that stayed are found among hundreds that did
// not, where an exact comparison would be given up.
func TestMatchLinesFindsAllInMuchThatDiffers(t *testing.T) {
	var a, b []string
	kept := 0
	for i := range 3000 {
		if i%3 == 0 {
			line := fmt.Sprintf("kept %d\n", i)
			a, b, kept = append(a, line), append(b, line), kept+1
			continue
		}
		a, b = append(a, fmt.Sprintf("old %d\n", i)), append(b, fmt.Sprintf("new %d\n", i), "\n")
	}
	found := 0
	for i, was := range matchLines(a, b) {
		if was < 0 {
			continue
		}
		if found++; a[was] != b[i] {
			t.Fatalf("line %d is %q and was %q", i, b[i], a[was])
		}
	}
	if found != kept {
		t.Errorf("%d lines were found, of %d that stayed", found, kept)
	}
}

// TestMatchLinesIsAMatch: what matches is equal, and in order.
func TestMatchLinesIsAMatch(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	text := func() (lines []string) {
		for range random.IntN(400) {
			lines = append(lines, strings.Repeat("x", random.IntN(1+random.IntN(60)))+"\n")
		}
		return lines
	}
	for range 200 {
		a, b := text(), text()
		last := -1
		for i, was := range matchLines(a, b) {
			if was < 0 {
				continue
			}
			if was <= last || a[was] != b[i] {
				t.Fatalf("line %d was %d, after %d", i, was, last)
			}
			last = was
		}
	}
}
