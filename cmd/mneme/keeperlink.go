package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// keeperVariable tells the process that serves a mount of its keeper: the keeper's
// process id, the number of the socket to it, whether the mount is to be taken over
// from another process and, behind a comma, which stores are only read, and the mount's
// session, with colons between them.
const keeperVariable = "MNEME_KEEPER"

// What a keeper and the process that serves its mount tell each other, in a message of
// a socket: a byte, a number of 4 bytes, and the files that belong to it.
const (
	tellThread   = 'h' // by who serves, first: the number of a thread that lives as long as nobody kills it
	tellMounted  = 'm' // by who has mounted: the device, and the journal
	tellServing  = 's' // requests are answered
	tellEnded    = 'e' // the mount has ended
	tellAway     = 'a' // by who was to take over, last: the stores cannot be reached, which passes by itself
	tellJournal  = 'j' // by the keeper, first, to who is to take over: the journal
	tellPrepared = 'p' // the answer to that: nothing but the device is missing
	tellTakeOver = 't' // by the keeper: the device, which nobody else serves
	tellLeave    = 'l' // by the keeper: another process takes over
	tellGone     = 'g' // by the keeper: nothing is left of a process that served before
)

// keeperLink is the socket between a keeper and a process that serves its mount.
type keeperLink struct {
	keeper int // process id
	socket int
	over   bool // the mount is to be taken over

	session  string // of the mount
	readOnly string // see readOnlyMask; "": as the arguments say
}

// readOnlyMask says which stores of a mount are only read, for all who serve it: a digit for each, 1
// where it is.
func readOnlyMask(wanted []wantedStore) string {
	mask := make([]byte, len(wanted))
	for i, w := range wanted {
		mask[i] = '0'
		if w.readOnly {
			mask[i] = '1'
		}
	}
	return string(mask)
}

// narrow returns stores as the keeper has settled that they are mounted, if there is one.
func (l *keeperLink) narrow(wanted []wantedStore) []wantedStore {
	if l == nil || len(l.readOnly) != len(wanted) {
		return wanted
	}
	for i := range wanted {
		wanted[i].readOnly = wanted[i].readOnly || l.readOnly[i] == '1'
	}
	return wanted
}

// keeperOf returns the link to the keeper of this process, or nil.
func keeperOf() (*keeperLink, error) {
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
	l := &keeperLink{keeper: keeper, socket: socket, over: over == "over", session: fields[3], readOnly: readOnly}
	return l, l.showLife()
}

// pid is the process id of the keeper; 0: there is none.
func (l *keeperLink) pid() int {
	if l == nil {
		return 0
	}
	return l.keeper
}

// takesOver reports whether the mount is to be taken over.
func (l *keeperLink) takesOver() bool { return l != nil && l.over }

// variable is what keeperOf reads, in a process that has the socket as number.
func (l *keeperLink) variable(socket int) string {
	over := ""
	if l.over {
		over = "over"
	}
	if strings.Contains(l.readOnly, "1") {
		over += "," + l.readOnly
	}
	return fmt.Sprintf("%s=%d:%d:%s:%s", keeperVariable, l.keeper, socket, over, l.session)
}

// tell sends a message.
func (l *keeperLink) tell(what byte, files ...int) error { return l.tellNumber(what, 0, files...) }

func (l *keeperLink) tellNumber(what byte, number int, files ...int) error {
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
func (l *keeperLink) hear() (what byte, number int, files []int, err error) {
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

// await waits for one message, with so many files.
func (l *keeperLink) await(want byte, files int) ([]int, error) {
	what, _, got, err := l.hear()
	if err == nil && (what != want || len(got) != files) {
		err = fmt.Errorf("heard %q with %d files from the keeper, want %q with %d", what, len(got), want, files)
	}
	return got, err
}
