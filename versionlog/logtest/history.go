package logtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"mneme/versionlog"

	"golang.org/x/sys/unix"
)

// History records calls of logs and checks that they are linearizable. It may
// be used from many goroutines, and histories of several processes of one
// machine can be joined: their clock is the machine's monotonic one. A call
// whose reply was lost must be repeated with the same key until it is settled,
// within one recorded call.
type History struct {
	mu    sync.Mutex // guards Calls
	Calls []Call
}

// CallKind is the kind of a recorded call.
type CallKind string

// The recorded calls: those for which the contract promises linearizability.
const (
	CallCommit CallKind = "commit"
	CallHead   CallKind = "head"
	CallLast   CallKind = "last"
	CallTip    CallKind = "tip"

	CallPromote CallKind = "promote"
	CallImport  CallKind = "import"
)

// Call is one call and its outcome, in a form that can be sent as JSON.
type Call struct {
	Kind    CallKind
	StoreID string
	Path    string            // head, last
	Changes []Change          // commit
	Under   uint64            // commit: the epoch that it is proposed in, 0 for any; import: the one it is of
	After   uint64            // import: the sequence number that the commit follows,
	AfterIs versionlog.Digest // and its digest
	Invoked int64             // ns on the machine's monotonic clock
	Replied int64

	Outcome   Outcome
	Conflicts map[string]string    // for a conflict: version id of the head by path, "" for none
	Seq       uint64               // commit, promote, import, tip
	Epoch     uint64               // promote; commit, where it made one
	Prev      versionlog.Digest    // commit, promote, import
	Digest    versionlog.Digest    // commit, promote, import, tip: of the chain
	Versions  []versionlog.Version // commit; head and last: one
}

// Outcome is how a call ended.
type Outcome string

// The outcomes that the model knows. Any other error is its text, and fails
// the check.
const (
	OutcomeOK       Outcome = ""
	OutcomeConflict Outcome = "conflict"
	OutcomeOverlap  Outcome = "overlap"
	OutcomeNotFound Outcome = "not found"
	OutcomeFenced   Outcome = "fenced"
	OutcomeInvalid  Outcome = "invalid"
)

// Change is a versionlog.Change whose expectation is spelled out.
type Change struct {
	Action  versionlog.Action
	Path    string
	To      string
	Digest  versionlog.Digest
	Size    int64
	Expect  ExpectKind
	Version string            // for ExpectVersion
	Content versionlog.Digest // for ExpectDigest
}

// ExpectKind is the kind of an expectation.
type ExpectKind string

// The kinds of expectations.
const (
	ExpectAny     ExpectKind = "any"
	ExpectAbsent  ExpectKind = "absent"
	ExpectExists  ExpectKind = "exists"
	ExpectVersion ExpectKind = "version"
	ExpectDigest  ExpectKind = "digest"
)

// Expectation returns what the change expects of its path.
func (c *Change) Expectation() versionlog.Expectation {
	switch c.Expect {
	case ExpectAny:
		return versionlog.ExpectAny()
	case ExpectAbsent:
		return versionlog.ExpectAbsent()
	case ExpectExists:
		return versionlog.ExpectExists()
	case ExpectVersion:
		return versionlog.ExpectVersion(c.Version)
	case ExpectDigest:
		return versionlog.ExpectDigest(c.Content)
	}
	return versionlog.Expectation{}
}

func propose(changes []Change) *versionlog.Proposal {
	p := proposal()
	for _, c := range changes {
		p.Changes = append(p.Changes, versionlog.Change{
			Action: c.Action, Path: c.Path, To: c.To, Digest: c.Digest, Size: c.Size, Expect: c.Expectation(),
		})
	}
	return p
}

// Commit proposes changes to l under a fresh key and records the call.
func (h *History) Commit(ctx context.Context, l versionlog.Log, storeID string, changes ...Change) Call {
	return h.CommitUnder(ctx, l, storeID, 0, changes...)
}

// CommitUnder proposes changes in an epoch, 0 for any.
func (h *History) CommitUnder(ctx context.Context, l versionlog.Log, storeID string, epoch uint64, changes ...Change) Call {
	p := propose(changes)
	p.Epoch = epoch
	return h.commit(ctx, l, p, Call{Kind: CallCommit, StoreID: storeID, Changes: changes, Under: epoch})
}

// Promote begins a new epoch of a store and records the call.
func (h *History) Promote(ctx context.Context, l versionlog.Log, storeID string) Call {
	return h.commit(ctx, l, event(versionlog.StorePromoted()), Call{Kind: CallPromote, StoreID: storeID})
}

// Import makes a commit that follows the tip of a store, elsewhere, imports it and
// records the call.
func (h *History) Import(ctx context.Context, l versionlog.Log, storeID string) (Call, error) {
	store, err := l.Store(ctx, storeID)
	if err != nil {
		return Call{}, err
	}
	tip, err := l.Tip(ctx, storeID)
	if err != nil {
		return Call{}, err
	}
	text := versionlog.NewKey()
	p := event(versionlog.StoreUpdated(versionlog.StoreUpdate{Description: &text}))
	if p.Finished, err = versionlog.Build(nil, store, tip, p, time.Now()); err != nil {
		return Call{}, err
	}
	call := Call{Kind: CallImport, StoreID: storeID, Under: p.Finished.Epoch, After: tip.Seq, AfterIs: tip.Digest}
	return h.commit(ctx, l, p, call), nil
}

func (h *History) commit(ctx context.Context, l versionlog.Log, p *versionlog.Proposal, call Call) Call {
	return h.record(call, func(call *Call) error {
		c, err := l.Commit(ctx, call.StoreID, p)
		if err == nil {
			call.Seq, call.Epoch, call.Prev, call.Digest, call.Versions = c.Seq, c.Epoch, c.Prev, c.Digest, c.Versions
		}
		return err
	})
}

// Head asks l for the head of a path and records the call.
func (h *History) Head(ctx context.Context, l versionlog.Log, storeID, path string) Call {
	return h.record(Call{Kind: CallHead, StoreID: storeID, Path: path}, func(call *Call) error {
		v, err := l.Head(ctx, storeID, path)
		call.Versions = []versionlog.Version{v}
		return err
	})
}

// Last asks l for the last version at a path and records the call.
func (h *History) Last(ctx context.Context, l versionlog.Log, storeID, path string) Call {
	return h.record(Call{Kind: CallLast, StoreID: storeID, Path: path}, func(call *Call) error {
		v, err := l.Last(ctx, storeID, path)
		call.Versions = []versionlog.Version{v}
		return err
	})
}

// Tip asks l for the tip of a store and records the call.
func (h *History) Tip(ctx context.Context, l versionlog.Log, storeID string) Call {
	return h.record(Call{Kind: CallTip, StoreID: storeID}, func(call *Call) error {
		tip, err := l.Tip(ctx, storeID)
		call.Seq, call.Digest = tip.Seq, tip.Digest
		return err
	})
}

func (h *History) record(call Call, do func(*Call) error) Call {
	call.Invoked = monotonic()
	err := do(&call)
	call.Replied = monotonic()
	call.fail(err)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.Calls = append(h.Calls, call)
	return call
}

// fail notes the error of a call.
func (c *Call) fail(err error) {
	var conflict *versionlog.ConflictError
	switch {
	case err == nil:
	case errors.As(err, &conflict):
		c.Outcome, c.Conflicts = OutcomeConflict, map[string]string{}
		for _, one := range conflict.Conflicts {
			c.Conflicts[one.Path] = ""
			if one.Head != nil {
				c.Conflicts[one.Path] = one.Head.ID
			}
		}
	case errors.Is(err, versionlog.ErrOverlap):
		c.Outcome = OutcomeOverlap
	case errors.Is(err, versionlog.ErrNotFound):
		c.Outcome = OutcomeNotFound
	case errors.Is(err, versionlog.ErrFenced):
		c.Outcome = OutcomeFenced
	case errors.Is(err, versionlog.ErrInvalid):
		c.Outcome = OutcomeInvalid
	default:
		c.Outcome = Outcome(err.Error())
	}
}

func monotonic() int64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		panic(fmt.Sprintf("clock_gettime: %v", err)) // it has no way to fail
	}
	return now.Nano()
}

// Check returns an error unless there is an order of all calls that agrees
// with real time and with what the contract says each must return: every
// expectation judged at one moment, sequence numbers 1, 2, 3, ... in that
// order, heads and digest chain to match. It gives up, with an error, after
// timeout. Stores are checked one by one: no call speaks of two, so a history
// is linearizable exactly when it is so store by store.
func (h *History) Check(timeout time.Duration) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	stores := map[string][]Call{}
	for _, c := range h.Calls {
		stores[c.StoreID] = append(stores[c.StoreID], c)
	}
	for id, calls := range stores {
		if err := checkStore(calls, timeout); err != nil {
			return fmt.Errorf("history of store %s, %d calls: %w", id, len(calls), err)
		}
	}
	return nil
}
