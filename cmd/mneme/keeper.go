package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"mneme/backend"
	"mneme/fusefs"
	"mneme/internal/fusedev"
)

// A keeper holds the connection of a mount, and the journal that says what the
// kernel knows of it (package handover), for processes that serve it one after
// another. It looks into neither. The mount is named after the keeper, which is told
// to end it and to replace the process that serves.
//
//   - Who serves is killed, or fails: another one takes over, though a thread of the
//     killed one may stay for a while: in the kernel, waiting for a page that a
//     program's read holds, which only the next one can answer.
//   - Who is to take over cannot reach the stores, or has no credential that counts: that passes
//     by itself, so another one tries after a pause, for as long as it lasts. Programs wait
//     meanwhile. Of other failures too many in a row end the mount.
//   - SIGHUP: another one, of the program that has this one's name by now, prepares
//     everything but the device; then the one that serves leaves, and it takes over.
//     If it cannot, all stays as it was. While one is being started already, this is
//     done as soon as that one serves.
//   - SIGTERM, SIGINT: who serves ends the mount.
//   - The mount ends, however: the keeper ends like who served it.
//   - The keeper is killed: who serves ends the mount.
type keeper struct {
	cmd  *mountCmd
	self string   // the program
	args []string // of who serves

	readOnly string // the stores that are only read, see keeperLink
	log      *slog.Logger
	logs     string // file that a daemon in the background logs to; "": none

	device, journal int // -1 before it is mounted

	serving  *kept // or is about to; nil: nobody
	next     *kept // is to take over; nil: nobody
	events   chan keeperEvent
	ending   bool // the mount is to end
	replace  bool // who serves is to be replaced, as soon as he does
	failures int  // in a row

	away  int              // how many in a row could not reach the stores
	pause <-chan time.Time // nobody serves, and the next one starts then; nil: none is waited for
}

// kept is a process that serves the mount.
type kept struct {
	link     *keeperLink
	process  *exec.Cmd
	prepared bool
	away     bool          // it says that it cannot reach the stores
	served   time.Time     // since when; zero: not yet
	ended    bool          // it says that the mount has
	waited   chan struct{} // closed when all of its threads have ended, and process knows how
}

// how says how a process has ended.
func (d *kept) how() string {
	select {
	case <-d.waited:
		return d.process.ProcessState.String()
	default:
		return "killed, with a thread that waits in the kernel"
	}
}

// code is the exit code of a process. One that was told to end when it had said that
// the mount has may die of that: all was done.
func (d *kept) code() int {
	<-d.waited
	code := d.process.ProcessState.ExitCode()
	switch {
	case code >= 0:
		return code
	case d.ended && d.process.ProcessState.Sys().(syscall.WaitStatus).Signal() == syscall.SIGTERM:
		return success.code
	}
	return failure.code
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

// ownProgram is what the keeper itself runs, whatever has its name by now.
const ownProgram = "/proc/self/exe"

// goneAtLast is an event: no thread of a process is left, nor what it had locked.
const goneAtLast = 'g'

// keeperEvent is what a process says, or that it has ended.
type keeperEvent struct {
	of    *kept
	what  byte // of a message; 0: it has ended, in that it does nothing any more
	files []int
}

const (
	maxFailures   = 6 // in a row, and the mount ends
	soon          = time.Second
	maxPause      = 10 * time.Second // while the stores cannot be reached
	leavePatience = 3 * time.Second
)

// keep runs the keeper, and returns the exit code that who served ended with.
func (c *mountCmd) keep(ctx context.Context, a *app, parent *os.File) (int, error) {
	wanted, err := c.check()
	if err != nil {
		return 0, err
	}
	if err := c.settle(ctx, a.url, wanted); err != nil { // for all who serve
		return 0, err
	}
	claim, err := claimWanted(a.url, c.Session, wanted)
	if err != nil {
		return 0, err
	}
	defer claim.Close()
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	k := &keeper{
		cmd: c, self: self, args: a.args, logs: os.Getenv(daemonLogVariable),
		device: -1, journal: -1, events: make(chan keeperEvent), readOnly: readOnlyMask(wanted),
	}
	k.log = newLogger(c.logLevel(parent == nil && a.errTerminal))
	signal.Ignore(syscall.SIGPIPE) // whoever reads the log may end before the mount
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	k.serving, err = k.start(false, parent)
	if parent != nil {
		err = errors.Join(err, parent.Close()) // who serves has it
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

// settle names the session of a mount whose stores nobody has opened yet, and has those be read-only
// that the credential may only read.
func (c *mountCmd) settle(ctx context.Context, url *string, wanted []wantedStore) error {
	at, err := locate(url)
	if err != nil {
		return err
	}
	if at.Server == nil { // which says it
		c.Session, err = sessionName(c.Session)
		return err
	}
	lib, err := openAt(ctx, at, backend.Options{ReadOnly: true, Direct: true})
	if err != nil {
		return err
	}
	return errors.Join(c.obey(ctx, lib, wanted), lib.Close())
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
	if k.failures > 1 { // it may have been replaced by one that does not run
		program = ownProgram
	}
	d := &kept{link: &keeperLink{keeper: os.Getpid(), socket: pair[0], over: over, session: k.cmd.Session, readOnly: k.readOnly}, process: exec.Command(program, k.args...)}
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
		d.process.Env = append(d.process.Env, daemonLogVariable+"="+k.logs)
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
			k.log.Warn("tell a new process", "err", err) // its end says more
		}
	}
	go k.listen(d)
	return d, nil
}

// listen passes on what a process says, until it has ended or the thread has that it
// has told of: then no other does anything any more.
func (k *keeper) listen(d *kept) {
	const usual = 100 * time.Millisecond // is more than the other threads take to end
	thread := -1
	for {
		ready := []unix.PollFd{{Fd: int32(d.link.socket), Events: unix.POLLIN}, {Fd: int32(thread), Events: unix.POLLIN}} // one below 0 is passed over
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
			thread = fusedev.OpenThread(number) // one that has ended shows at the socket
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
	case k.away > 0 && k.serving == nil: // the next one is of the program of that name anyway
		k.failures = 0
		k.hurry()
	case k.next != nil, k.serving == nil, k.serving.served.IsZero():
		k.replace = true
	default:
		k.startNext()
	}
}

// startNext starts a process to replace the one that serves.
func (k *keeper) startNext() {
	k.failures, k.replace = 0, false
	next, err := k.start(true, nil)
	if err != nil {
		k.log.Error("replace the process that serves the mount", "err", err)
		return
	}
	k.next = next
}

// end tells whoever serves, or is about to, to end the mount.
func (k *keeper) end() {
	for _, d := range []*kept{k.serving, k.next} {
		if d != nil {
			_ = d.process.Process.Signal(syscall.SIGTERM)
		}
	}
}

// told heeds what a process says.
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
			_ = k.serving.link.tell(tellGone) // one that has ended need not know
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
		time.AfterFunc(leavePatience, func() { _ = leaving.process.Process.Kill() }) // one that has ended is not hit
	}
}

// takeOver gives the device to the next process. Nobody serves.
func (k *keeper) takeOver() {
	k.serving, k.next = k.next, nil
	if err := k.serving.link.tell(tellTakeOver, k.device); err != nil {
		k.log.Warn("tell the next process to take over", "err", err)
	}
}

// lost goes on after the process that served has ended, or is done, with an exit
// code.
func (k *keeper) lost(e keeperEvent) (done bool, code int, err error) {
	k.serving = nil
	if e.of.ended || k.device < 0 {
		if k.next != nil {
			_ = k.next.process.Process.Kill()
		}
		if k.device >= 0 { // so that nobody waits for an answer any more
			_ = unix.Close(k.device)
		}
		return true, e.of.code(), nil
	}
	if k.next != nil {
		if k.next.prepared {
			k.takeOver()
		}
		return false, 0, nil // else when it is
	}
	k.log.Warn("the process that served the mount has ended, another one takes over", "pid", e.of.process.Process.Pid, "how", e.of.how())
	return k.again(e)
}

// again starts a process to take over from one that has failed, unless too many
// have: at once, or after a pause.
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

// hurry ends a pause, if there is one.
func (k *keeper) hurry() {
	if k.pause != nil {
		k.pause = time.After(0)
	}
}

// endPause goes on after a pause in which nobody has served the mount, which may have ended.
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

// giveUp ends a mount that no process could serve so many times, how says why.
func (k *keeper) giveUp(times int, how string) error {
	return errors.Join(fmt.Errorf("%d times in a row no process could serve the mount, the last time because: %s; it is unmounted, and what was being written is lost", times, how), k.detach())
}

// startAgain starts a process to take over, unless too many have failed, the last one as how says.
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
	dir, err := mountDir(k.cmd.At)
	if err != nil {
		return err
	}
	at, err := fusedev.Attached(dir, fusefs.Source(os.Getpid(), k.cmd.Flat), fusefs.Name)
	return errors.Join(err, explainDetach(at.Detach()))
}

// lostNext goes on after a process that was to take over has ended.
func (k *keeper) lostNext(e keeperEvent) error {
	k.next = nil
	if !e.of.away {
		k.log.Error("a process that was to take over has ended", "pid", e.of.process.Process.Pid, "how", e.of.how())
	}
	if k.serving != nil {
		return nil // it goes on
	}
	_, _, err := k.again(e)
	return err
}
