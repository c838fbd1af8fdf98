package openfiles

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestScanIsBounded: a process with many descriptors is not scanned to the end.
// The answer for the rest is unknown.
func TestScanIsBounded(t *testing.T) {
	const nowhere = 1 << 40 // no file has such a number
	s := New()
	self := uint64(os.Getpid())
	for range 300 {
		f, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
	}
	own := 0 // descriptors
	for _, test := range []struct {
		name string
		scan func(*scan) Answer
		want Answer
	}{
		{"to the end", func(sc *scan) Answer {
			sc.descriptors, sc.ends = 1<<20, time.Hour
			open := sc.hasOpen(self, self)
			own = 1<<20 - sc.descriptors
			return open
		}, No},
		{"at fewer descriptors than there are", func(sc *scan) Answer {
			sc.descriptors, sc.ends = 300, time.Hour
			return sc.hasOpen(self, self)
		}, Unknown},
		{"for too long", func(sc *scan) Answer {
			sc.ends = 0
			return sc.hasOpen(self, self)
		}, Unknown},
		{"at no ancestors", func(sc *scan) Answer {
			sc.descriptors, sc.ends = own, time.Hour
			return sc.ancestryHasOpen(self)
		}, Unknown},
	} {
		clear(s.limits.resting)
		if got := s.scan(self, nowhere, test.scan); got != test.want {
			t.Errorf("a scan %s: %v, want %v", test.name, got, test.want)
		}
	}
}

// TestScansOfOneProcess: of two scans for threads of one process the second waits for
// the first; another process's does not.
func TestScansOfOneProcess(t *testing.T) {
	l := newLimits()
	self := uint64(os.Getpid())
	_, end := l.begin(self)
	_, endOther := l.begin(uint64(os.Getppid()))
	endOther()
	waited := make(chan struct{})
	go func() {
		defer close(waited)
		_, end := l.begin(self)
		end()
	}()
	for users := 0; users < 2; time.Sleep(time.Millisecond) {
		l.mu.Lock()
		for _, one := range l.of {
			users = one.users
		}
		l.mu.Unlock()
	}
	select {
	case <-waited:
		t.Error("two scans are taken for one process")
	default:
	}
	end()
	<-waited
	if len(l.of) != 0 {
		t.Errorf("%d processes are remembered", len(l.of))
	}
}

// fakeLimits are limits whose clocks a test turns. Each descriptor that is read takes as
// long as it says of processor time.
type fakeLimits struct {
	*limits
	processor, each time.Duration
	wall            time.Time
	read            []string // descriptors
}

func newFakeLimits(each time.Duration) *fakeLimits {
	f := &fakeLimits{limits: newLimits(), each: each, wall: time.Now()}
	f.processorTime = func() time.Duration { return f.processor }
	f.now = func() time.Time { return f.wall }
	f.limits.read = func(name string) ([]byte, error) {
		f.read = append(f.read, filepath.Base(name))
		f.processor += f.each
		return readStart(name)
	}
	return f
}

// take scans this process for a file that it does not have open, and returns
// how many descriptors were read for it.
func (f *fakeLimits) take(granted time.Duration, at func(*scan) Answer) (Answer, int) {
	f.read = nil
	self := uint64(os.Getpid())
	return at(&scan{
		limits: f.limits, process: self, inode: strconv.Itoa(1 << 40), descriptors: maxDescriptors, began: f.processor, ends: f.processor + granted,
	}), len(f.read)
}

func atSelf(sc *scan) Answer { return sc.hasOpen(sc.process, sc.process) }

// TestScanLeavesReadersOut: what the kernel says of a descriptor that cannot write is
// not asked for, which would be a line for each file that an inotify descriptor watches.
func TestScanLeavesReadersOut(t *testing.T) {
	notify, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(notify)
	writer, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	f := newFakeLimits(0)
	if got, _ := f.take(time.Hour, atSelf); got != No {
		t.Fatalf("a scan: %v, want %v", got, No)
	}
	if !slices.Contains(f.read, strconv.Itoa(int(writer.Fd()))) || slices.Contains(f.read, strconv.Itoa(notify)) {
		t.Errorf("descriptors %v were read, want %d and not %d among them", f.read, writer.Fd(), notify)
	}
}

// TestCostlyProcessRests: a process of which one descriptor takes as long as a scan may
// is not looked at again for a hundred times as long, also for one that descends from it.
func TestCostlyProcessRests(t *testing.T) {
	f := newFakeLimits(maxScan + time.Millisecond)
	for range 2 { // so that there is one to be read, and one left
		writer, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer writer.Close()
	}
	if got, n := f.take(maxScan, atSelf); got != Unknown || n != 1 {
		t.Errorf("the first scan: %v, after %d descriptors; want %v after 1", got, n, Unknown)
	}
	f.wall = f.wall.Add(restAfter * maxScan)
	if got, n := f.take(maxScan, atSelf); got != Unknown || n != 0 {
		t.Errorf("the next scan: %v, after %d descriptors; want %v after none", got, n, Unknown)
	}
	f.wall = f.wall.Add(restAfter * time.Millisecond)
	if got, n := f.take(maxScan, atSelf); got != Unknown || n != 1 {
		t.Errorf("a later scan: %v, after %d descriptors; want %v after 1", got, n, Unknown)
	}
	f = newFakeLimits(0)
	last, err := unix.FcntlInt(os.Stderr.Fd(), unix.F_DUPFD_CLOEXEC, 900) // the last in the list
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(last)
	f.limits.read = func(name string) ([]byte, error) {
		if filepath.Base(name) == strconv.Itoa(last) {
			f.processor += time.Second
		}
		return readStart(name)
	}
	for _, want := range []Answer{No, Unknown} {
		if got, _ := f.take(maxScan, atSelf); got != want {
			t.Errorf("a scan of a process whose last descriptor takes long: %v, want %v", got, want)
		}
	}
	f = newFakeLimits(0)
	f.rest(uint64(os.Getppid()), time.Second)
	if got, _ := f.take(time.Hour, func(sc *scan) Answer { return sc.ancestryHasOpen(sc.process) }); got != Unknown {
		t.Errorf("a scan beyond an ancestor that rests: %v, want %v", got, Unknown)
	}
	f.wall = f.wall.Add(maxRest)
	f.rest(1, time.Second)
	if len(f.resting) != 1 {
		t.Errorf("%d processes are remembered, want 1", len(f.resting))
	}
}

// TestScansShare: beyond what is its own, scans take no more processor time together
// than their share, whatever process they are for; one that took longer than it might
// is paid for by the next.
func TestScansShare(t *testing.T) {
	f := newFakeLimits(0)
	want := func(when string, want time.Duration) time.Duration {
		t.Helper()
		got := f.grant()
		if got != want {
			t.Errorf("%s a scan may take %v, want %v", when, got, want)
		}
		return got
	}
	f.spend(want("at first", maxScan), maxScan)
	f.spend(want("after one", maxScan), maxScan)
	want("after two", ownScan+maxSpare-2*(maxScan-ownScan))
	f.spend(want("after three", ownScan), ownScan)
	f.wall = f.wall.Add(scanShare * 20 * time.Millisecond)
	f.spend(want("20 ms later, of its share,", ownScan+20*time.Millisecond), ownScan+2*time.Millisecond)
	f.spend(want("after one that took less", ownScan+18*time.Millisecond), ownScan)
	f.wall = f.wall.Add(time.Hour)
	f.spend(want("an hour later", maxScan), time.Minute)
	f.wall = f.wall.Add(scanShare * maxDebt)
	want("when what was owed is paid", ownScan)
	f.wall = f.wall.Add(scanShare * 5 * time.Millisecond)
	want("after that", ownScan+5*time.Millisecond)
	f.wall = f.wall.Add(time.Hour)
	for range 100 { // at once
		f.grant()
	}
	want("beside 100", ownScan)
}

// TestScansTakeTurns: no more scans are under way than there are turns; one that has
// waited for too long does not wait for ever.
func TestScansTakeTurns(t *testing.T) {
	f := newFakeLimits(0)
	f.turns = make(chan struct{}, 1)
	end := f.takeTurn(time.Hour)
	f.takeTurn(0)() // which ends without a turn
	second := make(chan func())
	go func() { second <- f.takeTurn(time.Hour) }()
	if len(f.turns) != 1 {
		t.Errorf("%d turns are taken, want 1", len(f.turns))
	}
	end()
	(<-second)()
	if len(f.turns) != 0 {
		t.Errorf("%d turns are taken in the end", len(f.turns))
	}
	s := New()
	s.limits.turns = make(chan struct{}, 1)
	s.scan(uint64(os.Getpid()), 1, func(*scan) Answer {
		if len(s.limits.turns) != 1 {
			t.Error("a scan has not taken its turn")
		}
		return No
	})
}
