package cache

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"mneme/cas"
)

const (
	// maxQueued bounds the bytes that wait to be written to the disk tier. Further blobs are
	// not kept there.
	maxQueued = 16 << 20
	// maxBatch is how many files are written under one hold of the ledger, for
	// which other processes wait.
	maxBatch = 64
)

// blob is what a file of the disk tier is to hold.
type blob struct {
	digest cas.Digest
	data   []byte
}

// put adds d, if the tier can take it. One caller at a time writes; what others
// bring meanwhile is written after that, many files under one hold of the ledger,
// and they do not wait for it.
func (t *disk) put(d cas.Digest, data []byte) {
	size := int64(len(data))
	if t == nil || footprint(size) > t.limit {
		return
	}
	t.mu.Lock()
	if time.Now().Before(t.restUntil) || t.busy && t.queued+size > maxQueued {
		t.mu.Unlock()
		return
	}
	t.queue = append(t.queue, blob{d, data})
	t.queued += size
	lead := !t.busy
	t.busy = true
	t.mu.Unlock()
	if lead && t.fillQueue() {
		t.work.Go(func() {
			for t.fillQueue() {
			}
		})
	}
}

// fillQueue writes what is queued, and reports whether there is more since.
func (t *disk) fillQueue() bool {
	t.filling.Lock()
	defer t.filling.Unlock()
	t.mu.Lock()
	batch := t.queue
	t.queue, t.queued = nil, 0
	t.mu.Unlock()
	var err error
	for part := range slices.Chunk(batch, maxBatch) {
		for len(part) > 0 && err == nil {
			var n int
			n, err = t.fill(part)
			part = part[n:]
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		t.counters.diskErrors.Add(1)
		t.restUntil = time.Now().Add(rest)
		t.queue, t.queued = nil, 0
	}
	t.busy = len(t.queue) > 0
	return t.busy
}

// fill writes the first files of a batch, as many as fit into an eighth of the
// tier but at least one, under the ledger, and returns how many. The ledger is
// raised before they are written, so that it is never too low, whenever the
// process is killed.
func (t *disk) fill(batch []blob) (int, error) {
	root, err := t.dir.Make(dirPerm)
	if err != nil {
		return 0, err
	}
	l, err := lockLedger(root)
	if err != nil {
		return 0, err
	}
	defer l.unlock()
	var missing []blob
	n, need := 0, int64(0)
	for _, b := range batch {
		space := footprint(int64(len(b.data)))
		if n > 0 && need+space > t.limit/8 {
			break
		}
		n++
		if _, err := root.Lstat(path(b.digest)); err == nil {
			continue // another process was faster
		}
		missing = append(missing, b)
		need += space
	}
	used, err := t.makeRoom(l, need)
	if err != nil || len(missing) == 0 {
		return n, err
	}
	if err := l.record(used + need); err != nil {
		return n, err
	}
	for _, b := range missing {
		if err := write(root, path(b.digest), b.data); err != nil {
			return n, errors.Join(err, l.record(used))
		}
		used += footprint(int64(len(b.data)))
	}
	return n, nil
}

// drop removes d, if it is there or about to be.
func (t *disk) drop(d cas.Digest) {
	if t == nil {
		return
	}
	t.filling.Lock()
	defer t.filling.Unlock()
	t.mu.Lock()
	t.queue = slices.DeleteFunc(t.queue, func(b blob) bool {
		if b.digest == d {
			t.queued -= int64(len(b.data))
		}
		return b.digest == d
	})
	t.mu.Unlock()
	root, err := t.dir.Open()
	if err == nil {
		err = root.Remove(path(d))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.counters.diskErrors.Add(1)
	}
}

// close waits until everything that was put is written.
func (t *disk) close() {
	if t != nil {
		t.work.Wait()
	}
}

func write(root *os.Root, path string, data []byte) error {
	err := root.WriteFile(fillingName, data, filePerm)
	if err == nil {
		err = root.Rename(fillingName, path)
	}
	if errors.Is(err, fs.ErrNotExist) { // the first of its directory
		if err = root.MkdirAll(filepath.Dir(path), dirPerm); err == nil {
			err = root.Rename(fillingName, path)
		}
	}
	if err != nil {
		_ = root.Remove(fillingName)
	}
	return err
}
