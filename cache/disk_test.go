package cache

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"mneme/cas"
	"mneme/cas/memcas"
)

// diskOnly returns a cache without a memory tier, which reads the disk tier at
// every Get, over a store with n blobs of one block each.
func diskOnly(t *testing.T, dir string, limit int64, n int) (*Cache, *counting) {
	t.Helper()
	next := &counting{Store: memcas.New()}
	for i := range n {
		put(t, next, sized(i, block))
	}
	return newCache(t, next, &Options{MemoryBytes: -1, Dir: dir, DiskBytes: limit}), next
}

func get(t *testing.T, c *Cache, i int) {
	t.Helper()
	wantData(t, c, cas.Sum(sized(i, block)), sized(i, block))
}

// onDisk returns the space that all files below dir but the ledger take.
func onDisk(t *testing.T, dir string) (space int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || e.Name() == ledgerName {
			return err
		}
		info, err := e.Info()
		if err == nil {
			space += footprint(info.Size())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return space
}

func wantGets(t *testing.T, next *counting, want int64) {
	t.Helper()
	if n := next.gets.Swap(0); n != want {
		t.Errorf("%d Gets of the next store, want %d", n, want)
	}
}

func TestDiskLayout(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "cache")
	c, _ := diskOnly(t, dir, 10*block, 1)
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("New made the directory: %v", err)
	}
	get(t, c, 0)
	blob := filepath.Join(c.disk.dir.Path(), path(cas.Sum(sized(0, block))))
	for name, want := range map[string]fs.FileMode{
		dir:                            fs.ModeDir | 0o700,
		filepath.Dir(blob):             fs.ModeDir | 0o700,
		blob:                           0o600,
		filepath.Join(dir, ledgerName): 0o600,
	} {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode() != want {
			t.Errorf("mode of %s is %v, want %v", name, info.Mode(), want)
		}
	}
}

func TestDiskBound(t *testing.T) {
	const limit = 16 * block
	dir := t.TempDir()
	c, next := diskOnly(t, dir, limit, 100)
	for i := range 100 {
		get(t, c, i)
		if n := onDisk(t, dir); n > limit || n != c.Stats().DiskBytes {
			t.Fatalf("%d bytes on disk, ledger %d, limit %d", n, c.Stats().DiskBytes, limit)
		}
	}
	wantGets(t, next, 100)
	if s := c.Stats(); s.Evictions == 0 || s.DiskErrors != 0 {
		t.Errorf("%+v", s)
	}
	// Evicted blobs are served again, from the next store.
	for i := range 100 {
		get(t, c, i)
	}
	big := sized(0, limit+1)
	wantData(t, c, put(t, next, big), big)
	if n := onDisk(t, dir); n > limit {
		t.Errorf("%d bytes on disk after a blob above the limit", n)
	}
	exact := sized(0, limit)
	wantData(t, c, put(t, next, exact), exact)
	if n := onDisk(t, dir); n != limit {
		t.Errorf("%d bytes on disk after a blob as large as the limit", n)
	}
}

func TestLeastRecentlyUsedIsEvicted(t *testing.T) {
	dir := t.TempDir()
	c, next := diskOnly(t, dir, 8*block, 9)
	for i := range 8 {
		get(t, c, i)
		past := time.Now().Add(time.Duration(i-100) * time.Minute)
		if err := os.Chtimes(filepath.Join(c.disk.dir.Path(), path(cas.Sum(sized(i, block)))), past, past); err != nil {
			t.Fatal(err)
		}
	}
	get(t, c, 0) // the oldest, and now used
	wantGets(t, next, 8)
	get(t, c, 8)
	wantGets(t, next, 1)
	for _, i := range []int{0, 3, 4, 5, 6, 7, 8} {
		get(t, c, i)
	}
	wantGets(t, next, 0)
	get(t, c, 1)
	get(t, c, 2)
	wantGets(t, next, 2)
}

func TestLowerLimitTrims(t *testing.T) {
	dir := t.TempDir()
	c, next := diskOnly(t, dir, 100*block, 50)
	for i := range 50 {
		get(t, c, i)
	}
	newCache(t, next, &Options{Dir: dir, DiskBytes: 10 * block})
	if n := onDisk(t, dir); n > 10*block {
		t.Errorf("%d blocks on disk, want at most 10", n/block)
	}
}

func TestDamagedFile(t *testing.T) {
	for name, bad := range map[string][]byte{
		"empty": {}, "truncated": sized(0, block-1), "other": sized(1, block), "longer": sized(0, block+1),
	} {
		t.Run(name, func(t *testing.T) {
			c, next := diskOnly(t, t.TempDir(), 10*block, 1)
			get(t, c, 0)
			if err := os.WriteFile(filepath.Join(c.disk.dir.Path(), path(cas.Sum(sized(0, block)))), bad, 0o600); err != nil {
				t.Fatal(err)
			}
			get(t, c, 0)
			wantGets(t, next, 2)
			get(t, c, 0)
			wantGets(t, next, 0)
			if s := c.Stats(); s.Corrupt != 1 {
				t.Errorf("%d corrupt files counted, want 1", s.Corrupt)
			}
		})
	}
}

// TestUnusableDirectory: whatever is wrong with the directory, reads go on, and
// the tier works again when the directory does.
func TestUnusableDirectory(t *testing.T) {
	base := t.TempDir()
	dir := filepath.Join(base, "cache")
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c, next := diskOnly(t, dir, 10*block, 1)
	for range 3 {
		get(t, c, 0)
	}
	wantGets(t, next, 3)
	if s := c.Stats(); s.DiskErrors == 0 {
		t.Error("no disk error counted")
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	c.disk.restUntil = time.Time{}
	get(t, c, 0)
	get(t, c, 0)
	wantGets(t, next, 1)
}

func TestReadOnlyDirectory(t *testing.T) {
	dir := t.TempDir()
	c, next := diskOnly(t, dir, 10*block, 2)
	get(t, c, 0)
	// The temporary file cannot be written, also not by root.
	if err := os.Mkdir(filepath.Join(dir, fillingName), 0o700); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		get(t, c, 0)
		get(t, c, 1)
	}
	wantGets(t, next, 3)
	if s := c.Stats(); s.DiskErrors != 1 || s.DiskBytes != block {
		t.Errorf("%+v, want one error, because the tier rests, and one block", s)
	}
}

func TestRemovedDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	c, next := diskOnly(t, dir, 10*block, 1)
	for range 3 {
		get(t, c, 0)
		get(t, c, 0)
		wantGets(t, next, 1)
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFilledByAnother: two processes that miss one blob account for it once.
func TestFilledByAnother(t *testing.T) {
	c, _ := diskOnly(t, t.TempDir(), 4*block, 1)
	get(t, c, 0)
	c.disk.put(cas.Sum(sized(0, block)), sized(0, block))
	if n := c.Stats().DiskBytes; n != block {
		t.Errorf("ledger %d blocks, want 1", n/block)
	}
}

// Links that another user has made in the directory are not followed.
func TestPlantedLinks(t *testing.T) {
	name := cas.Sum(sized(0, block)).String()
	for _, planted := range []string{name[:2], fillingName, ledgerName} {
		t.Run(planted, func(t *testing.T) {
			dir, victim := t.TempDir(), t.TempDir()
			secret := filepath.Join(victim, "secret")
			err := os.WriteFile(secret, []byte("text"), 0o600)
			target := secret
			if planted == name[:2] {
				target = victim
			}
			if err := errors.Join(err, os.Symlink(target, filepath.Join(dir, planted))); err != nil {
				t.Fatal(err)
			}
			c, _ := diskOnly(t, dir, 10*block, 1)
			for range 2 {
				get(t, c, 0)
			}
			if text, err := os.ReadFile(secret); string(text) != "text" {
				t.Errorf("outside there is %q, %v", text, err)
			}
			if left, err := os.ReadDir(victim); len(left) != 1 {
				t.Errorf("outside there is %v, %v", left, err)
			}
		})
	}
}
