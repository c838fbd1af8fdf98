package main

import (
	"fmt"
	"net"
	"os"

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

// isJournal reports whether a file is the connection to systemd's journal that
// $JOURNAL_STREAM names, see systemd.exec(5).
func isJournal(f *os.File) bool {
	stream := os.Getenv("JOURNAL_STREAM")
	var st unix.Stat_t
	return stream != "" && unix.Fstat(int(f.Fd()), &st) == nil && stream == fmt.Sprintf("%d:%d", st.Dev, st.Ino)
}
