// Package fusedev serves a fuse.RawFileSystem from the FUSE device of Linux. It
// is for file systems of small requests, in which most of a request's time goes
// into waking the thread that answers it.
//
// The goroutine that reads a request from the device answers it. While requests follow
// closely on each other, one goroutine polls for the next instead of going to sleep, since
// a goroutine that is awake need not be woken. When no request comes it sleeps in the
// kernel, so that an idle mount costs nothing. At least one goroutine always polls or
// sleeps there. Otherwise the goroutine that answers a request which may have to wait has
// set a guard, which wakes another one as soon as the device has a request.
package fusedev

import (
	"errors"
	"fmt"
	"log"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// FileSystem is what is served. Its requests may come at once from many
// goroutines. Their cancel channels are closed when a signal interrupts who waits,
// but not at the end of the mount.
type FileSystem interface {
	fuse.RawFileSystem
	Inline
}

// Inline is the requests that can often be answered at once. A method reports
// whether it has answered; it must not wait for I/O, for another request, or for
// the kernel, but return false, whereupon the ordinary method is asked. Forget,
// GetXAttr and ListXAttr must never wait.
type Inline interface {
	InlineOpen(in *fuse.OpenIn, out *fuse.OpenOut) (status fuse.Status, answered bool)
	InlineCreate(in *fuse.CreateIn, name string, out *fuse.CreateOut) (status fuse.Status, answered bool)
	InlineWrite(in *fuse.WriteIn, data []byte) (size uint32, status fuse.Status, answered bool)
	InlineRelease(in *fuse.ReleaseIn) (answered bool)
	InlineOpenDir(in *fuse.OpenIn, out *fuse.OpenOut) (status fuse.Status, answered bool)
	InlineReleaseDir(in *fuse.ReleaseIn) (answered bool)
	InlineLookup(header *fuse.InHeader, name string, out *fuse.EntryOut) (status fuse.Status, answered bool)
	InlineGetAttr(in *fuse.GetAttrIn, out *fuse.AttrOut) (status fuse.Status, answered bool)

	// Interrupted is called when the cancel channel of one request was closed, before that of
	// another one is. Until the request is answered, answer answers it; its method may go on.
	Interrupted(answer func(fuse.Status))
}

// Server serves a mounted file system.
type Server struct {
	fs       FileSystem
	protocol *fuse.ProtocolServer
	log      *log.Logger

	device *os.File
	fd     int // of device, for those who serve: it is open for as long as they do
	stop   int // an event, which is there to be read once Serve is to return

	greeting []byte // the kernel's first request
	resumed  bool   // another process has served the connection before
	before   func() // is called before each answer; nil: nothing is

	guard *guard

	answers   answers
	interrupt sync.Mutex   // held while the file system is told of an interrupt
	storing   sync.RWMutex // held while pages are given to the kernel
	notifiers notifiers

	serving sync.WaitGroup
	buffers sync.Pool     // of *buffers
	wake    chan struct{} // makes one who rests read the device
	gone    chan struct{} // closed when the mount is
	ended   sync.Once     // closes gone

	readers  atomic.Int32 // goroutines that poll for requests, or sleep until one comes
	resting  atomic.Int32 // goroutines that wait for wake
	looking  atomic.Bool  // a goroutine polls; it owns crowd
	eager    atomic.Bool  // the last request came soon after the last answer
	answered atomic.Int64 // when that was given, since began
	began    time.Time
	crowd    crowd
}

// Mount mounts fs at dir, an absolute path: as root directly, otherwise by fusermount3. on
// is that directory, if root has it open (perhaps with O_PATH): then fs is mounted on that
// directory, whatever dir means now. Mount uses the options FsName, Name, Options and
// AllowOther, and those that are about the protocol; MaxWrite is always 128 KiB. Init and
// OnUnmount are not called. The kernel's requests wait for Serve. The process that serves a
// mount must not open files in it: to register a file with the poller, Go asks the kernel,
// which asks the mount, while Go holds the thread that would answer.
func Mount(fs FileSystem, dir string, on *os.File, opts *fuse.MountOptions) (*Server, error) {
	o := complete(opts)
	fd, err := mount(dir, on, &o)
	if err != nil {
		return nil, err
	}
	s, err := newServer(fs, fd, &o)
	if err != nil {
		return nil, errors.Join(err, detachAgain(dir, &o))
	}
	if err := s.greet(); err != nil {
		return nil, errors.Join(err, detachAgain(dir, &o), s.Close())
	}
	return s, nil
}

// requestTimeout is after how long the kernel ends a connection in which a request has no answer, with
// CAP_REQUEST_TIMEOUT (Linux 6.14): far longer than a request takes. It is for a container whose
// processes are all killed at once, notifier included.
const requestTimeout = 10 * time.Minute

// complete returns options with what is left to the server.
func complete(opts *fuse.MountOptions) fuse.MountOptions {
	o := *opts
	o.MaxWrite = maxWrite
	if o.Logger == nil {
		o.Logger = log.Default()
	}
	return o
}

// newServer makes a server of a device, reads of which wait. If that fails, the
// device is closed.
func newServer(fs FileSystem, fd int, o *fuse.MountOptions) (*Server, error) {
	s := &Server{
		fs: fs, protocol: fuse.NewProtocolServer(fs, o), log: o.Logger,
		device: os.NewFile(uintptr(fd), "/dev/fuse"), fd: fd,
		stop: -1, wake: make(chan struct{}), gone: make(chan struct{}), began: time.Now(),
	}
	s.buffers.New = func() any { return newBuffers() }
	// Only now: of a file that was like this before, Go's poller would be told of every request.
	err := unix.SetNonblock(fd, true)
	if err == nil {
		s.stop, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	}
	if err == nil {
		s.guard, err = newGuard(fd, s.stop)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// greet answers the kernel's first request, by which both sides agree on the protocol.
func (s *Server) greet() error {
	s.readers.Add(1)
	defer s.readers.Add(-1)
	b := newBuffers()
	n, err := s.next(b, false)
	if err != nil {
		return fmt.Errorf("read from the FUSE device: %w", err)
	}
	if err := s.agree(b, n); err != nil {
		return err
	}
	if _, err := unix.Write(s.fd, b.out[:b.outHeader().Length]); err != nil {
		return fmt.Errorf("write to the FUSE device: %w", err)
	}
	return nil
}

// agree makes the answer to the kernel's first request, of length n.
func (s *Server) agree(b *buffers, n int) error {
	s.greeting = slices.Clone(b.in[:n])
	_, status := s.protocol.HandleRequest([][]byte{b.in[:n]}, [][]byte{b.out})
	if status.Ok() {
		status = fuse.Status(-b.outHeader().Status)
	}
	if !status.Ok() {
		return fmt.Errorf("agree with the kernel on the FUSE protocol: %w", syscall.Errno(status))
	}
	if out := (*fuse.InitOut)(unsafe.Pointer(&b.out[unsafe.Sizeof(fuse.OutHeader{})])); out.Flags64()&fuse.CAP_REQUEST_TIMEOUT != 0 {
		out.RequestTimeout = uint16(requestTimeout / time.Second)
	}
	return nil
}

// Serve answers requests until the kernel ends the connection, or Stop does, and
// all that came are answered. Until Close, notices can still be sent.
func (s *Server) Serve() {
	s.serving.Go(s.stand)
	s.call()
	if s.resumed {
		s.repeat()
	}
	s.serving.Wait()
}

// Close closes the device once Serve has returned, which ends the connection: every request
// fails from then on, also in other namespaces that have a copy of the mount.
func (s *Server) Close() error {
	if s.guard != nil {
		_ = s.guard.close()
	}
	if s.stop >= 0 {
		_ = unix.Close(s.stop)
	}
	s.notifiers.close()
	return s.device.Close()
}

// now is the time since the server was made, which grows steadily.
func (s *Server) now() time.Duration { return time.Since(s.began) }

// answer lets the file system answer the request of length n, which may take long:
// meanwhile Revoke may have answered it.
func (s *Server) answer(b *buffers, n int) {
	unique := b.header().Unique
	if !s.answers.expect(unique, writesBack(b, n)) {
		s.refuse(b)
		return
	}
	out := s.ask(b, n)
	s.answers.give(unique, func() { s.reply(out) })
}

// ask lets the file system answer the request of length n, and returns the answer.
func (s *Server) ask(b *buffers, n int) []byte {
	size, status := s.protocol.HandleRequest([][]byte{b.in[:n]}, [][]byte{b.out})
	b.usedOut = max(b.usedOut, size)
	if !status.Ok() { // it has no answer, but the kernel waits for one
		size = b.head(status, 0)
	}
	return b.out[:size]
}

// reply sends an answer, unless it is empty. The kernel wants none from a request
// that was taken back, nor when it has unmounted.
func (s *Server) reply(out []byte) {
	if len(out) == 0 {
		return
	}
	if s.before != nil {
		s.before()
	}
	_, err := unix.Write(s.fd, out)
	s.answered.Store(int64(s.now()))
	if err != nil && !errors.Is(err, syscall.ENOENT) && !errors.Is(err, syscall.ENODEV) {
		s.log.Printf("write to the FUSE device: %v", err)
	}
}
