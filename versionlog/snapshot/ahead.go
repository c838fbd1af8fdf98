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
			heads, err := read(ctx, s, &s.heads, i, decodeHead)
			return result{heads, err}
		}) {
			if page.err != nil {
				yield(versionlog.Version{}, page.err)
				return
			}
			for _, h := range page.heads {
				if !yield(versionlog.Version(h), nil) {
					return
				}
			}
		}
	}
}

// readAhead is how many pages are read at a time.
const readAhead = 4

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
