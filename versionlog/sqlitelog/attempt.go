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
//     or it has waited for too long. One that is given up later is not put back to the queue.
//  3. Every attempt is judged against the state that those before it have left, and undone alone
//     if it fails.
//  4. After the sync, which all of them succeed or fail with, readers and followers learn of the
//     commits. Then the attempts end, and only then the turn does.
//
// If SQLite undoes the whole transaction for the failure of one attempt, that one ends, and the
// others go back to the queue. If the transaction itself fails, all of them do, also those that
// were refused: the reason may be something that is not there now.
type attempt struct {
	ctx      context.Context
	storeID  string
	proposal *versionlog.Proposal
	drafted  *draft

	// The fields below belong to the goroutine that has the turn until done is closed.
	commit   *versionlog.Commit
	appended bool
	row      storeRow // after the commit
	err      error
	done     chan struct{}

	givenUp error // why its goroutine has given it up, guarded by the queue
}

// isAlone reports whether an attempt shares no transaction: what it does is not of this database
// alone, or takes long.
func (a *attempt) isAlone() bool {
	return a.proposal.Event != nil || a.proposal.Finished != nil || len(a.proposal.Changes) >= mostTogether
}

// end ends an attempt, with an error or with what it was judged to be.
func (a *attempt) end(err error) {
	if err != nil {
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
	mu      sync.Mutex // guards waiting, and why attempts are given up
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
	var again []*attempt
	for _, a := range attempts {
		if a.givenUp != nil {
			a.end(a.givenUp)
		} else {
			again = append(again, a)
		}
	}
	q.waiting = append(again, q.waiting...)
}

// giveUp ends an attempt with an error, unless it was taken: then only if it would be put back.
func (q *queue) giveUp(a *attempt, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	a.givenUp = err
	if i := slices.Index(q.waiting, a); i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
		a.end(err)
	}
}
