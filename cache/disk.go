package cache

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"mneme/cas"
	"mneme/internal/safepath"
)

const (
	dirPerm  = 0o700
	filePerm = 0o600
	block    = 4 << 10

	// fillingName is the temporary file below the directory. There is only one,
	// because only the holder of the ledger writes: one that a killed process
	// left is overwritten by the next.
	fillingName = "filling"

	// rest is how long the tier is not filled after it could not be: a full disk
	// or a stopped process that holds the ledger must not slow every read down.
	rest = time.Second
)

// disk is the disk tier: files named like those of dircas, filled by rename and
// verified whenever they are read. Readers take no lock. A process that fills or evicts
// holds the ledger. If it runs as root, only root may be able to change the directory. A
// nil *disk is none.
type disk struct {
	dir      *safepath.Root
	limit    int64
	counters *counters

	filling sync.Mutex     // held while files are written, before the ledger
	work    sync.WaitGroup // of writing what was queued meanwhile

	mu        sync.Mutex // guards the fields below; taken after filling
	queue     []blob     // to be written by the goroutine that is busy
	queued    int64      // bytes in queue
	busy      bool       // a goroutine writes the queue
	restUntil time.Time
}

func newDisk(dir string, limit int64, c *counters) (*disk, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	t := &disk{dir: safepath.NewRoot(abs), limit: limit, counters: c}
	t.trim()
	return t, nil
}

// Lookup returns a blob from the disk tier in dir, if it is there with the bytes
// of its digest. It changes nothing there.
func Lookup(dir string, d cas.Digest) ([]byte, bool) {
	if dir == "" {
		return nil, false
	}
	root, err := safepath.OpenRoot(dir)
	if err != nil {
		return nil, false
	}
	defer root.Close()
	data, err := root.ReadFile(path(d))
	return data, err == nil && cas.Sum(data) == d
}

// footprint is the disk space that a file of size bytes takes.
func footprint(size int64) int64 { return (size + block - 1) / block * block }

// path is that of a blob's file below the directory.
func path(d cas.Digest) string {
	name := d.String()
	return filepath.Join(name[:2], name)
}

// get reads d and marks it as used. A file with other bytes is removed.
func (t *disk) get(d cas.Digest) ([]byte, bool) {
	if t == nil {
		return nil, false
	}
	path := path(d)
	f, err := t.dir.OpenRead(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false
	}
	var data []byte
	if err == nil {
		defer f.Close()
		data, err = safepath.ReadAll(f)
	}
	if err != nil {
		t.counters.diskErrors.Add(1)
		return nil, false
	}
	if cas.Sum(data) != d {
		t.counters.corrupt.Add(1)
		if root, err := t.dir.Open(); err == nil {
			_ = root.Remove(path) // it may be gone, or the file system read-only
		}
		return nil, false
	}
	t.counters.diskHits.Add(1)
	now := time.Now()
	_ = os.Chtimes(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), now, now) // only the order of eviction suffers
	return data, true
}

// used returns what the ledger says, or 0 when there is none.
func (t *disk) used() int64 {
	if t == nil {
		return 0
	}
	root, err := t.dir.Open()
	if err != nil {
		return 0
	}
	used, _ := readUsage(root)
	return used
}

// trim brings a directory that is there already below the limit, which may have
// been higher the last time.
func (t *disk) trim() {
	root, err := t.dir.Open()
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var l *ledger
	if err == nil {
		l, err = lockLedger(root)
	}
	if err != nil {
		t.counters.diskErrors.Add(1)
		return
	}
	defer l.unlock()
	used, err := t.makeRoom(l, 0)
	if err == nil {
		err = l.record(used)
	}
	if err != nil {
		t.counters.diskErrors.Add(1)
	}
}

// makeRoom removes the files used least recently when need does not fit under the
// limit, an eighth of it more than needed so that this is seldom, and returns the
// space then used. It looks at the files only then or when the ledger is not to
// be trusted.
func (t *disk) makeRoom(l *ledger, need int64) (int64, error) {
	used, ok := l.used()
	if ok && used <= t.limit-need {
		return used, nil
	}
	// No other process is writing it, since the ledger is held.
	if err := l.root.Remove(fillingName); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	files, used, err := scan(l.root)
	if err != nil || used <= t.limit-need {
		return used, err
	}
	slices.SortFunc(files, func(a, b file) int { return cmp.Or(a.lastUse.Compare(b.lastUse), cmp.Compare(a.path, b.path)) })
	target := max(t.limit-t.limit/8-need, 0)
	for _, f := range files {
		if used <= target {
			break
		}
		if err := l.root.Remove(f.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return 0, err
		}
		used -= f.space
		t.counters.evictions.Add(1)
	}
	return used, nil
}

// file is a file of the tier as eviction sees it.
type file struct {
	path    string
	space   int64
	lastUse time.Time
}

// scan returns the blobs on disk and the space they take together.
func scan(root *os.Root) (files []file, used int64, err error) {
	dirs, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, 0, err
	}
	for _, dir := range dirs {
		if !dir.IsDir() {
			continue
		}
		entries, err := fs.ReadDir(root.FS(), dir.Name())
		if err != nil {
			return nil, 0, err
		}
		for _, e := range entries {
			info, err := e.Info()
			if err != nil {
				continue // dropped meanwhile: that takes no lock
			}
			if _, err := cas.ParseDigest(e.Name()); err != nil {
				continue
			}
			f := file{filepath.Join(dir.Name(), e.Name()), footprint(info.Size()), info.ModTime()}
			files, used = append(files, f), used+f.space
		}
	}
	return files, used, nil
}
