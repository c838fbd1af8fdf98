package fusefs

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestLookIsBounded: a process with many descriptors is not looked through to the end.
// What has not been seen is unknown.
func TestLookIsBounded(t *testing.T) {
	const nowhere = 1 << 40 // no file has such a number
	r := newRig(t)
	self := uint64(os.Getpid())
	for range 300 {
		f, err := os.Open(os.DevNull)
		r.must(err)
		defer f.Close()
	}
	own := 0 // descriptors
	for _, test := range []struct {
		name string
		look func(*look) answer
		want answer
	}{
		{"to the end", func(l *look) answer {
			l.descriptors, l.ends = 1<<20, time.Hour
			open := l.hasOpen(self, self)
			own = 1<<20 - l.descriptors
			return open
		}, no},
		{"at fewer descriptors than there are", func(l *look) answer {
			l.descriptors, l.ends = 300, time.Hour
			return l.hasOpen(self, self)
		}, unknown},
		{"for too long", func(l *look) answer {
			l.ends = 0
			return l.hasOpen(self, self)
		}, unknown},
		{"at no ancestors", func(l *look) answer {
			l.descriptors, l.ends = own, time.Hour
			return l.writtenOn(self)
		}, unknown},
	} {
		clear(r.fs.looks.resting)
		if got := r.fs.withLook(self, nowhere, test.look); got != test.want {
			t.Errorf("a look %s: %v, want %v", test.name, got, test.want)
		}
	}
}

// TestLooksOfOneProcess: of two looks for threads of one process the second waits for
// the first; another process's does not.
func TestLooksOfOneProcess(t *testing.T) {
	l := newLooks()
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
		t.Error("two looks are taken for one process")
	default:
	}
	end()
	<-waited
	if len(l.of) != 0 {
		t.Errorf("%d processes are remembered", len(l.of))
	}
}

// fakeLooks are looks whose clocks a test turns. Each descriptor that is read takes as
// long as it says of processor time.
type fakeLooks struct {
	looks
	processor, each time.Duration
	wall            time.Time
	read            []string // descriptors
}

func newFakeLooks(each time.Duration) *fakeLooks {
	f := &fakeLooks{looks: newLooks(), each: each, wall: time.Now()}
	f.processorTime = func() time.Duration { return f.processor }
	f.now = func() time.Time { return f.wall }
	f.looks.read = func(name string) ([]byte, error) {
		f.read = append(f.read, filepath.Base(name))
		f.processor += f.each
		return readStart(name)
	}
	return f
}

// take takes a look at this process for a file that it does not have open, and returns
// how many descriptors were read for it.
func (f *fakeLooks) take(granted time.Duration, at func(*look) answer) (answer, int) {
	f.read = nil
	self := uint64(os.Getpid())
	return at(&look{
		looks: &f.looks, process: self, inode: strconv.Itoa(1 << 40), descriptors: maxDescriptors, began: f.processor, ends: f.processor + granted,
	}), len(f.read)
}

func atSelf(l *look) answer { return l.hasOpen(l.process, l.process) }

// TestLookLeavesReadersOut: what the kernel says of a descriptor that cannot write is
// not asked for, which would be a line for each file that an inotify descriptor watches.
func TestLookLeavesReadersOut(t *testing.T) {
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
	f := newFakeLooks(0)
	if got, _ := f.take(time.Hour, atSelf); got != no {
		t.Fatalf("a look: %v, want %v", got, no)
	}
	if !slices.Contains(f.read, strconv.Itoa(int(writer.Fd()))) || slices.Contains(f.read, strconv.Itoa(notify)) {
		t.Errorf("descriptors %v were read, want %d and not %d among them", f.read, writer.Fd(), notify)
	}
}

// TestCostlyProcessRests: a process of which one descriptor takes as long as a look may
// is not looked at again for a hundred times as long, also for one that descends from it.
func TestCostlyProcessRests(t *testing.T) {
	f := newFakeLooks(maxLook + time.Millisecond)
	for range 2 { // so that there is one to be read, and one left
		writer, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer writer.Close()
	}
	if got, n := f.take(maxLook, atSelf); got != unknown || n != 1 {
		t.Errorf("the first look: %v, after %d descriptors; want %v after 1", got, n, unknown)
	}
	f.wall = f.wall.Add(restAfter * maxLook)
	if got, n := f.take(maxLook, atSelf); got != unknown || n != 0 {
		t.Errorf("the next look: %v, after %d descriptors; want %v after none", got, n, unknown)
	}
	f.wall = f.wall.Add(restAfter * time.Millisecond)
	if got, n := f.take(maxLook, atSelf); got != unknown || n != 1 {
		t.Errorf("a later look: %v, after %d descriptors; want %v after 1", got, n, unknown)
	}
	f = newFakeLooks(0)
	last, err := unix.FcntlInt(os.Stderr.Fd(), unix.F_DUPFD_CLOEXEC, 900) // the last in the list
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(last)
	f.looks.read = func(name string) ([]byte, error) {
		if filepath.Base(name) == strconv.Itoa(last) {
			f.processor += time.Second
		}
		return readStart(name)
	}
	for _, want := range []answer{no, unknown} {
		if got, _ := f.take(maxLook, atSelf); got != want {
			t.Errorf("a look at a process whose last descriptor takes long: %v, want %v", got, want)
		}
	}
	f = newFakeLooks(0)
	f.rest(uint64(os.Getppid()), time.Second)
	if got, _ := f.take(time.Hour, func(l *look) answer { return l.writtenOn(l.process) }); got != unknown {
		t.Errorf("a look beyond an ancestor that rests: %v, want %v", got, unknown)
	}
	f.wall = f.wall.Add(maxRest)
	f.rest(1, time.Second)
	if len(f.resting) != 1 {
		t.Errorf("%d processes are remembered, want 1", len(f.resting))
	}
}

// TestLooksShare: beyond what is its own, looks take no more processor time together
// than their share, whatever process they are for; one that took longer than it might
// is paid for by the next.
func TestLooksShare(t *testing.T) {
	f := newFakeLooks(0)
	want := func(when string, want time.Duration) time.Duration {
		t.Helper()
		got := f.grant()
		if got != want {
			t.Errorf("%s a look may take %v, want %v", when, got, want)
		}
		return got
	}
	f.spend(want("at first", maxLook), maxLook)
	f.spend(want("after one", maxLook), maxLook)
	want("after two", ownLook+maxSpare-2*(maxLook-ownLook))
	f.spend(want("after three", ownLook), ownLook)
	f.wall = f.wall.Add(lookShare * 20 * time.Millisecond)
	f.spend(want("20 ms later, of its share,", ownLook+20*time.Millisecond), ownLook+2*time.Millisecond)
	f.spend(want("after one that took less", ownLook+18*time.Millisecond), ownLook)
	f.wall = f.wall.Add(time.Hour)
	f.spend(want("an hour later", maxLook), time.Minute)
	f.wall = f.wall.Add(lookShare * maxDebt)
	want("when what was owed is paid", ownLook)
	f.wall = f.wall.Add(lookShare * 5 * time.Millisecond)
	want("after that", ownLook+5*time.Millisecond)
	f.wall = f.wall.Add(time.Hour)
	for range 100 { // at once
		f.grant()
	}
	want("beside 100", ownLook)
}

// TestLooksTakeTurns: no more looks are under way than there are turns; one that has
// waited for too long does not wait for ever.
func TestLooksTakeTurns(t *testing.T) {
	f := newFakeLooks(0)
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
	r := newRig(t)
	r.fs.looks.turns = make(chan struct{}, 1)
	r.fs.withLook(uint64(os.Getpid()), 1, func(*look) answer {
		if len(r.fs.looks.turns) != 1 {
			t.Error("a look has not taken its turn")
		}
		return no
	})
}
