package fusedev

import (
	"encoding/binary"
	"errors"
	"log"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// A notifier is a process that gives the kernel the notices of a server, and ends the connection
// when the server's process is gone.
//
// The kernel takes the lock of a directory before it forgets a name in it, in a way that no signal
// interrupts (fs/fuse/dir.c, fuse_reverse_inval_entry). A program that makes a file there holds
// that lock until the server answers. If the server were killed while a thread of its own waited
// for the lock, that thread would keep the device open, so that the kernel would never learn that
// no process answers: program and process would wait for each other permanently. The thread would
// also keep the locks of every file that the process has open.
//
//  1. None: the server has not sent a notice yet. Then no thread of it can wait like this.
//  2. Serving: started by the first notice, the process gives the kernel notices, each in a thread
//     that may wait, and answers how that went. The server's process itself gives the kernel pages,
//     and at the end of the mount drops them (NotifyAtOnce): both wait only for the pages of a file
//     while a request reads them.
//  3. Orphaned: the server's process has ended, however. Unless a keeper has the connection served
//     by the next process, the notifier ends it: it writes to the connection's abort file or, where
//     it has none, answers every request with an error until no thread of its own waits.
//  4. Ended: the server has closed the connection. Where the server has no abort file, the notifier
//     did the same as an orphan.
//
// If the notifier is killed, the server starts another one and repeats the unanswered notices; a
// notice that comes twice does no harm. If none can be started, the server's process gives the
// notices itself.
//
// A notifier has no file open but the device, its socket and that abort file, so that its waiting
// threads hold nothing else.
type notifier struct {
	socket  *os.File // blocking
	process *os.Process
	began   time.Time
	gone    chan struct{} // closed when it gets no more calls
	dead    chan struct{} // closed when the process has ended

	mu    sync.Mutex
	calls map[uint64]chan<- []fuse.Status // that are not answered; nil when it has ended
	last  uint64                          // number of a call
}

// notifiers are those of a server, one after another.
type notifiers struct {
	command func() *exec.Cmd // nil: the server's process gives notices itself
	device  *os.File
	abort   *os.File // ends the connection; nil: not available here
	kept    bool
	log     *log.Logger

	serving atomic.Pointer[notifier] // the last one that was started
	mu      sync.Mutex               // guards the fields below, and starting
	failed  bool                     // none can be started
	closed  bool
}

const (
	// NotifierVariable says in the environment of a process that it is a notifier: the number of
	// the server's LifeThread and, after colons, isKept and hasAbort where they are true.
	NotifierVariable = "MNEME_NOTIFIER"

	isKept   = "kept"  // a keeper has the connection
	hasAbort = "abort" // the process has notifierAbort

	notifierSocket, notifierDevice, notifierAbort = 3, 4, 5 // its descriptors

	maxMessage   = 64 << 10 // bytes
	numberLength = 8        // of a call, at the beginning of its message and of the answer
	endCall      = 0        // the number of the message that ends the connection, which has no answer

	statusLength = 4 // of each notice, in the answer

	shortLife    = time.Second     // a notifier that ends sooner is not started again
	endingAtMost = 5 * time.Second // how long a server waits for its notifier to end
)

// begin makes sure that there is a notifier.
func (ns *notifiers) begin() *notifier {
	if n := ns.serving.Load(); ns.command == nil || n != nil && !n.hasEnded() {
		return n
	}
	ns.mu.Lock()
	defer ns.mu.Unlock()
	last := ns.serving.Load()
	switch {
	case last != nil && !last.hasEnded():
		return last
	case ns.closed || ns.failed:
		return nil
	case last != nil && time.Since(last.began) < shortLife:
		ns.failLocked(errors.New("it has ended at once"))
		return nil
	case last != nil:
		ns.log.Printf("the process that gives the kernel notices has ended, another one is started")
	}
	n, err := ns.start()
	if err != nil {
		ns.failLocked(err)
		return nil
	}
	ns.serving.Store(n)
	return n
}

func (ns *notifiers) failLocked(err error) {
	ns.failed = true
	ns.log.Printf("start a process that gives the kernel notices: %v; this one gives them, and if it is killed programs may have to wait until the mount is unmounted", err)
}

// isClosed reports whether the server has ended the connection: then nothing gives notices.
func (ns *notifiers) isClosed() bool {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	return ns.closed
}

// give has notices given to the kernel. It returns false if the caller must give them.
func (ns *notifiers) give(notices []Notice) (statuses []fuse.Status, given bool) {
	for {
		n := ns.begin()
		if n == nil {
			return slices.Repeat([]fuse.Status{fuse.Status(syscall.ENODEV)}, len(notices)), ns.isClosed()
		}
		if statuses, given = n.giveAll(notices); given {
			return statuses, true
		}
	}
}

// close ends the connection if that is possible, and makes the notifier end, which holds
// the connection open: its thread may wait for a lock that only the end of the connection
// frees. It waits for the notifier's end, but not long.
func (ns *notifiers) close() {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	ns.closed = true
	if ns.abort != nil {
		_, _ = ns.abort.WriteString("1") // else it has ended
		_ = ns.abort.Close()
	}
	n := ns.serving.Load()
	if n == nil {
		return
	}
	if n.endIf(ns.abort != nil) {
		_ = n.process.Kill() // perhaps before it has begun to work
	} else {
		_, _ = n.socket.Write(binary.LittleEndian.AppendUint64(nil, endCall)) // else it has ended
	}
	select {
	case <-n.dead:
	case <-time.After(endingAtMost):
		n.end()
	}
}

func (ns *notifiers) start() (*notifier, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "notifier"), os.NewFile(uintptr(pair[1]), "notifier")
	defer theirs.Close()
	cmd, setting := ns.command(), strconv.Itoa(LifeThread())
	if ns.kept {
		setting += ":" + isKept
	}
	cmd.ExtraFiles = []*os.File{theirs, ns.device}
	if ns.abort != nil {
		cmd.ExtraFiles = append(cmd.ExtraFiles, ns.abort)
		setting += ":" + hasAbort
	}
	cmd.Env = append(cmd.Environ(), NotifierVariable+"="+setting)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // a signal of a terminal is for the server alone
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, ours.Close())
	}
	n := &notifier{
		socket: ours, process: cmd.Process, began: time.Now(),
		gone: make(chan struct{}), dead: make(chan struct{}), calls: map[uint64]chan<- []fuse.Status{},
	}
	go func() {
		defer close(n.dead)
		_ = cmd.Wait()
	}()
	go n.listen()
	return n, nil
}

func (n *notifier) hasEnded() bool {
	select {
	case <-n.gone:
		return true
	default:
		return false
	}
}

// end notes that the process has ended: no call gets an answer.
func (n *notifier) end() { n.endIf(true) }

// endIf is end, unless calls wait for an answer and are not to be given up: then it returns false.
func (n *notifier) endIf(giveUp bool) (ended bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.calls == nil {
		return true
	}
	if len(n.calls) > 0 && !giveUp {
		return false
	}
	close(n.gone)
	for _, answer := range n.calls {
		close(answer)
	}
	n.calls = nil
	_ = unix.Shutdown(int(n.socket.Fd()), unix.SHUT_RDWR) // listen closes it
	return true
}

// giveAll sends the notices in as few messages as they take. It returns false when the process has
// ended meanwhile.
func (n *notifier) giveAll(notices []Notice) (statuses []fuse.Status, ok bool) {
	for len(notices) > 0 {
		message := make([]byte, numberLength, 512)
		count := 0
		for ; count < len(notices) && len(message)+len(notices[count]) <= maxMessage; count++ {
			message = append(message, notices[count]...)
		}
		answer := make(chan []fuse.Status, 1)
		if !n.call(message, answer) {
			return nil, false
		}
		some, ok := <-answer
		if !ok {
			return nil, false
		}
		statuses, notices = append(statuses, some...), notices[count:]
	}
	return statuses, true
}

// call sends a message, with a number of its own.
func (n *notifier) call(message []byte, answer chan<- []fuse.Status) (ok bool) {
	n.mu.Lock()
	if n.calls == nil {
		n.mu.Unlock()
		return false
	}
	n.last++
	binary.LittleEndian.PutUint64(message, n.last)
	n.calls[n.last] = answer
	n.mu.Unlock()
	if _, err := n.socket.Write(message); err != nil {
		n.end()
		return false
	}
	return true
}

// listen passes answers on until the process has ended. The first message is the number of its
// LifeThread.
func (n *notifier) listen() {
	defer n.socket.Close()
	defer n.end()
	buffer := make([]byte, maxMessage)
	length, ok := receive(n.socket, -1, buffer)
	if !ok || length != numberLength {
		return
	}
	thread := OpenThread(int(binary.LittleEndian.Uint64(buffer)))
	if thread >= 0 {
		defer unix.Close(thread)
	}
	for {
		length, ok := receive(n.socket, thread, buffer)
		if !ok || length < numberLength {
			return
		}
		number, text := binary.LittleEndian.Uint64(buffer), buffer[numberLength:length]
		statuses := make([]fuse.Status, 0, len(text)/statusLength)
		for status := range slices.Chunk(text, statusLength) {
			statuses = append(statuses, fuse.Status(binary.LittleEndian.Uint32(status)))
		}
		n.mu.Lock()
		answer := n.calls[number]
		delete(n.calls, number)
		n.mu.Unlock()
		if answer != nil {
			answer <- statuses
		}
	}
}

// receive waits for a message. It returns false when the other process has ended, as the socket or
// its LifeThread shows.
func receive(socket *os.File, thread int, buffer []byte) (length int, ok bool) {
	for {
		ready := []unix.PollFd{{Fd: int32(socket.Fd()), Events: unix.POLLIN}, {Fd: int32(thread), Events: unix.POLLIN}} // one below 0 is passed over
		if _, err := unix.Poll(ready, -1); err == syscall.EINTR {
			continue
		}
		if ready[0].Revents == 0 {
			return 0, false
		}
		length, err := socket.Read(buffer)
		return length, err == nil
	}
}
