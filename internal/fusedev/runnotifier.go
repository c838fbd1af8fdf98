package fusedev

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// notifierProcess is a notifier in its own process; type notifier is the server's side of it.
type notifierProcess struct {
	socket *os.File
	server int      // descriptor of the server's LifeThread; -1: none
	abort  *os.File // nil: there is none
	kept   bool

	receiving sync.Mutex   // held by the goroutine that waits for a message
	idle      atomic.Int32 // goroutines that wait for one, or for receiving
	waiting   atomic.Int32 // goroutines that wait in the kernel
	end       sync.Once
}

// IsNotifier reports whether this process must call RunNotifier.
func IsNotifier() bool { return os.Getenv(NotifierVariable) != "" }

// RunNotifier makes this process a notifier, see type notifier. It never returns.
func RunNotifier() {
	// The notifier ends with the server, so signals to the group must not end it earlier.
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE)
	// One goroutine works through what has come, as long as it need not wait.
	runtime.GOMAXPROCS(1)
	p, err := newNotifierProcess(os.Getenv(NotifierVariable))
	if err != nil {
		fmt.Fprintf(os.Stderr, "mneme: %s is for mneme itself: %v\n", NotifierVariable, err)
		os.Exit(1)
	}
	hello := binary.LittleEndian.AppendUint64(nil, uint64(LifeThread()))
	if _, err := p.socket.Write(hello); err != nil {
		p.leave()
	}
	p.work()
}

// newNotifierProcess reads the setting that notifiers.start has written.
func newNotifierProcess(setting string) (*notifierProcess, error) {
	fields := strings.Split(setting, ":")
	tid, err := strconv.Atoi(fields[0])
	if err != nil {
		return nil, err
	}
	p := &notifierProcess{socket: os.NewFile(notifierSocket, "server"), server: OpenThread(tid), kept: slices.Contains(fields, isKept)}
	if slices.Contains(fields, hasAbort) {
		p.abort = os.NewFile(notifierAbort, "abort")
	}
	return p, nil
}

// work gives the kernel what comes, and makes sure that another goroutine receives meanwhile.
func (p *notifierProcess) work() {
	buffer := make([]byte, maxMessage)
	for {
		p.idle.Add(1)
		p.receiving.Lock()
		length, ok := receive(p.socket, p.server, buffer)
		p.receiving.Unlock()
		if p.idle.Add(-1) == 0 {
			go p.work()
		}
		switch {
		case !ok || length < numberLength:
			p.leave()
		case binary.LittleEndian.Uint64(buffer) == endCall:
			p.endConnection()
		}
		p.waiting.Add(1)
		answer := answerTo(buffer[:length])
		p.waiting.Add(-1)
		_, _ = p.socket.Write(answer) // a server that has ended shows when the next message is received
	}
}

// answerTo gives the kernel the notices of a message, and returns the answer.
func answerTo(message []byte) (answer []byte) {
	answer = append(answer, message[:numberLength]...)
	for message = message[numberLength:]; len(message) > 0; {
		length := int(binary.LittleEndian.Uint32(message)) // of fuse.OutHeader
		if length <= 0 || length > len(message) {
			break
		}
		_, err := unix.Write(notifierDevice, message[:length])
		answer = binary.LittleEndian.AppendUint32(answer, uint32(fuse.ToStatus(err)))
		message = message[length:]
	}
	return answer
}

// leave ends this process after the server's.
func (p *notifierProcess) leave() {
	if p.kept { // the next process that serves the connection has a notifier of its own
		os.Exit(0)
	}
	p.endConnection()
}

// endConnection ends the connection, so that every request fails, and this process.
func (p *notifierProcess) endConnection() {
	p.end.Do(func() {
		if p.abort != nil {
			_, _ = p.abort.WriteString("1")
			os.Exit(0)
		}
		p.refuse()
		os.Exit(0)
	})
	select {} // the process ends
}

// refuse answers every request with an error for as long as a thread waits for a lock that
// a request holds: requests that the server has read and not answered come again, which
// needs Linux 6.9.
func (p *notifierProcess) refuse() {
	_, _ = unix.Write(notifierDevice, newNotice(fuse.NOTIFY_RESEND))
	b := newBuffers()
	for p.waiting.Load() > 0 {
		const pause = 20 // milliseconds, after which a thread may be done
		ready := []unix.PollFd{{Fd: notifierDevice, Events: unix.POLLIN}}
		_, _ = unix.Poll(ready, pause)
		n, err := unix.Read(notifierDevice, b.in)
		switch {
		case errors.Is(err, syscall.ENODEV):
			return
		case err != nil || n < int(b.header().Length):
			continue
		}
		if wantsAnswer(b.header().Opcode) {
			_, _ = unix.Write(notifierDevice, b.out[:b.head(refusal, 0)])
		}
	}
}
