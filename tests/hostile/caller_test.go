package hostile

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"mneme/tests/harness"
)

// callsOrder names the variable that makes the test binary a program which makes
// system calls, with an order in JSON.
const callsOrder = "MNEME_HOSTILE_CALLS"

// order is what such a program has to do.
type order struct {
	Seed    uint64
	Trees   []string // directories of stores, in all mounts
	Threads int
	Calls   int  // of each thread
	Endless bool // until it is killed
}

// made says how often a system call was made, and how often it succeeded.
type made struct{ Calls, Successes int }

const (
	slots     = 64 // of descriptors that a program has
	arenaSize = 2 << 20
	dataAt    = 64 << 10 // where texts begin in an arena
	dataSize  = 1 << 20
	guardSize = 64 << 10 // behind an arena and a mapping, so that the kernel writes nowhere else
	lifetime  = 200      // calls of a thread; then another one goes on
)

// longestCall is longer than the 45 s that the kernel waits for a lease.
var longestCall = harness.Slowness * 60 * time.Second

// program is one process of the agent's. Its threads use the same descriptors.
type program struct {
	order
	open    [slots]atomic.Int32
	memory  int // a memfd, through which mappings are read and written without SIGBUS
	callers []*caller
	running sync.WaitGroup
}

// caller makes random system calls, in one thread after another. All that the kernel
// reads and writes for it is in its arena, outside Go's heap.
type caller struct {
	*program
	number uint64     // of those of the program
	random *rand.Rand // of the call
	tree   string     // in which most names are for a while
	arena  []byte
	texts  []byte  // with which the arena is filled
	room   uintptr // for a mapping of a file, dataSize long
	mapped bool
	thread atomic.Int32
	since  atomic.Int64 // when the call under way began, in ns; 0: there is none
	mu     sync.Mutex
	last   []string
	made   map[string]made
	victim *os.Process
}

// makeCalls obeys an order, and returns the exit code.
func makeCalls(text string) int {
	p := &program{}
	if err := json.Unmarshal([]byte(text), &p.order); err != nil {
		return fatal(err)
	}
	for i := range p.open {
		p.open[i].Store(-1)
	}
	var err error
	if p.memory, err = unix.MemfdCreate("memory", unix.MFD_CLOEXEC); err != nil {
		return fatal(err)
	}
	if err := unix.Ftruncate(p.memory, dataSize); err != nil {
		return fatal(err)
	}
	syscall.Umask(0)
	for i := range p.Threads {
		c := &caller{program: p, number: uint64(i), made: map[string]made{}}
		if err := c.allocate(); err != nil {
			return fatal(err)
		}
		p.callers = append(p.callers, c)
	}
	for _, c := range p.callers {
		p.running.Add(1)
		go c.live(0)
	}
	ended := make(chan struct{})
	go func() { p.running.Wait(); close(ended) }()
	return p.watch(ended)
}

func fatal(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// live makes calls in a thread of its own, which ends with it, and lets another
// thread go on.
func (c *caller) live(done int) {
	runtime.LockOSThread()
	_ = unix.Unshare(unix.CLONE_FS) // a working directory of its own
	c.thread.Store(int32(unix.Gettid()))
	for range lifetime {
		if done == c.Calls && !c.Endless {
			c.thread.Store(0)
			c.killVictim()
			c.running.Done()
			return
		}
		c.random = rand.New(rand.NewPCG(c.Seed, c.number<<32+uint64(done))) // whatever the calls before have come to
		c.any()
		done++
	}
	go c.live(done)
}

// watch interrupts threads in the middle of calls until all have ended, and says what
// they did. A call that does not end is an error.
func (p *program) watch(ended <-chan struct{}) int {
	random := rand.New(rand.NewPCG(p.Seed, 1<<63))
	for {
		select {
		case <-ended:
			return p.report()
		case <-time.After(time.Duration(random.IntN(4)) * time.Millisecond):
		}
		c := p.callers[random.IntN(len(p.callers))]
		if thread := c.thread.Load(); thread != 0 {
			_ = unix.Tgkill(os.Getpid(), int(thread), unix.SIGURG)
		}
		for _, c := range p.callers {
			if since := c.since.Load(); since != 0 && time.Since(time.Unix(0, since)) > longestCall {
				c.mu.Lock()
				fmt.Fprintf(os.Stderr, "a call has not ended after %v:\n%s\n", longestCall, strings.Join(c.last, "\n"))
				return 1
			}
		}
	}
}

// report prints what was made of each call.
func (p *program) report() int {
	all := map[string]made{}
	for _, c := range p.callers {
		addCalls(all, c.made)
	}
	if err := json.NewEncoder(os.Stdout).Encode(all); err != nil {
		return fatal(err)
	}
	return 0
}

// sys makes a system call.
func (c *caller) sys(name string, number uintptr, args ...uintptr) (result uintptr, ok bool) {
	c.mu.Lock()
	c.last = append(c.last[max(0, len(c.last)-30):], fmt.Sprintf("%s(%#x) %q", name, args, c.names()))
	c.mu.Unlock()
	var a [6]uintptr
	copy(a[:], args)
	c.since.Store(time.Now().UnixNano())
	result, _, errno := syscall.Syscall6(number, a[0], a[1], a[2], a[3], a[4], a[5])
	c.since.Store(0)
	n := c.made[name]
	n.Calls++
	if errno == 0 {
		n.Successes++
	}
	c.made[name] = n
	return result, errno == 0
}

// at is the address of a place in the arena.
func (c *caller) at(place int) uintptr { return uintptr(unsafe.Pointer(&c.arena[place])) }

// Places in an arena, before the texts.
const (
	nameAt, otherNameAt = 0, 8 << 10
	structAt            = 16 << 10 // arguments that are structs
	resultAt            = 32 << 10 // where the kernel may write
	nameRoom            = 8 << 10
)

// names are the paths that the arena has.
func (c *caller) names() (names [2]string) {
	for i, place := range []int{nameAt, otherNameAt} {
		name, _, _ := strings.Cut(string(c.arena[place:place+400]), "\x00")
		names[i] = name
	}
	return names
}

// allocate makes the arena, filled with texts, and room for a mapping.
func (c *caller) allocate() error {
	for len(c.texts) < dataSize {
		c.texts = fmt.Appendf(c.texts, "line %d of %d: größer\n", len(c.texts), c.Seed)
	}
	all, err := unix.Mmap(-1, 0, arenaSize+guardSize+dataSize+guardSize, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return err
	}
	c.arena, c.room = all[:arenaSize], uintptr(unsafe.Pointer(&all[arenaSize+guardSize]))
	if err := unix.Mprotect(c.arena, unix.PROT_READ|unix.PROT_WRITE); err != nil {
		return err
	}
	c.fill()
	return nil
}

// fill puts texts where the kernel has written something else.
func (c *caller) fill() { copy(c.arena[dataAt:dataAt+dataSize], c.texts) }

// struct64 puts numbers into the arena as a struct, and returns its address.
func (c *caller) struct64(place int, fields ...uint64) uintptr {
	for i, field := range fields {
		*(*uint64)(unsafe.Pointer(&c.arena[structAt+place+8*i])) = field
	}
	return c.at(structAt + place)
}

// path puts a path into the arena, and returns its address: of a name below one of
// the trees or below the working directory.
func (c *caller) path(place int) uintptr {
	names := hostileNames
	if c.chance(2) {
		names = names[:plainNames]
	}
	path := pick(c, names)
	for c.chance(5) {
		path = pick(c, hostileDirs) + "/" + path
	}
	if c.tree == "" || c.chance(8) {
		c.tree = pick(c, c.Trees)
	}
	if !c.chance(6) {
		path = c.tree + "/" + path
	}
	return c.put(place, path)
}

// put puts a path into the arena.
func (c *caller) put(place int, path string) uintptr {
	room := c.arena[place : place+nameRoom]
	room[copy(room[:nameRoom-1], path)] = 0
	return c.at(place)
}

func pick[T any](c *caller, from []T) T { return from[c.random.IntN(len(from))] }

func (c *caller) chance(n int) bool { return c.random.IntN(n) == 0 }

// some is several of these flags, most often few.
func (c *caller) some(flags ...uintptr) (all uintptr) {
	for c.chance(2) {
		all |= pick(c, flags)
	}
	return all
}

// fd is one of the descriptors, most often.
func (c *caller) fd() uintptr {
	if c.chance(50) {
		return pick(c, []uintptr{^uintptr(0), 1 << 20, 1 << 31, 1<<31 - 1})
	}
	fd := int32(-1)
	for range 8 {
		if fd = pick(c, c.pool()).Load(); fd >= 0 {
			break
		}
	}
	return uintptr(fd)
}

func (c *caller) pool() []*atomic.Int32 {
	return slices.Collect(func(yield func(*atomic.Int32) bool) {
		for i := range c.open {
			if !yield(&c.open[i]) {
				return
			}
		}
	})
}

// keep gives a new descriptor a slot, and closes the one that was there.
func (c *caller) keep(fd uintptr, ok bool) {
	if !ok {
		return
	}
	if old := c.open[c.random.IntN(slots)].Swap(int32(fd)); old >= 0 {
		c.sys("close", unix.SYS_CLOSE, uintptr(old))
	}
}

// dir is the descriptor that a path is relative to.
func (c *caller) dir() uintptr {
	if c.chance(4) {
		return c.fd()
	}
	return cwd
}

// text is the address of a text, or of a mapped file, or a wrong one.
func (c *caller) text() uintptr {
	switch {
	case c.chance(40):
		return pick(c, []uintptr{0, 1, ^uintptr(4095), c.at(arenaSize - 1)})
	case c.mapped && c.chance(6):
		return c.room
	}
	return c.at(dataAt + c.random.IntN(1000))
}

func (c *caller) size() uintptr {
	if c.chance(30) {
		return pick(c, []uintptr{1 << 31, 1<<31 - 1, 1 << 62, ^uintptr(0)})
	}
	return pick(c, []uintptr{0, 1, 7, 64, 100, 1000, 4095, 4096, 4097, 65536, 102400, 102401, dataSize - 1000})
}

func (c *caller) offset() uintptr {
	if c.chance(8) {
		return pick(c, []uintptr{1<<31 - 1, 1 << 31, 1 << 32, 1 << 40, 1 << 62, 1<<63 - 1, 1<<63 - 4096, ^uintptr(0), ^uintptr(4095)})
	}
	return pick(c, []uintptr{0, 0, 0, 1, 4095, 4096, 65536, 102399, 102400, 7 << 20})
}

// vector puts a vector of parts into the arena, and returns its address and length.
func (c *caller) vector() (at, parts uintptr) {
	fields := make([]uint64, 0, 16)
	for range c.random.IntN(8) {
		fields = append(fields, uint64(c.text()), uint64(pick(c, []uintptr{0, 1, 100, 4096, 30000})))
	}
	return c.struct64(0, fields...), uintptr(len(fields) / 2)
}
