package memory_test

import (
	"cmp"
	"fmt"
	"slices"
)

// ordered finds the order of the calls made of one store, as linearizable does,
// in a time that grows with their number alone: commits are numbered, and each
// call that changes nothing goes to the first state that allows what it returned.
func ordered(calls []storeCall) error {
	var commits, others []*storeCall
	for i := range calls {
		if c := &calls[i]; c.outcome == "" && (c.kind == callAppend || c.kind == callBatch) {
			commits = append(commits, c)
		} else {
			others = append(others, c)
		}
	}
	slices.SortFunc(commits, func(a, b *storeCall) int { return cmp.Compare(a.seq, b.seq) })
	slices.SortFunc(others, func(a, b *storeCall) int { return cmp.Compare(a.invoked, b.invoked) })

	states := []*storeState{{}} // by sequence number
	for i, c := range commits {
		next := states[i].after(c)
		if next == nil {
			return fmt.Errorf("commit %d is not what its call makes of commit %d: %+v", c.seq, i, *c)
		}
		for _, later := range commits[i+1:] {
			if later.replied < c.invoked {
				return fmt.Errorf("commit %d had ended when commit %d began", later.seq, c.seq)
			}
		}
		states = append(states, next)
	}
	at := make([]int, len(others)) // of each call, the state it goes to
	for i, c := range others {
		last := len(commits)
		for n, commit := range commits {
			if commit.replied < c.invoked {
				at[i] = max(at[i], n+1)
			}
			if commit.invoked > c.replied {
				last = min(last, n)
			}
		}
		for n, before := range others[:i] {
			if before.replied < c.invoked {
				at[i] = max(at[i], at[n])
			}
		}
		first := at[i]
		for at[i] <= last && states[at[i]].after(c) == nil {
			at[i]++
		}
		if at[i] > last {
			return fmt.Errorf("no state from %d to %d allows %+v", first, last, *c)
		}
	}
	return nil
}
