package access

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"mneme/memory"
	"mneme/versionlog"
)

// Registry holds the credentials of a library: keys, the public halves of the keys that sign
// session tokens, and the tokens that were revoked. All are memories of the hidden store
// "access", so that they have a history, and every server over the library has the same.
//
// It holds them in memory and follows the store. Another process's change takes effect as
// soon as the follower has it: at once on an embedded library, within the refresh interval
// (1 s) elsewhere. It also reads the tip each second. If it could not for 3 s, a credential
// is valid only if it was looked up again, so that a revocation takes effect within 5 s.
//
// Methods may be called at once from many goroutines and processes.
type Registry struct {
	library *memory.Library
	store   *memory.Store
	opts    RegistryOptions
	signer  signer
	budgets budgets
	minted  minted

	stop context.CancelFunc
	done chan struct{}

	mu        sync.Mutex // guards the fields below; never held across I/O
	at        versionlog.Tip
	confirmed time.Time // when the entries were last known to be those of the newest commit
	looked    time.Time // when the store was last read for an unknown credential
	changed   chan struct{}
	entries   map[string]entry     // by path
	noted     map[string]time.Time // by the id of a key, when its use was noted last
	cleaned   time.Time            // when what had expired was removed last
	closed    bool
	notes     sync.WaitGroup // of uses that are being noted

	reading sync.Mutex // held while the whole store is read again
}

// signer has the private half of the key that a process signs with.
type signer struct {
	mu      sync.Mutex // held while a key is published
	kid     string
	private ed25519.PrivateKey
	until   time.Time
}

// entry is a memory of the store. One that was deleted has no value.
type entry struct {
	version versionlog.Version
	value   any // Key, signingKey or revocation
}

// RegistryOptions are the settings of OpenRegistry; nil and a zero field are the default.
type RegistryOptions struct {
	Author *memory.Author   // of changes; nil: nothing is changed
	Now    func() time.Time // nil: time.Now
	Logger *slog.Logger     // nil: nowhere
}

// OpenRegistry opens the credentials of a library. The caller closes it.
func OpenRegistry(ctx context.Context, library *memory.Library, opts *RegistryOptions) (*Registry, error) {
	r := &Registry{library: library, changed: make(chan struct{}), entries: map[string]entry{}, noted: map[string]time.Time{}}
	if opts != nil {
		r.opts = *opts
	}
	if r.opts.Now == nil {
		r.opts.Now = time.Now
	}
	if r.opts.Logger == nil {
		r.opts.Logger = slog.New(slog.DiscardHandler)
	}
	var err error
	if r.store, err = library.Hidden(ctx, "access", r.opts.Author); err != nil {
		return nil, err
	}
	if err := r.read(ctx); err != nil {
		return nil, err
	}
	var until context.Context
	until, r.stop = context.WithCancel(context.WithoutCancel(ctx))
	r.done = make(chan struct{})
	r.confirmed = r.opts.Now()
	go func() {
		defer close(r.done)
		var both sync.WaitGroup
		both.Go(func() { r.follow(until) })
		both.Go(func() { r.confirm(until) })
		both.Wait()
	}()
	return r, nil
}

// Close ends following.
func (r *Registry) Close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.stop()
	<-r.done
	r.notes.Wait()
}

// follow keeps the entries right until ctx ends.
func (r *Registry) follow(ctx context.Context) {
	for ctx.Err() == nil {
		r.mu.Lock()
		at := r.at
		r.mu.Unlock()
		err := recovered(func() error {
			return r.store.Follow(ctx, at, func(c *versionlog.Commit) error { return r.apply(ctx, c) })
		})
		if ctx.Err() == nil {
			r.opts.Logger.Warn("the store of credentials cannot be followed", "err", err)
			r.mu.Lock()
			r.confirmed = time.Time{}
			r.mu.Unlock()
		}
		select {
		case <-ctx.Done():
		case <-time.After(confirmEvery):
		}
	}
}

// confirm looks again and again at the tip of the store, so that a follower which hangs, or a history
// that has become another one, does not keep a credential that counts no more.
func (r *Registry) confirm(ctx context.Context) {
	ticker := time.NewTicker(confirmEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		look, cancel := context.WithTimeout(ctx, confirmEvery)
		if err := recovered(func() error { return r.look(look) }); err != nil && ctx.Err() == nil {
			r.opts.Logger.Warn("the store of credentials cannot be looked at", "err", err)
		}
		cancel()
	}
}

// recovered turns a panic into an error, so that it ends only the operation that it is in.
func recovered(do func() error) (err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("a fault: %v", fault)
		}
	}()
	return do()
}

// apply has a commit count.
func (r *Registry) apply(ctx context.Context, c *versionlog.Commit) error {
	for i := range c.Versions {
		if err := r.take(ctx, c.Versions[i]); err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at.Seq < c.Seq {
		r.at = versionlog.Tip{Seq: c.Seq, Digest: c.Digest}
	}
	return nil
}

// look reads the store if its tip is not the known one.
func (r *Registry) look(ctx context.Context) error {
	began := r.opts.Now()
	tip, err := r.store.Tip(ctx)
	if err != nil {
		return err
	}
	r.mu.Lock()
	same := tip.Seq == r.at.Seq && tip.Digest == r.at.Digest
	r.mu.Unlock()
	if !same {
		if err := r.read(ctx); err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.confirmed = began
	return nil
}

// read reads the whole store. If its history was replaced, the entries of the earlier one
// are dropped.
func (r *Registry) read(ctx context.Context) error {
	r.reading.Lock()
	defer r.reading.Unlock()
	tip, err := r.store.Tip(ctx)
	if err != nil {
		return err
	}
	if err := r.forgetOther(ctx, tip); err != nil {
		return err
	}
	there := map[string]bool{}
	for v, err := range r.store.Heads(ctx, "/") {
		if err == nil {
			there[v.Path] = true
			err = r.take(ctx, v)
		}
		if err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for path, e := range r.entries {
		if !there[path] && e.version.Seq <= tip.Seq {
			delete(r.entries, path)
		}
	}
	r.at = versionlog.Tip{Seq: tip.Seq, Digest: tip.Digest}
	return nil
}

// forgetOther forgets all entries if the history that ends at tip is not that which they are of.
func (r *Registry) forgetOther(ctx context.Context, tip versionlog.Tip) error {
	r.mu.Lock()
	at := r.at
	r.mu.Unlock()
	if at.Seq == 0 || at.Seq == tip.Seq && at.Digest == tip.Digest {
		return nil
	}
	if at.Seq < tip.Seq {
		c, err := r.store.Commit(ctx, at.Seq)
		if err != nil {
			return err
		}
		if c.Digest == at.Digest {
			return nil
		}
	}
	r.opts.Logger.Error("the store of credentials has another history than before; all are read anew", "seq", tip.Seq, "before", at.Seq)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.entries = map[string]entry{}
	close(r.changed)
	r.changed = make(chan struct{})
	return nil
}

// take has a version count, unless a later one does.
func (r *Registry) take(ctx context.Context, v versionlog.Version) error {
	if v.IsDir() || v.Redacted() {
		return nil
	}
	r.mu.Lock()
	known := r.entries[v.Path].version
	r.mu.Unlock()
	if known.Seq >= v.Seq {
		return nil
	}
	e := entry{version: v}
	if v.Live() {
		data, err := r.store.Content(ctx, v)
		if err != nil {
			return fmt.Errorf("%s: %w", v.Path, err)
		}
		if e.value, err = decode(v.Path, data); err != nil {
			e.value = nil
			r.opts.Logger.Error("a credential cannot be read, and does not count", "path", v.Path, "err", err)
		}
	}
	r.put(v.Path, e)
	return nil
}

// put notes an entry, unless a later one is there, and tells those that watch.
func (r *Registry) put(path string, e entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.entries[path].version.Seq < e.version.Seq {
		r.entries[path] = e
		if e.value == nil && strings.HasPrefix(path, revokedDir) { // its token has expired, so it is no longer needed
			delete(r.entries, path)
		}
		close(r.changed)
		r.changed = make(chan struct{})
	}
}

// How often the store is looked at for credentials that are not known, how often anyway, and for how
// long entries count that were not found to be the newest.
const (
	lookAgain      = 100 * time.Millisecond
	confirmEvery   = time.Second
	maxUnconfirmed = 3 * time.Second
)

// find returns the entry of a path. Where there is none, or what is there may be old, it looks into the
// store first.
func (r *Registry) find(ctx context.Context, path string) (entry, error) {
	r.mu.Lock()
	e, now := r.entries[path], r.opts.Now()
	unknown := e.version.Seq == 0 && (now.Sub(r.looked) > lookAgain || now.Before(r.looked))
	old := now.Sub(r.confirmed) > maxUnconfirmed
	if unknown {
		r.looked = now
	}
	r.mu.Unlock()
	if !unknown && !old {
		return e, nil
	}
	if err := r.look(ctx); err != nil {
		return entry{}, err
	}
	return r.entry(path), nil
}

// entry returns that of a path as it is known.
func (r *Registry) entry(path string) entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.entries[path]
}

// write makes a value the content of a memory of the store.
func (r *Registry) write(ctx context.Context, path string, value any, expect versionlog.Expectation) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	v, err := r.store.Write(ctx, path, data, expect)
	if err == nil {
		r.put(path, entry{v, value})
	}
	return err
}

// remove removes a memory of the store.
func (r *Registry) remove(ctx context.Context, path string) error {
	v, err := r.store.Remove(ctx, path, versionlog.ExpectExists())
	switch {
	case err == nil:
		r.put(path, entry{version: v})
	case errors.Is(err, versionlog.ErrNotFound): // another server was faster
		r.mu.Lock()
		defer r.mu.Unlock()
		if strings.HasPrefix(path, revokedDir) {
			delete(r.entries, path)
		}
	}
	return err
}

// Ready returns why credentials cannot be looked up now; nil: they can.
func (r *Registry) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	_, err := r.store.Tip(ctx)
	return err
}
