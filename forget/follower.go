package forget

import (
	"context"
	"log/slog"
	"maps"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"mneme/memory"
	"mneme/session/conflict"
)

const (
	// calm is for how long no version must have been erased, and the process not have been busy, before memory is
	// cleared.
	calm = time.Second
	// ErasedWithin is for how long a redaction may still be under way when a process hears of it, also where one
	// of the processes that follow the store must finish it.
	ErasedWithin = 2 * time.Minute
)

// FollowerOptions say what a process has besides the caches of its stores. A field that is nil is nothing.
type FollowerOptions struct {
	Library   *memory.Library                      // whose stores are followed by their ids
	FollowFar bool                                 // follow stores whose log is on another machine, too, rather than ask every minute
	Kept      func(storeID string) *conflict.Store // nil of a store without any
	Clear     func()                               // releases other memory that may hold erased texts
	Free      func()                               // collects garbage and gives memory back to the system; nil: debug.FreeOSMemory
	Logger    *slog.Logger                         // nil discards
}

// Follower makes a process keep nothing of versions that were erased. Each process that serves stores has one: a
// mount, a server, and those that give an agent memory without a mount.
//
//  1. It learns of erased versions. A mount follows its stores itself, and passes on the erasures that it meets
//     (Met). Other processes ask the Follower to follow stores (Follow). A request that erases versions reports
//     them at once (Told). A process that begins looks for earlier redactions that may still be under way
//     (Missed).
//  2. It erases kept conflicts of which one side is a redacted version at once, also those of redactions before it
//     began. Kept conflicts of versions that expired by a store's rule stay until the conflicts expire.
//  3. When versions were erased, none more for a second, and the process is calm, it clears memory: it empties the
//     caches of the stores, calls Clear, and collects garbage twice, since pools leave the rest to the next
//     collection. Go overwrites freed memory in a process that has GODEBUG=clobberfree=1.
//  4. It does that again two minutes later, for texts that were read during a redaction that took longer.
type Follower struct {
	opts    FollowerOptions
	heard   atomic.Int64 // when versions were erased last, in nanoseconds of Unix time
	busy    atomic.Int64 // when the process was busy last, likewise
	cleared atomic.Int64 // when memory was cleared last, likewise

	life context.Context
	end  context.CancelFunc
	work sync.WaitGroup
	told chan struct{} // versions were erased

	mu     sync.Mutex // guards the fields below
	stores map[string]bool
	erased map[string]*memory.Store // whose caches may have what was erased
}

// NewFollower returns a Follower, which clears memory from Start to Close.
func NewFollower(opts *FollowerOptions) *Follower {
	f := &Follower{told: make(chan struct{}, 1), stores: map[string]bool{}, erased: map[string]*memory.Store{}}
	if opts != nil {
		f.opts = *opts
	}
	if f.opts.Free == nil {
		f.opts.Free = debug.FreeOSMemory
	}
	if f.opts.Logger == nil {
		f.opts.Logger = slog.New(slog.DiscardHandler)
	}
	f.life, f.end = context.WithCancel(context.Background())
	return f
}

// Start begins to clear memory.
func (f *Follower) Start() { f.work.Go(f.run) }

// Close ends the work of the follower, and returns when it has ended.
func (f *Follower) Close() {
	f.end()
	f.work.Wait()
}

// Busy says that the process has much to do, so that clearing memory waits.
func (f *Follower) Busy() { f.busy.Store(time.Now().UnixNano()) }

// IsRecent reports whether versions were erased so short a time ago that memory is still being cleared, or was
// a moment ago, before streams that last have come by.
func (f *Follower) IsRecent() bool { return time.Since(time.Unix(0, f.heard.Load())) < 2*ErasedWithin }

// Cleared returns when memory was cleared last; long ago: never.
func (f *Follower) Cleared() time.Time { return time.Unix(0, f.cleared.Load()) }

// tell starts the clearing of memory.
func (f *Follower) tell(st *memory.Store) {
	f.mu.Lock()
	f.erased[st.Info().ID] = st
	f.mu.Unlock()
	f.heard.Store(time.Now().UnixNano())
	select {
	case f.told <- struct{}{}:
	default:
	}
}

// run clears memory until the follower ends.
func (f *Follower) run() {
	var first, again <-chan time.Time
	for {
		select {
		case <-f.life.Done():
			return
		case <-f.told:
			first = time.After(calm)
		case <-first:
			if since := time.Since(time.Unix(0, f.busy.Load())); since < calm {
				first = time.After(calm - since)
				continue
			}
			first, again = nil, time.After(ErasedWithin)
			f.clearMemory(false)
		case <-again:
			again = nil
			f.clearMemory(first == nil)
		}
	}
}

// clearMemory releases memory that may hold erased texts; last says that nothing is left to
// do for them afterwards.
func (f *Follower) clearMemory(last bool) {
	f.mu.Lock()
	stores := slices.Collect(maps.Values(f.erased))
	if last {
		clear(f.erased)
	}
	f.mu.Unlock()
	for _, st := range stores {
		if err := st.Forget(); err != nil {
			f.opts.Logger.Warn("clear the memory of what was erased", "store", st.Info().Slug, "err", err)
		}
	}
	f.cleared.Store(time.Now().UnixNano())
	if f.opts.Clear != nil {
		f.opts.Clear()
	}
	runtime.GC()
	f.opts.Free()
}
