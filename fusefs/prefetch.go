package fusefs

import (
	"context"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"mneme/memory"
	"mneme/versionlog"
)

// The bounds of fetching ahead.
const (
	maxFetching   = 256     // requests under way
	minFetching   = 2       // also when the store answers at once
	maxAheadFiles = 1024    // fetched, or being fetched, and not yet read
	maxAheadBytes = 4 << 20 // likewise
	maxBatchBytes = 256 << 10
	maxWalks      = 4
	walkPatience  = time.Second // a walk that reads nothing for so long has stopped
	lately        = time.Minute
	// pace is how often a file can be of use at most: what takes longer to come
	// must be asked for earlier.
	pace = 100 * time.Microsecond
)

// prefetcher fetches what a program that walks a tree is about to read. That is
// taken to begin when two files are read that are not cached, one soon after the
// other, in directories that have been listed; a file that is opened by its name
// is fetched alone. From then on the walk is followed in the order of listings:
// the rest of the directory, and the directories after it, as far up as they
// have been listed. Fetched bytes wait in the node; a read that comes too early
// joins the fetch.
type prefetcher struct {
	fs   *fileSystem
	work sync.WaitGroup // one per batch

	mu       sync.Mutex    // guards the fields below, and those of walks; taken before fileSystem.mu
	walks    []*walk       // the one used last is last
	fetching int           // batches
	took     time.Duration // what a file of a batch takes, about
	missed   time.Time     // when a file in a listed directory was last read that had not been fetched
}

// walk is one program's way through a tree.
type walk struct {
	ctx    context.Context
	cancel context.CancelFunc
	idle   *time.Timer // ends it

	batch int // how many files are worth reading together

	frames [][]*node // what is still to come in the directories that are being walked, the deepest last
	dir    *node     // the directory that was entered last
	top    *node     // the highest one
	files  int       // ahead of the reader
	bytes  int64     // likewise
	pushed amount    // of these, what the kernel has, so that nobody will ask for it
}

// fetch is one file's, for a walk. Its bytes are set before done is closed, and
// do not change after.
type fetch struct {
	node    *node
	walk    *walk
	version *memory.Head
	done    chan struct{} // of all that is read together
	data    []byte        // nil: it could not be read, and who reads it meets the error
}

// bytesOf returns what was fetched of a version, or nil. What is under way it
// waits for in a batch; alone, it is in the cache of the blob store that a reader
// joins it, who then keeps it going when the walk ends.
func (f *fetch) bytesOf(version *memory.Head) []byte {
	if f.walk.batch > 1 {
		<-f.done
	}
	if f.version != version || !f.there() {
		return nil
	}
	return f.data
}

// there reports whether the fetch has ended.
func (f *fetch) there() bool {
	select {
	case <-f.done:
		return true
	default:
		return false
	}
}

type amount struct {
	files int
	bytes int64
}

func newPrefetcher(fs *fileSystem) *prefetcher { return &prefetcher{fs: fs} }

// content returns the bytes of a version of n, which is read and which the kernel
// does not have: those that were fetched ahead, or from the store.
// Callers hold no lock.
func (p *prefetcher) content(n *node, version *memory.Head) ([]byte, error) {
	if data := p.reading(n, version); data != nil {
		return data, nil
	}
	return n.store.memory.ContentOf(p.fs.ctx, version)
}

// reading notes that a version of n is about to be read. It returns the bytes, if
// they have been fetched ahead.
func (p *prefetcher) reading(n *node, version *memory.Head) []byte {
	now := time.Now()
	if f := n.ahead.Swap(nil); f != nil {
		p.mu.Lock()
		f.walk.files--
		f.walk.bytes -= f.version.Size()
		p.moved(f.walk)
		p.mu.Unlock()
		return f.bytesOf(version)
	}
	p.fs.mu.RLock()
	dir := n.parent
	p.fs.mu.RUnlock()
	if before := n.fetched.Swap(now.UnixNano()); wasLately(before) || dir == nil || !wasLately(dir.listed.Load()) {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	walking := now.Sub(p.missed) < walkPatience
	p.missed = now
	if i := slices.IndexFunc(p.walks, func(w *walk) bool { return w.dir == dir }); i >= 0 {
		p.moved(p.walks[i]) // the reader has overtaken it
	} else if walking {
		p.begin(dir)
	}
	return nil
}

func wasLately(nanoseconds int64) bool {
	return time.Since(time.Unix(0, nanoseconds)) < lately
}

// moved notes that the reader of a walk goes on, past what was pushed.
// Caller holds p.mu.
func (p *prefetcher) moved(w *walk) {
	w.files -= w.pushed.files
	w.bytes -= w.pushed.bytes
	w.pushed = amount{}
	if i := slices.Index(p.walks, w); i >= 0 {
		p.walks = append(slices.Delete(p.walks, i, i+1), w)
		w.idle.Reset(walkPatience)
		p.launch()
	}
}

// begin follows a walk from a directory on, instead of the one that has not
// moved for the longest time. Caller holds p.mu.
func (p *prefetcher) begin(dir *node) {
	if len(p.walks) == maxWalks {
		p.end(p.walks[0])
	}
	w := &walk{batch: dir.store.memory.BatchSize(), top: dir, dir: dir, frames: [][]*node{p.fs.nodesIn(dir, nil)}}
	w.ctx, w.cancel = context.WithCancel(p.fs.ctx)
	w.idle = time.AfterFunc(walkPatience, func() {
		p.mu.Lock()
		p.end(w)
		last := len(p.walks) == 0
		p.mu.Unlock()
		if last {
			debug.FreeOSMemory() // what passed through; nothing of the kind follows soon
		}
	})
	p.walks = append(p.walks, w)
	p.launch()
}

// end forgets a walk and cancels what is being fetched for it alone.
// Caller holds p.mu.
func (p *prefetcher) end(w *walk) {
	w.idle.Stop()
	w.cancel()
	p.walks = slices.DeleteFunc(p.walks, func(other *walk) bool { return other == w })
}

// launch fetches as much as may be fetched now, for the walk that moved last.
// Caller holds p.mu.
func (p *prefetcher) launch() {
	for i := len(p.walks) - 1; i >= 0; i-- {
		w := p.walks[i]
		for p.fetching < p.width(w) {
			batch := p.nextBatch(w)
			if len(batch) == 0 {
				break
			}
			p.fetching++
			p.work.Go(func() { p.fetch(w, batch) })
		}
	}
}

// width is how many batches may be under way: as many as are needed to have a
// file every pace. What is read together is near, and costs time of a processor,
// of which the reader needs some, too: one at a time. Caller holds p.mu.
func (p *prefetcher) width(w *walk) int {
	if w.batch > 1 {
		return 1
	}
	return max(minFetching, min(maxFetching, int(p.took/pace)))
}

// nextBatch returns what a walk comes to next, as much as is worth reading
// together. Caller holds p.mu.
func (p *prefetcher) nextBatch(w *walk) []*fetch {
	var batch []*fetch
	var done chan struct{}
	bytes := int64(0)
	for len(batch) < w.batch && bytes < maxBatchBytes && w.files < maxAheadFiles && w.bytes < maxAheadBytes {
		f := p.next(w)
		if f == nil {
			break
		}
		if batch == nil {
			done = make(chan struct{})
		}
		f.done = done
		f.node.ahead.Store(f)
		batch = append(batch, f)
		bytes += f.version.Size()
		w.files++
		w.bytes += f.version.Size()
	}
	return batch
}

// next returns the file that a walk comes to next among those that are not
// cached, or nil. Caller holds p.mu.
func (p *prefetcher) next(w *walk) *fetch {
	for {
		last := len(w.frames) - 1
		if last < 0 {
			if !p.climb(w) {
				return nil
			}
			continue
		}
		if len(w.frames[last]) == 0 {
			w.frames = w.frames[:last]
			continue
		}
		n := w.frames[last][0]
		w.frames[last] = w.frames[last][1:]
		if n.isDir() {
			w.frames = append(w.frames, p.fs.nodesIn(n, nil))
			w.dir = n
		} else if f := p.fs.markAhead(n, w); f != nil {
			return f
		}
	}
}

// climb goes on after the highest directory of a walk, in the one above it.
// Caller holds p.mu.
func (p *prefetcher) climb(w *walk) bool {
	p.fs.mu.RLock()
	up := w.top.parent
	p.fs.mu.RUnlock()
	if up == nil || up.store == nil || !wasLately(up.listed.Load()) {
		return false
	}
	w.frames = append(w.frames, p.fs.nodesIn(up, w.top))
	w.top = up
	return true
}

// fetch brings a batch, and gives to the kernel what nobody has asked for yet.
// That comes last: who has asked has the kernel wait for the answer. What comes
// next is under way before a reader can get there.
func (p *prefetcher) fetch(w *walk, batch []*fetch) {
	start := time.Now()
	if w.ctx.Err() == nil {
		versions := make([]versionlog.Version, len(batch))
		for i, f := range batch {
			versions[i] = *f.version.Version()
		}
		for i, data := range batch[0].node.store.memory.Contents(w.ctx, versions) {
			batch[i].data = data
		}
	}
	p.ended(w, batch, time.Since(start)/time.Duration(len(batch)))
	close(batch[0].done)
	for _, f := range batch {
		p.give(f)
	}
}

// ended notes the end of a batch whose files took so long each.
func (p *prefetcher) ended(w *walk, batch []*fetch, took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.ctx.Err() != nil {
		for _, f := range batch {
			f.node.fetched.Store(0)
		}
	} else if p.took == 0 {
		p.took = took
	} else {
		p.took += (took - p.took) / 4
	}
	p.fetching--
	p.launch()
}

// give pushes what was fetched, unless it was asked for. Callers hold no lock.
func (p *prefetcher) give(f *fetch) {
	n := f.node
	if f.data == nil || n.ahead.Load() != f || !p.fs.push(n, f.version, f.data) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if n.ahead.CompareAndSwap(f, nil) {
		f.walk.pushed.files++
		f.walk.pushed.bytes += f.version.Size()
	}
}

// close ends all walks and waits for their fetches.
func (p *prefetcher) close() {
	p.mu.Lock()
	for len(p.walks) > 0 {
		p.end(p.walks[0])
	}
	p.mu.Unlock()
	p.work.Wait()
}

// nodesIn returns what is in a directory, in the order of its listing, from the
// one after a node on, or from the first.
func (fs *fileSystem) nodesIn(dir, after *node) []*node {
	fs.mu.RLock()
	defer fs.mu.RUnlock()
	entries := fs.list(dir)[2:]
	if after != nil {
		entries = entries[slices.IndexFunc(entries, func(e dirEntry) bool { return e.id == after.id })+1:]
	}
	nodes := make([]*node, 0, len(entries))
	for _, e := range entries {
		if n := fs.node(e.id); n != nil {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// markAhead returns what a walk fetches of a file, which is marked as fetched, or
// nil if its bytes were asked for lately.
func (fs *fileSystem) markAhead(n *node, w *walk) *fetch {
	fs.mu.RLock()
	head, staged := n.head, n.stage != nil
	fs.mu.RUnlock()
	if head == nil || staged || n.generate != nil || wasLately(n.fetched.Swap(time.Now().UnixNano())) {
		return nil
	}
	return &fetch{node: n, walk: w, version: head}
}
