package fusefs

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
// So that no process takes the daemon's time from others, what is not found within
// these bounds is unknown:
//
//  1. One look at a time is taken for each process. It goes through maxDescriptors and
//     maxGenerations, and takes maxLook.
//  2. Looks for different processes take turns: no more are under way than half of the
//     processors can take, so that a request without a look finds one.
//  3. Of maxLook only ownLook is every look's. The rest comes from what all looks of the
//     mount may spend together, lookShare of one processor.
//  4. A process with which a look has come to its end, and which took half of it or more,
//     is passed over for restAfter times as long as that took. A single read, which
//     nothing can end, is bounded only so.
//
// What is found of an ordinary process, of which a look takes less than ownLook, does not
// depend on what others do.
const (
	maxDescriptors = 2048                   // that a look goes through, of all processes together
	maxGenerations = 64                     // of ancestors
	maxMountinfo   = 1 << 20                // bytes
	maxLook        = 50 * time.Millisecond  // of processor time
	ownLook        = 5 * time.Millisecond   // of it
	lookShare      = 10                     // one in so many
	maxSpare       = 100 * time.Millisecond // that looks may spend after a time without any
	maxDebt        = time.Second            // of looks that took longer than they might
	restAfter      = 100
	maxRest        = time.Minute
	maxTurn        = time.Second // that a look waits for its turn: the kernel may hold one up
)

// look is one look through /proc for a file of the mount.
type look struct {
	looks         *looks
	process       uint64 // for which it is taken
	inode, device string
	descriptors   int           // still to be gone through
	began, ends   time.Duration // of this thread's processor time
	givenUp       bool          // before it has seen everything
}

// over reports whether the look has come to its end, whatever it has seen.
func (l *look) over() bool { return l.descriptors <= 0 || l.looks.processorTime() > l.ends }

// looks are those of a mount.
type looks struct {
	processorTime func() time.Duration // of this thread
	now           func() time.Time
	read          func(name string) ([]byte, error) // the first lines of a file in /proc

	turns chan struct{} // has one for each look under way

	mu      sync.Mutex
	of      map[uint64]*oneLook  // processes for which somebody looks
	spare   time.Duration        // that looks may spend beyond ownLook; negative: debt
	counted time.Time            // when that was right
	resting map[uint64]time.Time // processes that are passed over until then
}

type oneLook struct {
	sync.Mutex
	users int
}

func newLooks() looks {
	return looks{
		processorTime: threadTime, now: time.Now, read: readStart, turns: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2)),
		of: map[uint64]*oneLook{}, resting: map[uint64]time.Time{},
	}
}

// threadTime is how long this thread has run.
func threadTime() time.Duration {
	var at unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &at) // which every Linux has
	return time.Duration(at.Nano())
}

// withLook takes a look, for a thread, at who has the file with that inode number of
// this mount open.
func (fs *fileSystem) withLook(thread, inode uint64, answer func(*look) answer) answer {
	if fs.blind || thread == 0 {
		return unknown
	}
	process, end := fs.looks.begin(thread)
	defer end()
	defer fs.looks.takeTurn(maxTurn)()
	fs.mu.RLock()
	device := fs.device
	fs.mu.RUnlock()
	l := &look{looks: &fs.looks, process: process, inode: strconv.FormatUint(inode, 10), device: device, descriptors: maxDescriptors}
	runtime.LockOSThread() // whose time counts
	defer runtime.UnlockOSThread()
	granted := fs.looks.grant()
	l.began = fs.looks.processorTime()
	l.ends = l.began + granted
	defer func() { fs.looks.spend(granted, fs.looks.processorTime()-l.began) }()
	return answer(l)
}

// begin waits until nobody else looks for the process of a thread. What it returns is
// that process, 0 if it cannot be seen, and what ends the look.
func (l *looks) begin(thread uint64) (process uint64, end func()) {
	status, _ := os.ReadFile(procDir(thread) + "/status")
	process, _ = strconv.ParseUint(field(status, "Tgid"), 10, 32)
	l.mu.Lock()
	one := l.of[process]
	if one == nil {
		one = &oneLook{}
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

// takeTurn waits until a look may be taken, or for as long as it is patient. What it
// returns lets the next one take its turn.
func (l *looks) takeTurn(patience time.Duration) (end func()) {
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

// grant returns how long a look may take, and takes that from what is spare.
func (l *looks) grant() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	l.spare = min(maxSpare, l.spare+now.Sub(l.counted)/lookShare)
	l.counted = now
	more := min(max(0, l.spare), maxLook-ownLook)
	l.spare -= more
	return ownLook + more
}

// spend gives back what a look has not taken of what it was granted; or it owes the rest.
func (l *looks) spend(granted, taken time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.spare = max(-maxDebt, l.spare+granted-max(taken, ownLook))
}

// rests reports whether a process is to be passed over.
func (l *looks) rests(process uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now().Before(l.resting[process])
}

// rest has a process passed over of which a look has taken so long.
func (l *looks) rest(process uint64, taken time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	maps.DeleteFunc(l.resting, func(_ uint64, until time.Time) bool { return !now.Before(until) })
	l.resting[process] = now.Add(min(maxRest, restAfter*taken))
}
