package tools

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"mneme/memory"
	"mneme/versionlog"
)

// The bounds of a scan, in bytes.
const (
	maxScanned = 256 << 20 // in all
	maxBatch   = 4 << 20   // of memories that are read together, unless one alone has more
)

// Places returns the stores as they were given to New.
func (m *Memory) Places() []Place { return slices.Clone(m.given) }

// Newest returns the heads of the memories of a store, the newest first, as of a commit that
// is not older than the call.
func (m *Memory) Newest(ctx context.Context, slug string) ([]*memory.Head, error) {
	p, err := m.placeOf(slug)
	if err != nil {
		return nil, err
	}
	now, err := p.idx.sync(ctx)
	if err != nil {
		return nil, err
	}
	heads := make([]*memory.Head, 0, len(now.heads))
	for _, h := range now.heads {
		if !(located{p, h}).isDir() {
			heads = append(heads, h)
		}
	}
	slices.SortFunc(heads, func(a, b *memory.Head) int {
		return cmp.Or(cmp.Compare(b.Seq(), a.Seq()), strings.Compare(a.Path(), b.Path()))
	})
	return heads, nil
}

// Scan reads memories of a store, some at a time. It calls look with the content of each, from
// several goroutines at once; the content is nil if it cannot be read or, if isRead, is not
// text. It passes the results of look to take, one after the other in the order of heads,
// until take returns false. It returns why it has ended early: "limit" (take said so),
// "deadline" (ctx has ended; take then gets the results so far) or "size"; "" means that it
// has not. When it returns, no call of look is running.
func Scan[T any](ctx context.Context, m *Memory, slug string, heads []*memory.Head, look func(h *memory.Head, text []byte, isRead bool) T, take func(h *memory.Head, found T) bool) (why string, err error) {
	p, err := m.placeOf(slug)
	if err != nil {
		return "", err
	}
	all := make([]located, len(heads))
	for i, h := range heads {
		all[i] = located{p, h}
	}
	s := &scan[T]{
		m: m, gaps: true,
		look: func(one located, data []byte, isRead bool) T {
			switch {
			case !isRead || !isText(data):
				data = nil
			case data == nil:
				data = []byte{}
			}
			return look(one.head, data, isRead)
		},
		take: func(one located, found T) bool { return take(one.head, found) },
	}
	return s.run(ctx, all), nil
}

func (m *Memory) placeOf(slug string) (*place, error) {
	if p := m.bySlug(slug); p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("store %s: %w", slug, versionlog.ErrNotFound)
}

// scan is one reading of many memories.
type scan[T any] struct {
	m    *Memory
	look func(one located, data []byte, isRead bool) T
	take func(one located, found T) bool
	gaps bool // at the deadline, take also what lies behind a memory that is not read yet

	batches [][]located
	answers []chan []T // of the batches; closed without one: look has panicked
}

// divide makes batches of memories to be read together, up to the bound of a scan. It reports
// whether these are all.
func (s *scan[T]) divide(all []located) (whole bool) {
	var total, size int64
	var batch []located
	whole = true
	for _, one := range all {
		if total += one.head.Size(); total > maxScanned && len(s.batches)+len(batch) > 0 {
			whole = false
			break
		}
		if len(batch) > 0 && (len(batch) >= one.Store.BatchSize() || size+one.head.Size() > maxBatch || batch[0].place != one.place) {
			s.batches, batch, size = append(s.batches, batch), nil, 0
		}
		batch, size = append(batch, one), size+one.head.Size()
	}
	if batch != nil {
		s.batches = append(s.batches, batch)
	}
	for range s.batches {
		s.answers = append(s.answers, make(chan []T, 1))
	}
	return whole
}

// run looks through memories and takes the results in their order. It returns why it has
// ended early: "limit", "deadline" or "size"; "": it has not.
func (s *scan[T]) run(ctx context.Context, all []located) (why string) {
	whole := s.divide(all)
	ctx, cancel := context.WithCancel(ctx)
	var next atomic.Int64
	var workers sync.WaitGroup
	defer workers.Wait()
	defer cancel()
	for range min(4, 2*runtime.GOMAXPROCS(0), len(s.batches)) {
		workers.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(s.batches) || ctx.Err() != nil {
					return
				}
				s.answer(ctx, i)
			}
		})
	}
	for i := range s.batches {
		select {
		case found, ok := <-s.answers[i]:
			if !s.takeBatch(i, found, ok) {
				return "limit"
			}
		case <-ctx.Done():
			if s.gaps {
				s.takeRest(i)
			}
			return "deadline"
		}
	}
	if !whole {
		return "size"
	}
	return ""
}

// takeBatch takes the results of a batch, and reports whether more are wanted. ok is
// whether its worker has come to an end.
func (s *scan[T]) takeBatch(i int, found []T, ok bool) (more bool) {
	if !ok {
		panic("a worker of a scan has panicked") // in a goroutine that its caller knows
	}
	for j, one := range s.batches[i] {
		if !s.take(one, found[j]) {
			return false
		}
	}
	return true
}

// takeRest takes the results of the batches from one on, as far as they are known already.
func (s *scan[T]) takeRest(from int) {
	for i := from; i < len(s.batches); i++ {
		select {
		case found, ok := <-s.answers[i]:
			if !s.takeBatch(i, found, ok) {
				return
			}
		default:
		}
	}
}

// answer reads a batch and looks at the contents of its memories.
func (s *scan[T]) answer(ctx context.Context, i int) {
	defer func() {
		if caught := recover(); caught != nil {
			s.m.logPanic(caught)
			close(s.answers[i])
		}
	}()
	batch := s.batches[i]
	heads := make([]*memory.Head, len(batch))
	for j, one := range batch {
		heads[j] = one.head
	}
	found := make([]T, len(batch))
	for j, data := range batch[0].Store.Contents(ctx, heads) {
		found[j] = s.look(batch[j], data, data != nil || heads[j].Size() == 0)
	}
	if ctx.Err() == nil { // else what could not be read may be no fault of the memories
		s.answers[i] <- found
	}
}

// logPanic logs a panic without its value, which may have text of a memory.
func (m *Memory) logPanic(caught any) {
	m.opts.Logger.Error("panic", "type", fmt.Sprintf("%T", caught), "stack", string(debug.Stack()))
}
