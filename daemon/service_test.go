package daemon

import (
	"net"
	"path/filepath"
	"testing"
)

// TestNotifyService listens as a service manager does.
func TestNotifyService(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	t.Setenv("NOTIFY_SOCKET", path)
	if err := NotifyService(ServiceReady); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 100)
	n, err := conn.Read(buf)
	if err != nil || string(buf[:n]) != "READY=1" {
		t.Errorf("told %q, %v", buf[:n], err)
	}
	t.Setenv("NOTIFY_SOCKET", path+"-not-there")
	if err := NotifyService(ServiceReady); err == nil {
		t.Error("nobody listens, and that is no error")
	}
	t.Setenv("NOTIFY_SOCKET", "")
	if err := NotifyService(ServiceReady); err != nil {
		t.Errorf("without a service manager: %v", err)
	}
}
