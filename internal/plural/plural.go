// Package plural writes numbers of things for people.
package plural

import (
	"fmt"
	"strings"
)

// Of counts things: 1 file, 2 files, 2 memories, 2 days.
func Of[N int | int64 | uint64](n N, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	if stem, isY := strings.CutSuffix(thing, "y"); isY && !strings.HasSuffix(stem, "a") {
		return fmt.Sprintf("%d %sies", n, stem)
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
