// Package logfault wraps a log for tests, which interferes with what one session asks of
// it: it calls hooks beside a request, holds requests until the test lets them go on,
// loses commits and their replies, hands heads out in small pages that are old by the
// time they arrive, and is down.
package logfault

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"mneme/versionlog"
)

// ErrDown is what requests end with that are to fail.
var ErrDown = errors.New("the log is down")

// Point is a moment of a request, which a hook or a hold can be set for.
type Point int

const (
	BeforeCommit Point = iota // of the session's
	AfterCommit               // of the session's: it is made, or refused, and its reply not yet here
	BeforeTip                 // before the tip is looked up
	AfterHead                 // a head is read, and not yet handed out
	AfterPage                 // a page of heads is read, and not yet handed out
	points
)

// Fate is what becomes of a commit. But for the first and the last, the caller is told ErrDown.
type Fate int

const (
	Made    Fate = iota
	Unheard      // made, and its reply is lost
	Unmade
	Settled // made; its reply is lost, and the log looks up its outcome: the caller gets the commit's state at that time
)

func (f Fate) String() string { return []string{"made", "made, unheard", "not made", "settled"}[f] }

// Options say how a Log behaves; nil and the zero value are the default.
type Options struct {
	Session  string // whose commits it interferes with
	PageSize int    // of heads; each page is read by itself. 0: they are not divided
}

// Log is a log that interferes. Its methods may be called at once from many goroutines;
// hooks are called without a lock.
type Log struct {
	versionlog.Log
	opts  Options
	keys  sync.Map     // that were proposed
	down  atomic.Bool  // reads of heads end in ErrDown
	knows atomic.Bool  // the tip, at once
	fresh atomic.Bool  // every new key has to be called so
	reads atomic.Int64 // of heads
	delay atomic.Int64 // of each request, in nanoseconds

	mu    sync.Mutex // guards the fields below
	next  [points][]func()
	each  [points]func()
	holds [points][]*Hold
	fate  func() Fate
}

// New returns log with nothing set that interferes.
func New(log versionlog.Log, opts *Options) *Log {
	l := &Log{Log: log}
	if opts != nil {
		l.opts = *opts
	}
	return l
}

// Next has a hook called when a request next comes to a point, after those that were
// set for it before.
func (l *Log) Next(p Point, hook func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next[p] = append(l.next[p], hook)
}

// Each has a hook called whenever a request comes to a point, instead of the one that was
// set before; nil ends that.
func (l *Log) Each(p Point, hook func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.each[p] = hook
}

// Forget drops the hooks of Next that have not been called.
func (l *Log) Forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next = [points][]func(){}
}

// SetFate has a function say what becomes of each commit of the session's; nil: all are made.
func (l *Log) SetFate(fate func() Fate) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fate = fate
}

// SetFates gives each of the session's next commits its fate.
func (l *Log) SetFates(fates ...Fate) {
	l.SetFate(func() Fate {
		l.mu.Lock()
		defer l.mu.Unlock()
		if len(fates) == 0 {
			return Made
		}
		next := fates[0]
		fates = fates[1:]
		return next
	})
}

// SetDown says whether reads of heads fail.
func (l *Log) SetDown(down bool) { l.down.Store(down) }

// IsDown reports whether reads of heads fail.
func (l *Log) IsDown() bool { return l.down.Load() }

// SetKnowsTip says whether the log tells its tip at once.
func (l *Log) SetKnowsTip(knows bool) { l.knows.Store(knows) }

// RequireFresh refuses proposals of the session's whose key is new and not called so. That
// a key is called fresh which is not is refused always.
func (l *Log) RequireFresh() { l.fresh.Store(true) }

// SetDelay makes each request take a time, or until its caller gives up.
func (l *Log) SetDelay(d time.Duration) { l.delay.Store(int64(d)) }

// Reads returns how often heads were read since ResetReads: each page counts.
func (l *Log) Reads() int64 { return l.reads.Load() }

// ResetReads sets the count to zero.
func (l *Log) ResetReads() { l.reads.Store(0) }

// Hold is one request that waits at a point.
type Hold struct {
	reached, released chan struct{}
	once              sync.Once
}

// Hold makes the next request that comes to a point wait there, until it is released or
// its caller gives up, which then is told why. Hooks of the point are called before.
func (l *Log) Hold(p Point) *Hold {
	h := &Hold{reached: make(chan struct{}), released: make(chan struct{})}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holds[p] = append(l.holds[p], h)
	return h
}

// Reached is closed when a request waits.
func (h *Hold) Reached() <-chan struct{} { return h.reached }

// Release lets the request go on.
func (h *Hold) Release() { h.once.Do(func() { close(h.released) }) }

// at is called by a request that has come to a point.
func (l *Log) at(ctx context.Context, p Point) error {
	l.mu.Lock()
	hooks := l.next[p]
	l.next[p] = nil
	if l.each[p] != nil {
		hooks = append(hooks, l.each[p])
	}
	var hold *Hold
	if len(l.holds[p]) > 0 {
		hold = l.holds[p][0]
		l.holds[p] = l.holds[p][1:]
	}
	l.mu.Unlock()
	for _, hook := range hooks {
		hook()
	}
	if hold == nil {
		return nil
	}
	close(hold.reached)
	select {
	case <-hold.released:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *Log) wait(ctx context.Context) error {
	d := time.Duration(l.delay.Load())
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Capabilities hides those of the log beneath, whose commits would come past l.
func (l *Log) Capabilities() versionlog.Capabilities {
	return versionlog.Capabilities{KnownTip: l.knownTip}
}

func (l *Log) knownTip(store string) (versionlog.Tip, bool) {
	if !l.knows.Load() {
		return versionlog.Tip{}, false
	}
	tip, err := l.Log.Tip(context.Background(), store)
	return tip, err == nil
}

func (l *Log) Tip(ctx context.Context, store string) (versionlog.Tip, error) {
	if err := l.at(ctx, BeforeTip); err != nil {
		return versionlog.Tip{}, err
	}
	if err := l.wait(ctx); err != nil {
		return versionlog.Tip{}, err
	}
	return l.Log.Tip(ctx, store)
}

func (l *Log) Commit(ctx context.Context, store string, p *versionlog.Proposal) (*versionlog.Commit, error) {
	if p.Session != l.opts.Session {
		return l.Log.Commit(ctx, store, p)
	}
	if _, again := l.keys.LoadOrStore(p.Key, true); again && p.Fresh || !again && !p.Fresh && l.fresh.Load() {
		return nil, fmt.Errorf("%w: key %s is called fresh: %v", versionlog.ErrInvalid, p.Key, p.Fresh)
	}
	if err := l.at(ctx, BeforeCommit); err != nil {
		return nil, err
	}
	if err := l.wait(ctx); err != nil {
		return nil, err
	}
	fate := l.nextFate()
	if fate == Unmade {
		return nil, ErrDown
	}
	c, err := l.Log.Commit(ctx, store, p)
	if err := l.at(ctx, AfterCommit); err != nil {
		return nil, err
	}
	switch {
	case fate == Unheard:
		return nil, ErrDown
	case fate == Settled && err == nil:
		again := *p
		again.Fresh = false
		return l.Log.Commit(ctx, store, &again)
	}
	return c, err
}

func (l *Log) nextFate() Fate {
	l.mu.Lock()
	fate := l.fate
	l.mu.Unlock()
	if fate == nil {
		return Made
	}
	return fate()
}

func (l *Log) Head(ctx context.Context, store, path string) (versionlog.Version, error) {
	l.reads.Add(1)
	if err := l.wait(ctx); err != nil {
		return versionlog.Version{}, err
	}
	if l.down.Load() {
		return versionlog.Version{}, ErrDown
	}
	v, err := l.Log.Head(ctx, store, path)
	if err := l.at(ctx, AfterHead); err != nil {
		return versionlog.Version{}, err
	}
	return v, err
}

func (l *Log) Heads(ctx context.Context, store, prefix, after string) iter.Seq2[versionlog.Version, error] {
	return l.paged(ctx, func() iter.Seq2[versionlog.Version, error] { return l.Log.Heads(ctx, store, prefix, after) })
}

func (l *Log) Children(ctx context.Context, store, dir string) iter.Seq2[versionlog.Version, error] {
	return l.paged(ctx, func() iter.Seq2[versionlog.Version, error] { return l.Log.Children(ctx, store, dir) })
}

// paged yields what walks yield, each of which is one more reading of the same heads: the
// n-th page is of the n-th.
func (l *Log) paged(ctx context.Context, walk func() iter.Seq2[versionlog.Version, error]) iter.Seq2[versionlog.Version, error] {
	return func(yield func(versionlog.Version, error) bool) {
		for last, more := "", true; more; {
			l.reads.Add(1)
			var page []versionlog.Version
			var err error
			page, more, err = l.page(walk(), last)
			err = errors.Join(err, l.at(ctx, AfterPage), l.wait(ctx))
			if l.down.Load() {
				err = ErrDown
			}
			if err != nil {
				yield(versionlog.Version{}, err)
				return
			}
			for _, v := range page {
				if !yield(v, nil) {
					return
				}
				last = v.Path
			}
		}
	}
}

// page returns the heads that follow a path, as many as a page has, and whether there may
// be more.
func (l *Log) page(walk iter.Seq2[versionlog.Version, error], after string) (page []versionlog.Version, more bool, err error) {
	for v, err := range walk {
		if err != nil {
			return nil, false, err
		}
		if v.Path > after && (l.opts.PageSize == 0 || len(page) < l.opts.PageSize) {
			page = append(page, v)
		}
	}
	return page, l.opts.PageSize > 0 && len(page) == l.opts.PageSize, nil
}
