package kernelcache

import (
	"context"
	"time"
)

// The bounds of a walk.
const (
	maxAheadFiles = 1024    // fetched, or being fetched, and not yet read
	maxAheadBytes = 4 << 20 // likewise
	maxBatchBytes = 256 << 10
	walkPatience  = time.Second // a walk that reads nothing for so long has stopped
	lately        = time.Minute
)

// walk is one program's way through a tree. Prefetcher.mu guards it.
type walk struct {
	ctx    context.Context // ends with the walk
	cancel context.CancelFunc
	idle   *time.Timer // ends it

	batch int // how many files are worth reading together

	frames [][]Node // what is still to come in the directories that are being walked, the deepest last
	dir    Node     // the directory that was entered last
	top    Node     // the highest one
	files  int      // ahead of the reader
	bytes  int64    // likewise
	pushed amount   // those of them that the kernel has, so that it will not ask for them

	waiting map[*fetch]struct{} // at their inodes, for a reader or the kernel
}

type amount struct {
	files int
	bytes int64
}

// newWalk begins in a directory. The walk ends itself when it has not moved for a while.
func newWalk(s Source, dir Node, idle func(w *walk)) *walk {
	w := &walk{batch: s.BatchSize(dir), top: dir, dir: dir, frames: [][]Node{s.List(dir, nil)}, waiting: map[*fetch]struct{}{}}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	w.idle = time.AfterFunc(walkPatience, func() { idle(w) })
	return w
}

// end cancels fetches for the walk alone, and drops contents that no program has asked for.
func (w *walk) end() {
	w.idle.Stop()
	w.cancel()
	for f := range w.waiting {
		if c := f.node.Cache(); c.ahead.CompareAndSwap(f, nil) {
			c.Supersede()
		}
	}
	clear(w.waiting)
}

// nextBatch returns what a walk comes to next, as much as is worth reading
// together.
func (w *walk) nextBatch(s Source) []*fetch {
	var batch []*fetch
	var done chan struct{}
	bytes := int64(0)
	for len(batch) < w.batch && bytes < maxBatchBytes && w.files < maxAheadFiles && w.bytes < maxAheadBytes {
		f := w.next(s)
		if f == nil {
			break
		}
		if batch == nil {
			done = make(chan struct{})
		}
		f.done = done
		f.node.Cache().ahead.Store(f)
		w.waiting[f] = struct{}{}
		batch = append(batch, f)
		bytes += f.head.Size()
		w.files++
		w.bytes += f.head.Size()
	}
	return batch
}

// next returns the file that a walk comes to next among those that are not
// cached, or nil.
func (w *walk) next(s Source) *fetch {
	for {
		last := len(w.frames) - 1
		if last < 0 {
			if !w.climb(s) {
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
		if n.IsDir() {
			w.frames = append(w.frames, s.List(n, nil))
			w.dir = n
		} else if f := w.fetchOf(n, s); f != nil {
			return f
		}
	}
}

// climb continues after the highest directory of a walk, in the one above it.
func (w *walk) climb(s Source) bool {
	up := s.Parent(w.top)
	if up == nil || !wasListed(up) {
		return false
	}
	w.frames = append(w.frames, s.List(up, w.top))
	w.top = up
	return true
}

// fetchOf returns what a walk fetches of a file, which counts as asked for from now on; nil if
// there is nothing to fetch, or its bytes were asked for lately.
func (w *walk) fetchOf(n Node, s Source) *fetch {
	head := s.Head(n)
	if head == nil || Instant(n.Cache().asked.Swap(int64(Now()))).wasLately() {
		return nil
	}
	return &fetch{node: n, walk: w, head: head}
}

func (t Instant) wasLately() bool { return t != 0 && t.Since() < lately }

// wasListed reports whether a directory was listed lately.
func wasListed(dir Node) bool { return Instant(dir.Cache().asked.Load()).wasLately() }
