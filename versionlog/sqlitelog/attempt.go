package sqlitelog

import (
	"context"
	"slices"
	"sync"

	"mneme/versionlog"
)

// mostTogether is how many changes the proposals of one transaction have, unless it has only one.
const mostTogether = draftFrom

// attempt is a proposal on its way into the history. Proposals that wait for the writers' turn
// share a transaction, and thereby a sync:
//
//  1. An attempt is queued, and its goroutine waits for the turn or for the end of the attempt.
//  2. The goroutine that gets the turn begins a transaction, and only then takes attempts
//     from the queue, the oldest first. Until then each attempt can be given up: its context ends,
//     or it has waited for too long.
//  3. Every attempt is judged against what those before it have left, and undone alone if it fails.
//  4. After the sync, which all of them succeed or fail with, readers and followers learn of the
//     commits. Then the attempts end, and only then the turn does.
//
// If SQLite undoes the whole transaction for the failure of one attempt, that one ends, and the
// others go back to the queue.
type attempt struct {
	ctx      context.Context
	storeID  string
	proposal *versionlog.Proposal
	drafted  *draft

	// What follows belongs to the goroutine that has the turn until done is closed.
	commit   *versionlog.Commit
	appended bool
	row      storeRow // after the commit
	err      error
	done     chan struct{}
}

// isAlone reports whether an attempt shares no transaction: what it does is not of this database
// alone, or takes long.
func (a *attempt) isAlone() bool {
	return a.proposal.Event != nil || a.proposal.Finished != nil || len(a.proposal.Changes) >= mostTogether
}

// end ends an attempt.
func (a *attempt) end(err error) {
	if a.err == nil {
		a.err = err
	}
	close(a.done)
}

func (a *attempt) isDone() bool {
	select {
	case <-a.done:
		return true
	default:
		return false
	}
}

// queue are the attempts that wait for the writers' turn.
type queue struct {
	mu      sync.Mutex // guards waiting
	waiting []*attempt
}

func (q *queue) add(a *attempt) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(q.waiting, a)
}

// take removes the attempts of the next transaction.
func (q *queue) take() []*attempt {
	q.mu.Lock()
	defer q.mu.Unlock()
	changes, n := 0, 0
	for ; n < len(q.waiting); n++ {
		a := q.waiting[n]
		if changes += max(1, len(a.proposal.Changes)); n > 0 && (a.isAlone() || changes > mostTogether) {
			break
		}
		if a.isAlone() {
			n++
			break
		}
	}
	taken := slices.Clone(q.waiting[:n])
	q.waiting = slices.Delete(q.waiting, 0, n)
	return taken
}

// putBack returns attempts that were taken.
func (q *queue) putBack(attempts []*attempt) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = slices.Concat(attempts, q.waiting)
}

// remove reports whether an attempt was still waiting.
func (q *queue) remove(a *attempt) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.Index(q.waiting, a)
	if i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
	}
	return i >= 0
}
