package server

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"mneme/gateway/wire"
	"mneme/memory"
	"mneme/versionlog"
)

const (
	// calm is for how long no version must have been erased before memory is cleared.
	calm = time.Second
	// erasedWithin is for how long a redaction may still be under way when the server hears of it.
	erasedWithin = 2 * time.Minute
	// lookEvery is how often stores are asked about redactions whose log is not near, and retryAfterError how soon
	// one is asked again that did not answer.
	lookEvery       = time.Minute
	retryAfterError = time.Second
	// maxFollowed is how many stores are followed. Others are asked.
	maxFollowed = 1000
)

// eraser clears the memory of the server of texts that were erased:
//
//  1. It hears of redactions by requests. It follows each store that a request has reached, or asks it every
//     minute where its log is on another machine or too many are followed, for those of others.
//  2. When versions were erased, and none more for a second, it empties the caches of the store, closes
//     connections that idle, since their buffers have answers, and collects garbage, which a process of
//     mneme serve overwrites (GODEBUG=clobberfree=1). Other connections that were open then end with
//     their next answer.
//  3. It does that again two minutes later, for what was read of a redaction that took longer.
type eraser struct {
	library   *memory.Library
	logger    *slog.Logger
	near      bool
	since     atomic.Int64 // when memory was cleared last, in nanoseconds of Unix time
	heard     atomic.Int64 // when versions were erased last, likewise
	listening atomic.Pointer[http.Server]

	life context.Context
	end  context.CancelFunc
	work sync.WaitGroup
	told chan struct{} // versions were erased

	mu     sync.Mutex // guards what follows
	stores map[string]bool
	erased map[string]*memory.Store // whose caches may have what was erased
}

func newEraser(library *memory.Library, logger *slog.Logger) *eraser {
	e := &eraser{library: library, logger: logger, near: library.Ruled().Capabilities().Near, told: make(chan struct{}, 1), stores: map[string]bool{}, erased: map[string]*memory.Store{}}
	e.life, e.end = context.WithCancel(context.Background())
	e.work.Go(e.run)
	return e
}

func (e *eraser) close() {
	e.end()
	e.work.Wait()
}

// opened has a store followed.
func (e *eraser) opened(storeID string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.stores[storeID] || e.life.Err() != nil {
		return
	}
	e.stores[storeID] = true
	isFollowed, from := e.near && len(e.stores) <= maxFollowed, time.Now()
	e.work.Go(func() { e.follow(storeID, isFollowed, from) })
}

// nudged has memory cleared, since a request has erased versions of a store.
func (e *eraser) nudged(storeID string) {
	st, err := e.library.Open(e.life, storeID, nil)
	if err != nil { // such as when the server ends; else following tells of it
		return
	}
	e.tell(st)
}

// follow tells of redactions of a store from a time on, until it is deleted or the server ends.
func (e *eraser) follow(storeID string, isFollowed bool, from time.Time) {
	for e.life.Err() == nil {
		next, err := e.watch(storeID, isFollowed, from)
		if errors.Is(err, versionlog.ErrNotFound) {
			e.mu.Lock()
			defer e.mu.Unlock()
			delete(e.stores, storeID)
			return
		}
		from = next
		pause := lookEvery
		if err != nil {
			pause = retryAfterError
		}
		select {
		case <-e.life.Done():
		case <-time.After(pause):
		}
	}
}

// watch looks for redactions of a store since a time, and returns from when on to look next. One that is
// followed it leaves when that fails.
func (e *eraser) watch(storeID string, isFollowed bool, from time.Time) (next time.Time, err error) {
	next = time.Now()
	st, err := e.library.Open(e.life, storeID, nil)
	if err != nil {
		return from, err
	}
	tip, err := st.Tip(e.life)
	if err != nil {
		return from, err
	}
	erased, err := st.ErasedSince(e.life, from)
	if erased {
		e.tell(st)
	}
	if err != nil || !isFollowed {
		return next, err
	}
	return next, st.Follow(e.life, tip, func(c *versionlog.Commit) error {
		if c.Erases() {
			e.tell(st)
		}
		return nil
	})
}

// tell has memory cleared.
func (e *eraser) tell(st *memory.Store) {
	e.mu.Lock()
	e.erased[st.Info().ID] = st
	e.mu.Unlock()
	e.heard.Store(time.Now().UnixNano())
	select {
	case e.told <- struct{}{}:
	default:
	}
}

// run clears memory until the server ends.
func (e *eraser) run() {
	var first, again <-chan time.Time
	for {
		select {
		case <-e.life.Done():
			return
		case <-e.told:
			first = time.After(calm)
			continue
		case <-first:
			first, again = nil, time.After(erasedWithin)
			e.clear(false)
		case <-again:
			again = nil
			e.clear(first == nil)
		}
	}
}

// clear lets go of what may hold erased texts; last says that nothing is left to do for them then.
func (e *eraser) clear(last bool) {
	e.mu.Lock()
	for id, st := range e.erased {
		if err := st.Forget(); err != nil {
			e.logger.Warn("clear the memory of what was erased", "store", st.Info().Slug, "err", err)
		}
		if last {
			delete(e.erased, id)
		}
	}
	e.mu.Unlock()
	e.since.Store(time.Now().UnixNano())
	if h := e.listening.Load(); h != nil {
		h.SetKeepAlivesEnabled(false) // closes those that idle
		h.SetKeepAlivesEnabled(true)
	}
	wire.Forget()
	runtime.GC() // pools leave the rest to the next collection
	debug.FreeOSMemory()
}

// isRecent reports whether versions were erased so short a time ago that memory is still being cleared, or was
// a moment ago, before streams that last have come by.
func (e *eraser) isRecent() bool {
	return time.Since(time.Unix(0, e.heard.Load())) < 2*erasedWithin
}

// isOlder reports whether a connection of that time was open when memory was cleared.
func (e *eraser) isOlder(connected time.Time) bool {
	return !connected.IsZero() && connected.UnixNano() < e.since.Load()
}
