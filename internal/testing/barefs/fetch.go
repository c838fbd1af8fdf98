package barefs

import (
	"fmt"
	"slices"
)

// fetch is the reading of some files, which goes on by itself.
type fetch struct {
	files    []*node
	done     chan struct{} // closed when the fields below are set
	contents [][]byte
	err      error
}

// read begins to read the next files when it has those that are asked for: one
// processor does that while the other gives these to the kernel, and greps.
func (d *database) read(files, next []*node) ([][]byte, error) {
	d.reading.Lock()
	defer d.reading.Unlock()
	f := d.ahead
	if f == nil || !slices.Equal(f.files, files) {
		f = d.fetch(files)
	}
	<-f.done
	if len(next) > 0 {
		d.ahead = d.fetch(next)
	}
	return f.contents, f.err
}

func (d *database) fetch(files []*node) *fetch {
	f := &fetch{files: files, done: make(chan struct{})}
	d.work.Go(func() {
		defer close(f.done)
		f.contents, f.err = d.blobs(files)
	})
	return f
}

// blobs returns the bytes of files, which it checks.
func (d *database) blobs(files []*node) ([][]byte, error) {
	found := make(map[digest][]byte, len(files))
	for part := range slices.Chunk(files, batchSize) {
		if err := d.readBatch(part, found); err != nil {
			return nil, fmt.Errorf("read: %w", err)
		}
	}
	contents := make([][]byte, len(files))
	for i, n := range files {
		var ok bool
		if contents[i], ok = found[n.sum]; !ok {
			return nil, fmt.Errorf("read %s: lost or damaged", n.path)
		}
	}
	return contents, nil
}
