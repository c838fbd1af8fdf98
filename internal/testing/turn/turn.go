// Package turn divides tests that are long between the runs of CI.
package turn

import (
	"os"
	"strconv"
)

// Variable is the environment variable with the number of a run, which CI counts up from one commit
// to the next. Without it a run tries everything.
const Variable = "MNEME_TURN"

// Number is that of this run; 0: it tries everything.
func Number() int {
	n, _ := strconv.Atoi(os.Getenv(Variable)) // 0: not given
	return max(0, n)
}

// Due reports whether this run tries part i of n parts, of which each run has one.
func Due(i, n int) bool { return Number() == 0 || (i+Number())%n == 0 }

// Share returns which of n numbers this run tries, of which each run has one of so many parts: count of
// them from first on.
func Share(n, parts int) (first, count int) {
	if Number() == 0 {
		return 0, n
	}
	count = n / parts
	return Number() % parts * count, count
}
