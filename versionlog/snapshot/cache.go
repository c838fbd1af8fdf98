package snapshot

import (
	"slices"
	"sync"
)

// cachedPages is how many pages of heads a snapshot keeps at most, of 64 to 256 KB each.
const cachedPages = 16

// cache are the pages of heads that were read last.
type cache struct {
	mu    sync.Mutex // guards what follows; never held during I/O
	pages []cached   // that of the newest use at the end
}

type cached struct {
	number int
	heads  []head
}

func (c *cache) get(number int) ([]head, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.pages, func(one cached) bool { return one.number == number })
	if i < 0 {
		return nil, false
	}
	one := c.pages[i]
	c.pages = append(slices.Delete(c.pages, i, i+1), one)
	return one.heads, true
}

// before returns how many pages it has of those right before one.
func (c *cache) before(number int) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.hasLocked(number - n - 1) {
		n++
	}
	return n
}

func (c *cache) hasLocked(number int) bool {
	return slices.ContainsFunc(c.pages, func(one cached) bool { return one.number == number })
}

func (c *cache) put(number int, heads []head) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hasLocked(number) {
		return // another one has read it meanwhile
	}
	if len(c.pages) == cachedPages {
		c.pages = slices.Delete(c.pages, 0, 1)
	}
	c.pages = append(c.pages, cached{number, heads})
}
