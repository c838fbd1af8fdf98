package daemon

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"mneme/fusefs"
	"mneme/internal/fusedev"
)

// KeepOptions describe a mount that a keeper holds.
type KeepOptions struct {
	At       string // the directory of the mount
	Flat     bool   // the mount is one store
	Session  string
	ReadOnly []bool // for each store of the mount, whether it is only read

	Args  []string   // the arguments of each process that serves the mount
	Level slog.Level // from which the keeper logs
	Text  ErrorText
}

// A keeper holds the connection of a mount, and the journal of the kernel's state
// (package handover). Processes serve the mount one after another. The keeper reads
// neither the connection nor the journal. The mount's source names the keeper, which
// receives the signals that end the mount or replace the process that serves it.
//
//   - The serving process is killed, or fails: another process takes over. A thread of
//     the killed process may stay in the kernel, where it waits for a page that a
//     program's read holds. Only the next process can answer that read.
//   - The next process cannot reach the stores, or its credential is not valid: these
//     failures are temporary, so another process tries after a pause, without a limit.
//     Programs wait meanwhile. Too many other failures in a row end the mount.
//   - SIGHUP: a process of the program that now has this one's name prepares everything
//     except the device. Then the serving process leaves, and the new one takes over.
//     If it cannot prepare, nothing changes. While another process starts, the
//     replacement waits until that process serves.
//   - SIGTERM, SIGINT: the serving process ends the mount.
//   - The mount ends for any reason: the keeper exits with the serving process's code.
//   - The keeper is killed: the serving process ends the mount.
type keeper struct {
	KeepOptions
	self string // the program
	log  *slog.Logger
	logs string // file that a daemon in the background logs to; "": none

	device, journal int // -1 before it is mounted

	serving  *kept // serves, or is about to; nil: no process
	next     *kept // prepares to take over; nil: no process
	events   chan keeperEvent
	ending   bool // the mount must end
	replace  bool // the serving process must be replaced as soon as it serves
	failures int  // in a row

	away  int              // how many processes in a row could not reach the stores
	pause <-chan time.Time // ends a pause without a serving process; nil: no pause
}

// kept is a process that serves the mount.
type kept struct {
	link     *Link
	process  *exec.Cmd
	prepared bool
	away     bool          // it reported that it cannot reach the stores
	served   time.Time     // when it began to serve; zero: not yet
	ended    bool          // it reported that the mount has ended
	waited   chan struct{} // closed when all its threads have ended, and process has its state
}

// how describes how a process has ended.
func (d *kept) how() string {
	select {
	case <-d.waited:
		return d.process.ProcessState.String()
	default:
		return "killed, with a thread that waits in the kernel"
	}
}

// code is the exit code of a process. A process may die of a signal to end after it
// reported the end of the mount. That is a success.
func (d *kept) code() int {
	const success, failure = 0, 1
	<-d.waited
	code := d.process.ProcessState.ExitCode()
	switch {
	case code >= 0:
		return code
	case d.ended && d.process.ProcessState.Sys().(syscall.WaitStatus).Signal() == syscall.SIGTERM:
		return success
	}
	return failure
}

// killed reports whether a process has ended because it was killed.
func (d *kept) killed() bool {
	select {
	case <-d.waited:
		return d.process.ProcessState.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL
	default:
		return true
	}
}

// OwnProgram is the program of this process, even if its file has been replaced.
const OwnProgram = "/proc/self/exe"

// goneAtLast is an event: no thread of a process is left, and its locks are free.
const goneAtLast = 'g'

// keeperEvent is a message of a process, or its end.
type keeperEvent struct {
	of    *kept
	what  byte // of a message; 0: the process has ended, or its threads no longer run
	files []int
}

const (
	maxFailures   = 6 // in a row, and the mount ends
	soon          = time.Second
	maxPause      = 10 * time.Second // while the stores cannot be reached
	leavePatience = 3 * time.Second
)

// Keep runs a keeper until its mount has ended. It returns the exit code of the process
// that served last. parent is the pipe to the process that started this one as a daemon,
// or nil. Keep closes it.
func Keep(o *KeepOptions, parent *os.File) (int, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	k := &keeper{
		KeepOptions: *o, self: self, logs: os.Getenv(logVariable),
		device: -1, journal: -1, events: make(chan keeperEvent),
	}
	k.log = NewLogger(o.Level, o.Text)
	signal.Ignore(syscall.SIGPIPE) // the reader of the log may end before the mount
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	k.serving, err = k.start(false, parent)
	if parent != nil {
		err = errors.Join(err, parent.Close()) // the serving process has it
	}
	if err != nil {
		return 0, err
	}
	for {
		select {
		case s := <-signals:
			k.signalled(s)
		case <-k.pause:
			if err := k.endPause(); err != nil {
				return 0, err
			}
		case e := <-k.events:
			switch {
			case e.what != 0:
				k.told(e)
			case e.of == k.serving:
				if done, code, err := k.lost(e); done {
					return code, err
				}
			case e.of == k.next:
				if err := k.lostNext(e); err != nil {
					return 0, err
				}
			}
		}
	}
}

// start starts a process that serves, or prepares to take over.
func (k *keeper) start(over bool, parent *os.File) (*kept, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	theirs := os.NewFile(uintptr(pair[1]), "keeper")
	defer theirs.Close()
	program := k.self
	if k.failures > 1 { // the file may have been replaced by one that does not run
		program = OwnProgram
	}
	link := &Link{keeper: os.Getpid(), socket: pair[0], over: over, session: k.Session, readOnly: readOnlyMask(k.ReadOnly)}
	d := &kept{link: link, process: exec.Command(program, k.Args...)}
	const first = 3 // the number of the first of ExtraFiles
	if parent != nil {
		d.process.ExtraFiles = append(d.process.ExtraFiles, parent)
	}
	d.process.ExtraFiles = append(d.process.ExtraFiles, theirs)
	d.process.Env = append(os.Environ(), d.link.variable(first+len(d.process.ExtraFiles)-1))
	if parent != nil {
		d.process.Env = append(d.process.Env, parentPipeVariable+"=1")
	}
	if k.logs != "" {
		d.process.Env = append(d.process.Env, logVariable+"="+k.logs)
	}
	d.process.Stdin, d.process.Stdout, d.process.Stderr = os.Stdin, os.Stdout, os.Stderr
	d.waited = make(chan struct{})
	if err := d.process.Start(); err != nil {
		return nil, errors.Join(err, unix.Close(pair[0]))
	}
	go func() {
		defer close(d.waited)
		_ = d.process.Wait()
	}()
	if over {
		if err := d.link.tell(tellJournal, k.journal); err != nil {
			k.log.Warn("tell a new process", "err", err) // its end gives the reason
		}
	}
	go k.listen(d)
	return d, nil
}

// listen passes on the messages of a process, until the process or the thread that it
// named has ended. Then none of its threads does anything.
func (k *keeper) listen(d *kept) {
	const usual = 100 * time.Millisecond // is more than the other threads take to end
	thread := -1
	for {
		ready := []unix.PollFd{{Fd: int32(d.link.socket), Events: unix.POLLIN}, {Fd: int32(thread), Events: unix.POLLIN}} // poll ignores a number below 0
		if _, err := unix.Poll(ready, -1); err != nil {
			continue
		}
		if ready[0].Revents == 0 {
			break
		}
		what, number, files, err := d.link.hear()
		if err != nil {
			break
		}
		if what == tellThread {
			thread = fusedev.OpenThread(number) // the socket shows a thread that has ended already
			continue
		}
		k.events <- keeperEvent{of: d, what: what, files: files}
	}
	select {
	case <-d.waited:
	case <-time.After(usual):
	}
	_ = unix.Close(d.link.socket)
	if thread >= 0 {
		_ = unix.Close(thread)
	}
	k.events <- keeperEvent{of: d}
	<-d.waited
	k.events <- keeperEvent{of: d, what: goneAtLast}
}

func (k *keeper) signalled(s os.Signal) {
	switch {
	case s != syscall.SIGHUP:
		k.ending = true
		k.end()
		k.hurry()
	case k.ending:
		k.log.Info("not replaced: the mount is being ended")
	case k.away > 0 && k.serving == nil: // the next process runs the program of that name anyway
		k.failures = 0
		k.hurry()
	case k.next != nil, k.serving == nil, k.serving.served.IsZero():
		k.replace = true
	default:
		k.startNext()
	}
}

// startNext starts a process to replace the serving one.
func (k *keeper) startNext() {
	k.failures, k.replace = 0, false
	next, err := k.start(true, nil)
	if err != nil {
		k.log.Error("replace the process that serves the mount", "err", err)
		return
	}
	k.next = next
}

// end tells the serving and the next process to end the mount.
func (k *keeper) end() {
	for _, d := range []*kept{k.serving, k.next} {
		if d != nil {
			_ = d.process.Process.Signal(syscall.SIGTERM)
		}
	}
}

// told handles a message of a process.
func (k *keeper) told(e keeperEvent) {
	switch e.what {
	case tellMounted:
		if len(e.files) == 2 {
			k.device, k.journal = e.files[0], e.files[1]
		}
	case tellServing:
		e.of.served, k.away = time.Now(), 0
		switch {
		case k.ending:
			k.end()
		case k.replace:
			k.startNext()
		}
	case tellEnded:
		e.of.ended = true
	case tellAway:
		e.of.away = true
	case goneAtLast:
		if k.serving != nil {
			_ = k.serving.link.tell(tellGone) // a process that has ended does not need it
		}
	case tellPrepared:
		e.of.prepared = true
		if k.serving == nil {
			k.takeOver()
			return
		}
		leaving := k.serving
		if err := leaving.link.tell(tellLeave); err != nil {
			k.log.Warn("tell who serves to leave", "err", err)
		}
		time.AfterFunc(leavePatience, func() { _ = leaving.process.Process.Kill() }) // does nothing to one that has ended
	}
}

// takeOver gives the device to the next process. No process serves.
func (k *keeper) takeOver() {
	k.serving, k.next = k.next, nil
	if err := k.serving.link.tell(tellTakeOver, k.device); err != nil {
		k.log.Warn("tell the next process to take over", "err", err)
	}
}

// lost continues after the serving process has ended. If the mount has ended, too, done
// is set and code is the exit code.
func (k *keeper) lost(e keeperEvent) (done bool, code int, err error) {
	k.serving = nil
	if e.of.ended || k.device < 0 {
		if k.next != nil {
			_ = k.next.process.Process.Kill()
		}
		if k.device >= 0 { // so that no program waits for an answer
			_ = unix.Close(k.device)
		}
		return true, e.of.code(), nil
	}
	if k.next != nil {
		if k.next.prepared {
			k.takeOver()
		}
		return false, 0, nil // else it takes over when it is prepared
	}
	k.log.Warn("the process that served the mount has ended, another one takes over", "pid", e.of.process.Process.Pid, "how", e.of.how())
	return k.again(e)
}

// again starts a process to take over from one that has failed, at once or after a
// pause. It ends the mount if too many processes have failed.
func (k *keeper) again(e keeperEvent) (done bool, code int, err error) {
	switch {
	case e.of.away:
		k.away, k.failures = k.away+1, 0
		pause := min(maxPause, 50*time.Millisecond<<min(k.away, 10))
		k.pause = time.After(pause)
		k.log.Warn("nobody serves the mount while its stores cannot be reached, another process tries again", "times", k.away, "pause", pause)
		if k.ending {
			k.hurry()
		}
		return false, 0, nil
	case e.of.served.IsZero() || !e.of.killed() && time.Since(e.of.served) < soon:
		k.failures++
	default:
		k.failures = 0
	}
	err = k.startAgain(e.of.how())
	return err != nil, 0, err
}

// hurry ends a pause, if one is on.
func (k *keeper) hurry() {
	if k.pause != nil {
		k.pause = time.After(0)
	}
}

// endPause continues after a pause without a serving process. The mount may have ended
// in the pause.
func (k *keeper) endPause() error {
	k.pause = nil
	switch {
	case k.ending:
		return k.giveUp(k.away, "its stores cannot be reached")
	case isDisconnected(k.device):
		return errors.Join(errors.New("the mount was ended while nobody served it, since its stores cannot be reached; what was being written is lost"), k.detach())
	}
	return k.startAgain("")
}

// isDisconnected reports whether the kernel has ended the connection of a device.
func isDisconnected(device int) bool {
	state := []unix.PollFd{{Fd: int32(device)}}
	n, err := unix.Poll(state, 0)
	return err == nil && n > 0 && state[0].Revents&unix.POLLERR != 0
}

// giveUp ends a mount that no process could serve so many times. how is the reason.
func (k *keeper) giveUp(times int, how string) error {
	return errors.Join(fmt.Errorf("%d times in a row no process could serve the mount, the last time because: %s; it is unmounted, and what was being written is lost", times, how), k.detach())
}

// startAgain starts a process to take over, unless too many have failed. how is the
// reason of the last failure.
func (k *keeper) startAgain(how string) (err error) {
	for {
		if k.failures >= maxFailures || k.ending && k.failures > 0 {
			return k.giveUp(k.failures, how)
		}
		if k.failures > 1 {
			time.Sleep(50 * time.Millisecond << k.failures)
		}
		if k.next, err = k.start(true, nil); err == nil {
			return nil
		}
		k.log.Error("start a process to serve the mount", "err", err)
		how = err.Error()
		k.failures++
	}
}

// detach takes the mount out of the directory tree.
func (k *keeper) detach() error {
	dir, err := MountDir(k.At)
	if err != nil {
		return err
	}
	at, err := fusedev.Attached(dir, fusefs.Source(os.Getpid(), k.Flat), fusefs.Name)
	return errors.Join(err, explainDetach(at.Detach()))
}

// lostNext continues after the process that prepared to take over has ended.
func (k *keeper) lostNext(e keeperEvent) error {
	k.next = nil
	if !e.of.away {
		k.log.Error("a process that was to take over has ended", "pid", e.of.process.Process.Pid, "how", e.of.how())
	}
	if k.serving != nil {
		return nil // it continues to serve
	}
	_, _, err := k.again(e)
	return err
}
