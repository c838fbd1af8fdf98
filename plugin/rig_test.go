package plugin

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"mneme/cas"
	"mneme/cas/memcas"
	"mneme/internal/testing/logfault"
	"mneme/memory"
	"mneme/session"
	"mneme/tools"
	"mneme/versionlog"
	"mneme/versionlog/memlog"
)

// rig is a Provider of a session, "mine", and the stores as another session has them.
type rig struct {
	*testing.T
	*Provider
	log    *logfault.Log
	blobs  *blobs
	lib    *memory.Library
	stores []*memory.Store
	logged logged
}

// logged is what was logged, by any number of loggers.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// rigOptions say what a rig is made of; nil and the zero value are the default.
type rigOptions struct {
	plugin Options
	stores []string // slugs, with :ro of those that are only read; nil: notes
	create memory.StoreOptions
}

func newRig(t *testing.T, o *rigOptions) *rig {
	t.Helper()
	if o == nil {
		o = &rigOptions{}
	}
	if o.stores == nil {
		o.stores = []string{"notes"}
	}
	r := &rig{T: t, log: logfault.New(memlog.New(&memlog.Options{Now: clock()}), &logfault.Options{Session: "mine"}), blobs: &blobs{Store: memcas.New()}}
	r.log.SetKnowsTip(true)
	r.blobs.set(-1, nil)
	r.lib = memory.NewLibrary(r.log, func(string) (cas.Store, error) { return r.blobs, nil })
	for _, slug := range o.stores {
		info, err := r.lib.CreateStore(t.Context(), strings.TrimSuffix(slug, ":ro"), &o.create)
		r.must(err)
		r.stores = append(r.stores, r.openAs(info.ID, "other"))
	}
	r.Provider = r.provider("mine", o)
	return r
}

// clock returns a clock that goes on by a second each time that it is looked at.
func clock() func() time.Time {
	var seconds atomic.Int64
	return func() time.Time { return time.Unix(1_800_000_000+seconds.Add(1), 0) }
}

// provider returns a Provider of a session of the same stores.
func (r *rig) provider(id string, o *rigOptions) *Provider {
	r.Helper()
	var places []tools.Place
	for i, slug := range o.stores {
		p := tools.Place{Store: r.openAs(r.stores[i].Info().ID, id)}
		if !strings.HasSuffix(slug, ":ro") {
			p.Session = session.New(p.Store, &session.Options{ID: id})
			r.Cleanup(p.Session.Close)
		}
		places = append(places, p)
	}
	opts := o.plugin
	opts.Version = "test"
	opts.Logger = slog.New(slog.NewJSONHandler(&r.logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
	m := tools.New(places, &tools.Options{Logger: opts.Logger})
	p := New(m, &opts)
	r.Cleanup(p.Close)
	return p
}

func (r *rig) openAs(store, id string) *memory.Store {
	r.Helper()
	st, err := r.lib.Open(context.Background(), store, memory.SessionAuthor(id))
	r.must(err)
	return st
}

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// theirs writes a memory of the first store as the other session.
func (r *rig) theirs(path, text string) versionlog.Version {
	r.Helper()
	v, err := r.stores[0].Write(r.Context(), path, []byte(text), versionlog.ExpectAny())
	r.must(err)
	return v
}

// find is Recall of a text.
func (r *rig) find(text string) Recall { return r.Recall(r.Context(), Request{QueryText: text}) }

// found fails the test unless Recall of a text has these paths, in this order.
func (r *rig) found(text, want string) {
	r.Helper()
	var paths []string
	for _, one := range r.find(text).Items {
		paths = append(paths, one.Path)
	}
	if got := strings.Join(paths, " "); got != want {
		r.Errorf("%q finds %q, want %q", text, got, want)
	}
}

// turnOne is a batch of one turn.
func turnOne(thread, turn string, texts ...string) Batch {
	b := Batch{Request: Request{ThreadID: thread, TurnID: turn}}
	for _, text := range texts {
		b.Entries = append(b.Entries, Entry{Role: "user", Text: text})
	}
	return b
}

// commits fails the test unless the first store has so many.
func (r *rig) commits(want uint64) {
	r.Helper()
	if tip, err := r.stores[0].Tip(context.Background()); err != nil || tip.Seq != want {
		r.Errorf("there are %d commits, %v; want %d", tip.Seq, err, want)
	}
}

// result fails the test unless a batch is answered with this status for all of its entries,
// and returns its receipt.
func (r *rig) result(got Remembered, status Status, written int, reason string) *Receipt {
	r.Helper()
	d := got.Diagnostics
	if d.Receipt == nil {
		r.Fatalf("there is no receipt: %s", show(got))
	}
	isGood := got.Written == written && d.Degraded == (status != Written && status != Already) && strings.HasPrefix(strings.Join(d.Reasons, "|"), reason)
	for _, e := range d.Receipt.Entries {
		isGood = isGood && e.Status == status
	}
	if !isGood || d.Degraded && d.Retry == "" || status == Unknown && d.Retry != Later {
		r.Errorf("%s; want %s, %d, %q", show(got), status, written, reason)
	}
	return d.Receipt
}

func show(value any) string {
	data, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// blobs are contents in memory, some of which are not handed out.
type blobs struct {
	*memcas.Store
	left  atomic.Int64               // how many more are; below 0: any number
	slow  atomic.Pointer[cas.Digest] // is not handed out before its context ends; nil: all are
	never atomic.Pointer[func(context.Context)]
}

// set has what is asked for after some contents wait for never, or for the end of its context.
func (b *blobs) set(left int64, never func(context.Context)) {
	if never == nil {
		never = func(ctx context.Context) { <-ctx.Done() }
	}
	b.never.Store(&never)
	b.left.Store(left)
}

// hasLeft takes one of those that are handed out.
func (b *blobs) hasLeft() bool {
	for {
		left := b.left.Load()
		if left <= 0 {
			return left < 0
		}
		if b.left.CompareAndSwap(left, left-1) {
			return true
		}
	}
}

// Get returns a content, or waits.
func (b *blobs) Get(ctx context.Context, d cas.Digest) ([]byte, error) {
	if slow := b.slow.Load(); slow != nil && *slow == d {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if !b.hasLeft() {
		(*b.never.Load())(ctx)
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	return b.Store.Get(ctx, d)
}
