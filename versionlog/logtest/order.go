package logtest

import (
	"cmp"
	"fmt"
	"slices"
)

// Span is when a call was made and had ended, on any one clock, and the sequence
// number of the commit that it made, 0 for none.
type Span struct {
	Invoked, Replied int64
	Seq              uint64
}

// Order returns an error unless the calls made of one store are linearizable; it
// names the call that does not fit. It takes no search, since commits are
// numbered, and each call that makes none goes to the first state that allows
// what it returned. after returns the state after a call, and whether the call
// can have ended as it did; all calls must have ended.
func Order[S, C any](start S, calls []C, span func(*C) Span, after func(S, *C) (S, bool)) error {
	type spanned struct {
		Span
		call *C
	}
	var commits, others []spanned
	for i := range calls {
		if c := (spanned{span(&calls[i]), &calls[i]}); c.Seq > 0 {
			commits = append(commits, c)
		} else {
			others = append(others, c)
		}
	}
	slices.SortStableFunc(commits, func(a, b spanned) int { return cmp.Compare(a.Seq, b.Seq) })
	slices.SortStableFunc(others, func(a, b spanned) int { return cmp.Compare(a.Invoked, b.Invoked) })

	states := []S{start} // by sequence number
	for i, c := range commits {
		next, ok := after(states[i], c.call)
		if !ok {
			return fmt.Errorf("commit %d is not what its call makes of commit %d: %+v", c.Seq, i, *c.call)
		}
		for _, later := range commits[i+1:] {
			if later.Replied < c.Invoked {
				return fmt.Errorf("commit %d had ended when commit %d began", later.Seq, c.Seq)
			}
		}
		states = append(states, next)
	}
	at := make([]int, len(others)) // of each call, the state it goes to
	for i, c := range others {
		last := len(commits)
		for n, commit := range commits {
			if commit.Replied < c.Invoked {
				at[i] = max(at[i], n+1)
			}
			if commit.Invoked > c.Replied {
				last = min(last, n)
			}
		}
		for n, before := range others[:i] {
			if before.Replied < c.Invoked {
				at[i] = max(at[i], at[n])
			}
		}
		first := at[i]
		for ; ; at[i]++ {
			if at[i] > last {
				return fmt.Errorf("no state from %d to %d allows %+v", first, last, *c.call)
			}
			if _, ok := after(states[at[i]], c.call); ok {
				break
			}
		}
	}
	return nil
}
