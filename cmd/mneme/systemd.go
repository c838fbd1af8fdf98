package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// What a service manager is told of a daemon's state, see sd_notify(3).
const (
	serviceReady    = "READY=1"
	serviceStopping = "STOPPING=1"
)

// notifyService tells the service manager that has started this process, if one
// has, of its state.
func notifyService(state string) error {
	socket := os.Getenv("NOTIFY_SOCKET")
	if socket == "" {
		return nil
	}
	// A name that begins with @ is one in the abstract namespace, for net as well.
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

// firstSocket is the descriptor of the first socket that a service manager hands over, see
// sd_listen_fds(3).
const firstSocket = 3

// handedOver returns the sockets at which the service manager listens for this process; none: it
// has none.
func handedOver() (listeners []net.Listener, err error) {
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
