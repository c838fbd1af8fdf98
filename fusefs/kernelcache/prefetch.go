package kernelcache

import (
	"context"
	"slices"
	"sync"
	"time"

	"mneme/memory"
)

// The bounds of fetching ahead.
const (
	maxFetching = 256 // requests under way
	minFetching = 2   // also when the store answers at once
	maxWalks    = 4
	// pace is how often a file can be of use at most: what takes longer to come
	// must be asked for earlier.
	pace = 100 * time.Microsecond
)

// Prefetcher fetches what a program that walks a tree is about to read. A walk is taken to begin
// when two files are read that are not cached, one soon after the other, in directories that have
// been listed; a file that is opened by its name is fetched alone. From then on the walk is
// followed in the order of listings: the rest of the directory, and the directories after it, as
// far up as they have been listed. Fetched bytes wait at the inode as long as the walk continues,
// and are pushed once the kernel knows it; a read that comes before joins the fetch.
//
// Its methods may be called at once from many goroutines that do not hold the mount's lock.
type Prefetcher struct {
	source Source
	ended  func()
	pusher pusher
	work   sync.WaitGroup // one per batch

	mu       sync.Mutex    // guards the fields below, and those of walks; taken before the mount's lock
	walks    []*walk       // the one used last is last
	fetching int           // batches
	took     time.Duration // what a file of a batch takes, about
	missed   Instant       // when a file in a listed directory was last read that had not been fetched
	closed   bool
}

// NewPrefetcher returns one for the tree of a mount. mount is the lock that guards its inodes.
// ended is called, without a lock, when the last walk has stopped: nothing like what passed
// through follows soon.
func NewPrefetcher(mount sync.Locker, source Source, ended func()) *Prefetcher {
	return &Prefetcher{source: source, ended: ended, pusher: pusher{mount: mount, source: source}}
}

// Connect says to which kernel files are pushed. It is called before the first request.
func (p *Prefetcher) Connect(k Kernel) { p.pusher.kernel = k }

// Read notes that a version of a file, which the kernel does not have, is about to be read. It
// returns the bytes if they have been fetched ahead; else nil, and the caller reads them from the
// store. It may wait for a fetch, but no longer than for ctx.
func (p *Prefetcher) Read(ctx context.Context, n Node, head *memory.Head) []byte {
	c := n.Cache()
	if f := c.ahead.Swap(nil); f != nil {
		p.mu.Lock()
		delete(f.walk.waiting, f)
		f.walk.files--
		f.walk.bytes -= f.head.Size()
		p.movedLocked(f.walk)
		p.mu.Unlock()
		return f.bytesOf(ctx, head)
	}
	if before := Instant(c.asked.Swap(int64(Now()))); before.wasLately() {
		return nil
	}
	dir := p.source.Parent(n)
	if dir == nil || !wasListed(dir) {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	walking := p.missed != 0 && p.missed.Since() < walkPatience
	p.missed = Now()
	if i := slices.IndexFunc(p.walks, func(w *walk) bool { return w.dir == dir }); i >= 0 {
		p.movedLocked(p.walks[i]) // the reader has overtaken it
	} else if walking {
		p.beginLocked(dir)
	}
	return nil
}

// Listed notes that a directory has been listed to its end: the reader of the walk that comes
// through it is there. The fetched contents of its files are pushed.
func (p *Prefetcher) Listed(dir Node) {
	for _, f := range p.arrived(dir) {
		if f.ended() {
			p.give(f)
		}
	}
}

// arrived notes that the reader of a walk has come to a directory, if one comes through it, and
// returns what is fetched of it.
func (p *Prefetcher) arrived(dir Node) []*fetch {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.walks) == 0 {
		return nil
	}
	var fetches []*fetch
	p.source.Each(dir, func(n Node) {
		if f := n.Cache().ahead.Load(); f != nil {
			fetches = append(fetches, f)
		}
	})
	if len(fetches) > 0 {
		p.movedLocked(fetches[0].walk)
	}
	return fetches
}

// Push gives the kernel the content of a version, if that is what a reader of a file gets, and
// reports whether the kernel has taken it.
func (p *Prefetcher) Push(n Node, head *memory.Head, data []byte) (taken bool) {
	return p.pusher.push(n, head, data)
}

// beginLocked follows a walk from a directory on, instead of the one that has not
// moved for the longest time.
func (p *Prefetcher) beginLocked(dir Node) {
	if p.closed {
		return
	}
	if len(p.walks) == maxWalks {
		p.endLocked(p.walks[0])
	}
	p.walks = append(p.walks, newWalk(p.source, dir, p.stopped))
	p.launchLocked()
}

// stopped ends a walk that has not moved for a while.
func (p *Prefetcher) stopped(w *walk) {
	p.mu.Lock()
	p.endLocked(w)
	last := len(p.walks) == 0
	p.mu.Unlock()
	if last {
		p.ended()
	}
}

// movedLocked notes that the reader of a walk continues past the pushed files.
func (p *Prefetcher) movedLocked(w *walk) {
	w.files -= w.pushed.files
	w.bytes -= w.pushed.bytes
	w.pushed = amount{}
	if i := slices.Index(p.walks, w); i >= 0 {
		p.walks = append(slices.Delete(p.walks, i, i+1), w)
		w.idle.Reset(walkPatience)
		p.launchLocked()
	}
}

// endLocked forgets a walk.
func (p *Prefetcher) endLocked(w *walk) {
	w.end()
	p.walks = slices.DeleteFunc(p.walks, func(other *walk) bool { return other == w })
}

// launchLocked fetches as much as may be fetched now, for the walk that moved last.
func (p *Prefetcher) launchLocked() {
	for _, w := range slices.Backward(p.walks) {
		for p.fetching < p.widthLocked(w) {
			batch := w.nextBatch(p.source)
			if len(batch) == 0 {
				break
			}
			p.fetching++
			p.work.Go(func() { p.fetch(w, batch) })
		}
	}
}

// widthLocked is how many batches may be under way: as many as are needed to have a file every
// pace. Files that are read together are near, and reading them costs processor time, of which
// the reader needs some, too: one batch at a time.
func (p *Prefetcher) widthLocked(w *walk) int {
	if w.batch > 1 {
		return 1
	}
	return max(minFetching, min(maxFetching, int(p.took/pace)))
}

// fetch brings a batch, and pushes the files that no program has asked for yet. Pushing comes
// last: the kernel makes a program that has asked wait. The next batch is under way before a
// reader can get there.
func (p *Prefetcher) fetch(w *walk, batch []*fetch) {
	start := time.Now()
	if w.ctx.Err() == nil {
		heads := make([]*memory.Head, len(batch))
		for i, f := range batch {
			heads[i] = f.head
		}
		for i, data := range p.source.Contents(w.ctx, batch[0].node, heads) {
			batch[i].data = data
		}
	}
	p.noteEnd(w, time.Since(start)/time.Duration(len(batch)))
	close(batch[0].done)
	for _, f := range batch {
		p.give(f)
	}
}

// noteEnd notes the end of a batch whose files took so long each.
func (p *Prefetcher) noteEnd(w *walk, took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case w.ctx.Err() != nil:
	case p.took == 0:
		p.took = took
	default:
		p.took += (took - p.took) / 4
	}
	p.fetching--
	p.launchLocked()
}

// give pushes what was fetched, unless it was asked for.
func (p *Prefetcher) give(f *fetch) {
	ahead := &f.node.Cache().ahead
	if f.data == nil || ahead.Load() != f || !p.Push(f.node, f.head, f.data) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if ahead.CompareAndSwap(f, nil) {
		delete(f.walk.waiting, f)
		f.walk.pushed.files++
		f.walk.pushed.bytes += f.head.Size()
	}
}

// Close ends all walks and waits for their fetches. No walk begins afterwards.
func (p *Prefetcher) Close() {
	p.mu.Lock()
	p.closed = true
	for len(p.walks) > 0 {
		p.endLocked(p.walks[0])
	}
	p.mu.Unlock()
	p.work.Wait()
}
