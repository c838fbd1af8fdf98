// Package plugin is the memory of a host that calls it between turns: Recall, Remember and
// Health, with structured data only. Each answers within its deadline, whatever is wrong: with
// less, and with the reason. It has no errors, and it never returns text that is meant to be an
// instruction: the host decides which texts to put into a prompt, and how.
//
// The comment of within explains how a call is kept within its deadline, and that of Remember
// the life of a turn. Nothing here logs the content of a memory, or the text of a request.
package plugin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"mneme/errkind"
	"mneme/tools"
)

// Options say how a Provider behaves; nil and the zero value are the default.
type Options struct {
	Deadline   time.Duration // of each answer; 0: 2 seconds
	MaxRequest int           // bytes of a request; 0: 8 MiB, or four times the largest memory
	Version    string        // of mneme
	Logger     *slog.Logger  // nil discards
}

// Provider has the memory of a host: all stores for Recall, of which Remember writes to the
// first that may be written at that time. Its methods may be called at once from many
// goroutines.
type Provider struct {
	opts    Options
	memory  *tools.Memory
	writing chan struct{} // held by the turn that is being written

	calls   sync.WaitGroup
	slots   chan struct{} // one is held by each call, until it has ended
	overdue atomic.Int64  // calls that were answered and have not ended
}

// maxCalls is how many calls work at once.
const maxCalls = 8

// New returns a Provider of the stores of m. They and m stay the caller's.
func New(m *tools.Memory, opts *Options) *Provider {
	p := &Provider{memory: m, writing: make(chan struct{}, 1), slots: make(chan struct{}, maxCalls)}
	if opts != nil {
		p.opts = *opts
	}
	if p.opts.Deadline == 0 {
		p.opts.Deadline = 2 * time.Second
	}
	if p.opts.Logger == nil {
		p.opts.Logger = slog.New(slog.DiscardHandler)
	}
	return p
}

// Close returns when all calls have ended, also those that were answered without their
// work. No other method may be called after.
func (p *Provider) Close() { p.calls.Wait() }

// about describes the Provider.
func (p *Provider) about() About {
	a := About{Name: "mneme", Version: p.opts.Version, Kind: "lexical", Capabilities: []string{"recall"}}
	if p.takes() != nil {
		a.Capabilities = append(a.Capabilities, "remember")
	}
	return a
}

// takes returns the store to which Remember writes now; nil: all are only read.
func (p *Provider) takes() *tools.Place {
	for _, place := range p.memory.Places() {
		if mayWrite(&place) {
			return &place
		}
	}
	return nil
}

// mayWrite reports whether a store may be written now, as far as is known: the rights of a
// credential may have changed.
func mayWrite(place *tools.Place) bool { return place.Session != nil && place.Store.MayWrite() }

// within returns the result of work or, if that does not come in time, the result of late.
//
//  1. A call takes one of maxCalls slots. If none is free before the deadline, or overdue calls
//     hold all of them, the call is not begun.
//  2. work gets a context that ends a twentieth before the deadline, so that it can return its
//     results so far.
//  3. At the deadline late answers, from results that work has left where both can see them. If
//     work does not obey its context, it is overdue: it holds its slot until it ends, and Close
//     waits for it.
//  4. A panic of work is logged without its value, and late answers.
//
// late is given the reason, and must not wait for anything that work does.
func within[T any](ctx context.Context, p *Provider, work func(context.Context) T, late func(reason string) T) T {
	ctx, cancel := context.WithTimeout(ctx, p.opts.Deadline)
	defer cancel()
	if !p.begin(ctx) {
		return late(reasonBusy)
	}
	one := &call{p: p, ended: make(chan struct{})}
	answer := make(chan T, 1)
	p.calls.Go(func() {
		defer one.end()
		deadline, _ := ctx.Deadline() // of the caller, maybe
		inner, cancel := context.WithDeadline(ctx, deadline.Add(-time.Until(deadline)/20))
		defer cancel()
		defer p.catch(nil)
		answer <- work(inner)
	})
	select {
	case <-one.ended:
	case <-ctx.Done():
		one.isLate()
	}
	select {
	case got := <-answer:
		return got
	default:
	}
	switch {
	case ctx.Err() == nil:
		return late(reasonPanic)
	case errors.Is(ctx.Err(), context.Canceled):
		return late(reasonCanceled)
	}
	return late(reasonDeadline)
}

// begin takes a slot, and reports whether there was one.
func (p *Provider) begin(ctx context.Context) bool {
	select {
	case p.slots <- struct{}{}:
		return true
	default:
	}
	if p.overdue.Load() >= maxCalls {
		return false
	}
	select {
	case p.slots <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// call is one call at work.
type call struct {
	p     *Provider
	ended chan struct{}

	mu   sync.Mutex
	late bool
	done bool
}

// isLate notes that the call is answered without the result of its work.
func (c *call) isLate() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.done {
		c.late = true
		c.p.overdue.Add(1)
	}
}

// end gives the slot back.
func (c *call) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done = true
	if c.late {
		c.p.overdue.Add(-1)
	}
	<-c.p.slots
	close(c.ended)
}

// catch, deferred, ends a panic, and calls then if that is not nil.
func (p *Provider) catch(then func()) {
	if caught := recover(); caught != nil {
		p.opts.Logger.Error("panic", "type", fmt.Sprintf("%T", caught), "stack", string(debug.Stack()))
		if then != nil {
			then()
		}
	}
}

// The reasons for which an answer is degraded that more than one call has.
const (
	reasonBusy     = "busy: too many calls have not ended; the store does not answer"
	reasonPanic    = "broken: something went wrong in mneme itself; its log says where"
	reasonDeadline = "deadline: the store did not answer in time"
	reasonCanceled = "canceled: the caller did not wait for the answer"
	reasonNoStore  = "no store can be written here"
)

// diagnostics are those of an answer: with reasons it is degraded.
func (p *Provider) diagnostics(began time.Time, reasons ...string) Diagnostics {
	if reasons == nil {
		reasons = []string{}
	}
	return Diagnostics{Degraded: len(reasons) > 0, Reasons: reasons, TookMS: time.Since(began).Milliseconds()}
}

// reasonOf says why a store did not do something. It has only the kind of a backend's
// error, whose text may hold private details; the log has the rest.
func (p *Provider) reasonOf(store, op string, err error) string {
	kind := errkind.Of(err)
	p.opts.Logger.Warn("call failed", "op", op, "store", store, "kind", kind.String(), "err", err)
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Sprintf("deadline: store %s did not answer in time", store)
	}
	why := map[errkind.Kind]string{
		errkind.Corrupt: "is damaged", errkind.Rewritten: "has another history than before", errkind.Denied: "may not be used", errkind.Unauthenticated: "takes a credential that counts",
		errkind.NoSpace: "has no room: the disk is full", errkind.OverQuota: "has no room: a quota is used up", errkind.ReadOnly: "is read-only",
		errkind.Archived: "is archived", errkind.Policy: "holds it back by its policy", errkind.TooLarge: "takes no memory of that size", errkind.NotText: "takes text only",
		errkind.NotFound: "is not there", errkind.Missing: "is not there", errkind.Overlap: "has a file where a directory would be",
	}[kind]
	if why == "" {
		why = "does not answer"
	}
	return fmt.Sprintf("%s: store %s %s", kind, store, why)
}

// retryOf says whether what a store has refused with an error of a kind can succeed later.
func retryOf(kind errkind.Kind) Retry {
	if kind.Retryable() || kind == errkind.Unknown {
		return Later
	}
	return Never
}

// logCall logs a call without its texts.
func (p *Provider) logCall(method string, d *Diagnostics) {
	p.opts.Logger.Debug("call", "method", method, "degraded", d.Degraded, "took", time.Duration(d.TookMS)*time.Millisecond)
}
