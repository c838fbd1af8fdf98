package daemon

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// States of a daemon for a service manager, see sd_notify(3).
const (
	ServiceReady    = "READY=1"
	ServiceStopping = "STOPPING=1"
)

// NotifyService tells the state of this process to the service manager that has started
// it. It does nothing without a service manager.
func NotifyService(state string) error {
	socket := os.Getenv("NOTIFY_SOCKET")
	if socket == "" {
		return nil
	}
	// In net, too, a name that begins with @ is in the abstract namespace.
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("notify the service manager: %w", err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte(state)); err != nil {
		return fmt.Errorf("notify the service manager: %w", err)
	}
	return nil
}

// firstSocket is the descriptor of the first socket that a service manager hands over,
// see sd_listen_fds(3).
const firstSocket = 3

// HandedOver returns the sockets at which the service manager listens for this process.
func HandedOver() (listeners []net.Listener, err error) {
	if os.Getenv("LISTEN_PID") != strconv.Itoa(os.Getpid()) {
		return nil, nil
	}
	n, err := strconv.Atoi(os.Getenv("LISTEN_FDS"))
	for fd := firstSocket; err == nil && fd < firstSocket+n; fd++ {
		f := os.NewFile(uintptr(fd), "LISTEN_FDS")
		var l net.Listener
		if l, err = net.FileListener(f); err == nil {
			listeners = append(listeners, l)
		}
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return nil, fmt.Errorf("the sockets of the service manager: %w", err)
	}
	return listeners, nil
}

// isJournal reports whether a file is the connection to systemd's journal that
// $JOURNAL_STREAM names, see systemd.exec(5).
func isJournal(f *os.File) bool {
	stream := os.Getenv("JOURNAL_STREAM")
	var st unix.Stat_t
	return stream != "" && unix.Fstat(int(f.Fd()), &st) == nil && stream == fmt.Sprintf("%d:%d", st.Dev, st.Ino)
}
