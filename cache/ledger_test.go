package cache

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"mneme/cas"
)

// TestLedgerNotTrusted gives the directory ledgers that say nothing or come from
// before a crash: the files are counted.
func TestLedgerNotTrusted(t *testing.T) {
	for name, text := range map[string]string{
		"empty":      "",
		"no number":  "many " + bootID() + "\n",
		"negative":   "-5 " + bootID() + "\n",
		"other boot": fmt.Sprintf("%020d %s\n", 0, "d4c3b2a1-0000-0000-0000-000000000000"),
		"too high":   fmt.Sprintf("%020d %s\n", int64(1)<<62, bootID()),
		"gone":       "gone",
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			c, next := diskOnly(t, dir, 10*block, 20)
			for i := range 10 {
				get(t, c, i)
			}
			ledger := filepath.Join(dir, ledgerName)
			if err := os.WriteFile(ledger, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if text == "gone" {
				if err := os.Remove(ledger); err != nil {
					t.Fatal(err)
				}
			}
			get(t, c, 11)
			get(t, c, 11)
			wantGets(t, next, 11)
			if n := onDisk(t, dir); n > 10*block || n < 8*block || n != c.Stats().DiskBytes {
				t.Errorf("%d blocks on disk, ledger %d", n/block, c.Stats().DiskBytes/block)
			}
		})
	}
}

// TestLedgerHeldForEver: a process that is stopped while it fills the tier does
// not stop the reads of the others.
func TestLedgerHeldForEver(t *testing.T) {
	dir := t.TempDir()
	c, next := diskOnly(t, dir, 10*block, 100)
	l, err := lockLedger(rootAt(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	for i := range 100 {
		get(t, c, i)
	}
	if took := time.Since(start); took > 10*ledgerWait {
		t.Errorf("100 reads took %v", took)
	}
	l.unlock()
	c.disk.restUntil = time.Time{}
	get(t, c, 0)
	get(t, c, 0)
	wantGets(t, next, 101)
}

// TestLeftoverOfKilledFill leaves what a process leaves that is killed while it
// writes a file: the bound holds and the space is found again.
func TestLeftoverOfKilledFill(t *testing.T) {
	dir := t.TempDir()
	c, _ := diskOnly(t, dir, 4*block, 8)
	get(t, c, 0)
	l, err := lockLedger(rootAt(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	if err := l.record(4 * block); err != nil {
		t.Fatal(err)
	}
	l.unlock()
	if err := os.WriteFile(filepath.Join(dir, fillingName), sized(0, 3*block), 0o600); err != nil {
		t.Fatal(err)
	}
	get(t, c, 1)
	if n := onDisk(t, dir); n != 2*block || c.Stats().Evictions != 0 {
		t.Errorf("%d blocks on disk after %d evictions, want 2 and none", n/block, c.Stats().Evictions)
	}
}

// TestLeftoverWithoutLedger: files that no ledger accounts for are removed when the files
// are counted.
func TestLeftoverWithoutLedger(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, fillingName), sized(0, 3*block), 0o600); err != nil {
		t.Fatal(err)
	}
	diskOnly(t, dir, 4*block, 0)
	if n := onDisk(t, dir); n != 0 {
		t.Errorf("%d blocks on disk, want none", n/block)
	}
}

// TestTwoCaches fills one directory from two caches, as two processes do, while
// a third looks at it between any two fills.
func TestTwoCaches(t *testing.T) {
	const limit = 16 * block
	dir := t.TempDir()
	a, next := diskOnly(t, dir, limit, 60)
	b := newCache(t, next, &Options{MemoryBytes: -1, Dir: dir, DiskBytes: limit})
	var wg sync.WaitGroup
	for g, c := range []*Cache{a, b, a, b} {
		wg.Go(func() {
			for i := range 120 {
				n := (i*7 + g*15) % 60
				wantDataAsync(t, c, cas.Sum(sized(n, block)), sized(n, block))
			}
		})
	}
	done := make(chan struct{})
	go func() {
		wg.Wait()
		close(done)
	}()
	for running := true; running; {
		select {
		case <-done:
			running = false
		case <-time.After(time.Millisecond):
		}
		checkLedger(t, dir, limit)
	}
	for _, c := range []*Cache{a, b} {
		if s := c.Stats(); s.Corrupt != 0 {
			t.Errorf("%+v", s)
		}
	}
}

func rootAt(t *testing.T, dir string) *os.Root {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	return root
}

func checkLedger(t *testing.T, dir string, limit int64) {
	t.Helper()
	l, err := lockLedger(rootAt(t, dir))
	for errors.Is(err, errBusy) {
		l, err = lockLedger(rootAt(t, dir))
	}
	if err != nil {
		t.Fatal(err)
	}
	defer l.unlock()
	used, ok := l.used()
	if !ok {
		return // it is not filled yet
	}
	if n := onDisk(t, dir); n > limit || n > used {
		t.Errorf("%d blocks on disk, ledger %d, limit %d", n/block, used/block, limit/block)
	}
}

func TestLedgerLock(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, ledgerName)
	l, err := lockLedger(rootAt(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	if second, err := tryLock(rootAt(t, dir)); second != nil || err != nil {
		t.Errorf("a second lock was granted: %v, %v", second, err)
	}
	l.unlock()
	// A process that opened the ledger before it was removed gets no lock that
	// counts, also when another one has taken its place.
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if locked, err := lockFile(f, rootAt(t, dir)); locked || err != nil {
			t.Errorf("lock of a removed ledger: %v, %v", locked, err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
