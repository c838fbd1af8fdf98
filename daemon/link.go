package daemon

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"mneme/internal/fusedev"
)

// keeperVariable tells the process that serves a mount of its keeper. It has these
// fields with colons between them: the keeper's process id, the number of the socket to
// it, "over" if the process takes over from another one, and the mount's session. If
// stores are only read, a comma and a mask of them follow "over".
const keeperVariable = "MNEME_KEEPER"

// A keeper and the process that serves its mount exchange messages through a socket. A
// message is a byte, a number of 4 bytes, and the files that belong to it.
const (
	tellThread   = 'h' // serving process, first: the number of a thread that lives until the process is killed
	tellMounted  = 'm' // serving process: the device and the journal
	tellServing  = 's' // serving process: it answers requests
	tellEnded    = 'e' // serving process: the mount has ended
	tellAway     = 'a' // next process, last: it cannot reach the stores now
	tellJournal  = 'j' // keeper to the next process, first: the journal
	tellPrepared = 'p' // the answer to tellJournal: only the device is missing
	tellTakeOver = 't' // keeper: the device, which no other process serves
	tellLeave    = 'l' // keeper: another process takes over
	tellGone     = 'g' // keeper: nothing is left of a process that served before
)

// Link is the socket between a keeper and a process that serves its mount. A process
// without a keeper has a nil Link.
type Link struct {
	keeper int // process id
	socket int
	over   bool // the process takes over from another one

	session  string // of the mount
	readOnly string // see readOnlyMask; "": as the arguments say
}

// readOnlyMask says which stores of a mount are only read, for all processes that serve
// it: one digit for each store, 1 if it is only read.
func readOnlyMask(stores []bool) string {
	mask := make([]byte, len(stores))
	for i, readOnly := range stores {
		mask[i] = '0'
		if readOnly {
			mask[i] = '1'
		}
	}
	return string(mask)
}

// ReadOnly reports whether the keeper has decided that the i-th store of the mount is
// only read.
func (l *Link) ReadOnly(i int) bool {
	return l != nil && i < len(l.readOnly) && l.readOnly[i] == '1'
}

// Session is the session of the keeper's mount.
func (l *Link) Session() string { return l.session }

// KeeperOf returns the link to the keeper of this process, or nil.
func KeeperOf() (*Link, error) {
	text := os.Getenv(keeperVariable)
	if text == "" {
		return nil, nil
	}
	os.Unsetenv(keeperVariable)
	fields := strings.SplitN(text, ":", 4)
	if len(fields) != 4 {
		return nil, fmt.Errorf("%s=%q is for mneme itself", keeperVariable, text)
	}
	keeper, errKeeper := strconv.Atoi(fields[0])
	socket, errSocket := strconv.Atoi(fields[1])
	if err := errors.Join(errKeeper, errSocket); err != nil {
		return nil, fmt.Errorf("%s=%q is for mneme itself: %w", keeperVariable, text, err)
	}
	unix.CloseOnExec(socket)
	over, readOnly, _ := strings.Cut(fields[2], ",")
	l := &Link{keeper: keeper, socket: socket, over: over == "over", session: fields[3], readOnly: readOnly}
	return l, l.showLife()
}

// showLife tells the keeper of a thread that ends as soon as the process is killed, even
// if other threads wait.
func (l *Link) showLife() error { return l.tellNumber(tellThread, fusedev.LifeThread()) }

// KeeperID is the process id of the keeper; 0: the process has none.
func (l *Link) KeeperID() int {
	if l == nil {
		return 0
	}
	return l.keeper
}

// TakesOver reports whether the process takes over from another one.
func (l *Link) TakesOver() bool { return l != nil && l.over }

// variable is the environment variable for KeeperOf, in a process that has the socket as
// number.
func (l *Link) variable(socket int) string {
	over := ""
	if l.over {
		over = "over"
	}
	if strings.Contains(l.readOnly, "1") {
		over += "," + l.readOnly
	}
	return fmt.Sprintf("%s=%d:%d:%s:%s", keeperVariable, l.keeper, socket, over, l.session)
}

// TellEnded tells the keeper, if the process has one, that the mount has ended.
func (l *Link) TellEnded() {
	if l != nil {
		_ = l.tell(tellEnded) // a keeper that has ended does not need it
	}
}

// TellAway tells the keeper that this process cannot take over now, for a reason that is
// temporary. It does nothing in a process that does not take over.
func (l *Link) TellAway() {
	if l.TakesOver() {
		_ = l.tell(tellAway) // a keeper that has ended does not need it
	}
}

// tell sends a message.
func (l *Link) tell(what byte, files ...int) error { return l.tellNumber(what, 0, files...) }

func (l *Link) tellNumber(what byte, number int, files ...int) error {
	var rights []byte
	if len(files) > 0 {
		rights = unix.UnixRights(files...)
	}
	message := binary.LittleEndian.AppendUint32([]byte{what}, uint32(number))
	if err := unix.Sendmsg(l.socket, message, rights, nil, unix.MSG_NOSIGNAL); err != nil {
		return fmt.Errorf("tell the process at the other end of the mount: %w", err)
	}
	return nil
}

// errOtherEnded says that the other process has ended.
var errOtherEnded = errors.New("the process at the other end of the mount has ended")

// hear waits for a message.
func (l *Link) hear() (what byte, number int, files []int, err error) {
	const most, length = 2, 1 + 4
	text, rights := make([]byte, length), make([]byte, unix.CmsgSpace(4*most))
	var n, rightsLength int
	for {
		n, rightsLength, _, _, err = unix.Recvmsg(l.socket, text, rights, unix.MSG_CMSG_CLOEXEC)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	switch {
	case errors.Is(err, unix.ECONNRESET), err == nil && n < length:
		return 0, 0, nil, errOtherEnded
	case err != nil:
		return 0, 0, nil, fmt.Errorf("hear from the process at the other end of the mount: %w", err)
	}
	messages, err := unix.ParseSocketControlMessage(rights[:rightsLength])
	if err != nil {
		return 0, 0, nil, err
	}
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			return 0, 0, nil, err
		}
		files = append(files, fds...)
	}
	return text[0], int(binary.LittleEndian.Uint32(text[1:])), files, nil
}

// await waits for one message with the given number of files.
func (l *Link) await(want byte, files int) ([]int, error) {
	what, _, got, err := l.hear()
	if err == nil && (what != want || len(got) != files) {
		err = fmt.Errorf("heard %q with %d files from the keeper, want %q with %d", what, len(got), want, files)
	}
	return got, err
}
