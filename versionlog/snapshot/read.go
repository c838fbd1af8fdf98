package snapshot

import (
	"context"
	"iter"

	"mneme/versionlog"
)

// Heads yields all heads in the order of their paths. Unlike State it reads pages ahead,
// several at a time, and keeps none.
func (s *Snapshot) Heads(ctx context.Context) iter.Seq2[versionlog.Version, error] {
	return func(yield func(versionlog.Version, error) bool) {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		for page := range ahead(len(s.heads.Pages), func(i int) result {
			heads, err := read(ctx, s.source, &s.heads, i, decodeHead)
			return result{heads, err}
		}) {
			if page.err != nil {
				stop() // before what is read ahead is waited for
				yield(versionlog.Version{}, page.err)
				return
			}
			for _, h := range page.heads {
				if !yield(versionlog.Version(h), nil) {
					stop()
					return
				}
			}
		}
	}
}

// Check reads all of the snapshot and returns an error unless it is whole.
func (s *Snapshot) Check(ctx context.Context) error {
	for _, err := range s.Heads(ctx) {
		if err != nil {
			return err
		}
	}
	for _, err := range all(ctx, s, &s.memories, "", decodeStretch) {
		if err != nil {
			return err
		}
	}
	for _, err := range s.Keys(ctx) {
		if err != nil {
			return err
		}
	}
	return nil
}

// Versions returns the sequence numbers of the commits above HistoryAfter that have a
// version of a memory, oldest first.
func (s *Snapshot) Versions(ctx context.Context, memoryID string) ([]uint64, error) {
	var seqs []uint64
	for one, err := range all(ctx, s, &s.memories, stretchKey(memoryID, 0), decodeStretch) {
		if err != nil {
			return nil, err
		}
		if one.MemoryID != memoryID {
			break
		}
		seqs = append(seqs, one.Seqs...)
	}
	return seqs, nil
}

// Keys yields the idempotency keys of the commits above KeysAfter in their order.
func (s *Snapshot) Keys(ctx context.Context) iter.Seq2[Key, error] {
	return all(ctx, s, &s.keys, "", decodeKey)
}

// all yields what a list of s holds from a key on.
func all[T entry](ctx context.Context, s *Snapshot, l *list, key string, decode decode[T]) iter.Seq2[T, error] {
	return entries(l, key, func(i int) ([]T, error) { return read(ctx, s.source, l, i, decode) })
}

// readAhead is how many pages are read at a time.
const readAhead = 8

type result struct {
	heads []head
	err   error
}

// ahead yields get(0) to get(n-1), which it calls for the next ones while the caller works
// at one. When it returns, none of them runs.
func ahead[T any](n int, get func(i int) T) iter.Seq[T] {
	return func(yield func(T) bool) {
		var pending []chan T
		defer func() {
			for _, one := range pending {
				<-one
			}
		}()
		for next := 0; next < n || len(pending) > 0; {
			for ; next < n && len(pending) < readAhead; next++ {
				i, one := next, make(chan T, 1)
				pending = append(pending, one)
				go func() { one <- get(i) }()
			}
			one := <-pending[0]
			pending = pending[1:]
			if !yield(one) {
				return
			}
		}
	}
}
