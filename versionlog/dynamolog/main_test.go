package dynamolog

import (
	"fmt"
	"os"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if args := os.Getenv(childVariable); args != "" {
		fmt.Fprintln(os.Stderr, child(args))
		os.Exit(1)
	}
	commitsAtOnce = 7
	firstPause = 2 * time.Millisecond
	os.Exit(m.Run())
}
