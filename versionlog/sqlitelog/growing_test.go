package sqlitelog

import (
	"fmt"
	"testing"
)

// TestPagesGrow has a walk read few rows where its caller soon has enough, and large pages later.
func TestPagesGrow(t *testing.T) {
	var sizes []int
	n := 0
	for row, err := range growing(2, 100, func(last *int, room []int, size int) ([]int, error) {
		sizes = append(sizes, size)
		for room = room[:0]; len(room) < size && n < 250; n++ {
			room = append(room, n)
		}
		return room, nil
	}) {
		if err != nil || row < 0 {
			t.Fatal(err)
		}
	}
	if got := fmt.Sprint(sizes, n); got != "[2 16 100 100 100] 250" {
		t.Error(got)
	}
}
