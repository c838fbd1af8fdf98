package dynamolog

import (
	"flag"
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
	// Every step of the suite's state machine is several requests to a server;
	// the other logs draw as many histories as rapid wants.
	if err := flag.Set("rapid.checks", "12"); err != nil {
		panic(err)
	}
	commitsAtOnce = 7
	firstPause = 2 * time.Millisecond
	os.Exit(m.Run())
}
