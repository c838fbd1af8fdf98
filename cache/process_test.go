package cache

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"

	"mneme/cas"
	"mneme/cas/memcas"
)

// childEnv makes the test binary a process that reads through a cache in the
// directory that it names.
const childEnv = "MNEME_CACHE_CHILD"

const (
	childBlobs = 40
	childLimit = 16 * block
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		if err := readForEver(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// readForEver reads one blob after the other and prints a line for each, until
// it is killed. More blobs than fit make every read evict sooner or later.
func readForEver(dir string) error {
	next := memcas.New()
	c, err := New(next, &Options{MemoryBytes: -1, Dir: dir, DiskBytes: childLimit})
	if err != nil {
		return err
	}
	for i := 0; ; i++ {
		d, err := next.Put(context.Background(), sized(i*7%childBlobs, block))
		if err != nil {
			return err
		}
		data, err := c.Get(context.Background(), d)
		if err != nil || cas.Sum(data) != d {
			return fmt.Errorf("get of blob %d: %d bytes, %w", i, len(data), err)
		}
		fmt.Println(i)
	}
}

// TestKilledProcesses kills processes that fill one directory at once. The bound
// holds, the ledger is never too low, and what they left can be read.
func TestKilledProcesses(t *testing.T) {
	dir := t.TempDir()
	for round := range 4 {
		var wg sync.WaitGroup
		for child := range 3 {
			wg.Go(func() {
				if err := runAndKill(dir, 60+31*round+17*child); err != nil {
					t.Errorf("child: %v", err)
				}
			})
		}
		wg.Wait()
		checkLedger(t, dir, childLimit)
	}
	c, _ := diskOnly(t, dir, childLimit, childBlobs)
	for i := range childBlobs {
		get(t, c, i)
	}
	checkLedger(t, dir, childLimit)
	if s := c.Stats(); s.Corrupt != 0 || s.DiskErrors != 0 {
		t.Errorf("%+v", s)
	}
}

// runAndKill runs a child and kills it after n lines.
func runAndKill(dir string, n int) error {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if n--; n == 0 {
			if err := cmd.Process.Kill(); err != nil {
				return err
			}
		}
	}
	if err := cmd.Wait(); err == nil || err.Error() != "signal: killed" {
		return fmt.Errorf("ended with %v", err)
	}
	return lines.Err()
}
