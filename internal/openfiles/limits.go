package openfiles

import (
	"maps"
	"os"
	"runtime"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A question about processes is answered by looking through /proc. A process can have
// as many descriptors, and make as many mounts, as it likes, and the kernel may make up
// a long text for one descriptor: a line for each file that it watches, or has locked.
// So that no process takes the daemon's time from others, an answer that is not found
// within these bounds is unknown:
//
//  1. One scan at a time is under way for each process. It reads at most maxDescriptors and
//     maxGenerations, and takes at most maxScan.
//  2. Scans for different processes take turns: no more are under way than half of the
//     processors can take, so that a request that needs no scan finds one.
//  3. Of maxScan only ownScan is every scan's. The rest comes from the time that all scans
//     of the mount share, scanShare of one processor.
//  4. A process with which a scan has come to its end, and which took half of it or more,
//     is skipped for restAfter times as long as that took. A single read, which nothing can
//     end, is bounded only so.
//
// The answer for an ordinary process, of which a scan takes less than ownScan, does not
// depend on other processes.
const (
	maxDescriptors = 2048                   // that a scan goes through, of all processes together
	maxGenerations = 64                     // of ancestors
	maxScan        = 50 * time.Millisecond  // of processor time
	ownScan        = 5 * time.Millisecond   // of it
	scanShare      = 10                     // one in so many
	maxSpare       = 100 * time.Millisecond // that scans may spend after a time without any
	maxDebt        = time.Second            // of scans that took longer than they might
	restAfter      = 100
	maxRest        = time.Minute
	maxTurn        = time.Second // that a scan waits for its turn: the kernel may hold one up
)

// limits are those of the scans of a mount.
type limits struct {
	processorTime func() time.Duration // of this thread
	now           func() time.Time
	read          func(name string) ([]byte, error) // the first lines of a file in /proc

	turns chan struct{} // has one for each scan under way

	mu      sync.Mutex
	of      map[uint64]*oneProcess // processes with a scan under way or waiting
	spare   time.Duration          // that scans may spend beyond ownScan; negative: debt
	counted time.Time              // when that was right
	resting map[uint64]time.Time   // processes that are passed over until then
}

type oneProcess struct {
	sync.Mutex
	users int
}

func newLimits() *limits {
	return &limits{
		processorTime: threadTime, now: time.Now, read: readStart, turns: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2)),
		of: map[uint64]*oneProcess{}, resting: map[uint64]time.Time{},
	}
}

// threadTime is how long this thread has run.
func threadTime() time.Duration {
	var at unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &at) // which every Linux has
	return time.Duration(at.Nano())
}

// begin waits until no other scan is under way for the process of a thread. It returns
// that process, 0 if it cannot be seen, and what ends the scan.
func (l *limits) begin(thread uint64) (process uint64, end func()) {
	status, _ := os.ReadFile(procDir(thread) + "/status")
	process, _ = strconv.ParseUint(field(status, "Tgid"), 10, 32)
	l.mu.Lock()
	one := l.of[process]
	if one == nil {
		one = &oneProcess{}
		l.of[process] = one
	}
	one.users++
	l.mu.Unlock()
	one.Lock()
	return process, func() {
		one.Unlock()
		l.mu.Lock()
		defer l.mu.Unlock()
		if one.users--; one.users == 0 {
			delete(l.of, process)
		}
	}
}

// takeTurn waits for the turn of a scan, but not for longer than its patience. It returns
// what lets the next one take its turn.
func (l *limits) takeTurn(patience time.Duration) (end func()) {
	end = func() { <-l.turns }
	select {
	case l.turns <- struct{}{}:
		return end
	default:
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case l.turns <- struct{}{}:
		return end
	case <-timer.C:
		return func() {}
	}
}

// grant returns how long a scan may take, and takes that from what is spare.
func (l *limits) grant() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	l.spare = min(maxSpare, l.spare+now.Sub(l.counted)/scanShare)
	l.counted = now
	more := min(max(0, l.spare), maxScan-ownScan)
	l.spare -= more
	return ownScan + more
}

// spend gives back the granted time that a scan has not taken; a scan that took more owes
// the rest.
func (l *limits) spend(granted, taken time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.spare = max(-maxDebt, l.spare+granted-max(taken, ownScan))
}

// rests reports whether a process must be skipped.
func (l *limits) rests(process uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now().Before(l.resting[process])
}

// rest has a process passed over of which a scan has taken so long.
func (l *limits) rest(process uint64, taken time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	maps.DeleteFunc(l.resting, func(_ uint64, until time.Time) bool { return !now.Before(until) })
	l.resting[process] = now.Add(min(maxRest, restAfter*taken))
}
