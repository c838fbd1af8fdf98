package cache

import (
	"errors"
	"fmt"
	"io/fs"

	"mneme/cas"
)

var _ cas.Forgetter = (*Cache)(nil)

// Forget implements cas.Forgetter: both tiers are emptied, the one on disk for all
// processes that share it. It empties them whole, since the erased blobs are no longer
// known: their digests were erased, too. It is rare, and costs no more than reading the
// needed blobs again.
func (c *Cache) Forget() error {
	c.deletes.Add(1)
	c.memory.clear()
	if err := c.disk.clear(); err != nil {
		return fmt.Errorf("empty the cache on disk: %w", err)
	}
	return cas.Forget(c.next)
}

func (m *memory) clear() {
	if m == nil {
		return
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.cache != nil {
		m.cache.Clear()
	}
}

// clear removes all files, and what is about to be written.
func (t *disk) clear() error {
	if t == nil {
		return nil
	}
	t.filling.Lock()
	defer t.filling.Unlock()
	t.mu.Lock()
	t.queue, t.queued = nil, 0
	t.mu.Unlock()
	root, err := t.dir.Open()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	l, err := lockLedger(root)
	if err != nil {
		return err
	}
	defer l.unlock()
	if err := root.Remove(fillingName); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	files, _, err := scan(root)
	if err != nil {
		return err
	}
	for _, f := range files {
		if err := root.Remove(f.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return l.record(0)
}
