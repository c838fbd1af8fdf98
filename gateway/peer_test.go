package gateway

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
)

// TestListener reads lines of /proc/net/tcp and tcp6, of a machine that is little-endian.
func TestListener(t *testing.T) {
	for line, want := range map[string]string{
		"   0: 0100007F:1B9E 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 1 1 0":                                       "127.0.0.1:7070 1000",
		"   1: 00000000:1B9E 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1 0":                                       "0.0.0.0:7070 0",
		"   2: 0100007F:1B9E 0100007F:D431 01 00000000:00000000 00:00000000 00000000     0        0 0 1 0":                                       "",
		"   0: 00000000000000000000000001000000:1B9E 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000  7 0 1 1 0": "[::1]:7070 7",
		"   0: 0000000000000000FFFF00000100007F:1B9E 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000  7 0 1 1 0": "127.0.0.1:7070 7",
		"  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode":                                       "",
	} {
		got := ""
		if at, uid, ok := listener(line); ok {
			got = fmt.Sprint(at, uid)
		}
		if got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

// TestPeers: nothing is sent to a process of another user, at a port or a socket.
func TestPeers(t *testing.T) {
	mine, others := newPeers(&Options{}), newPeers(&Options{})
	others.trusted = []uint32{4_000_000_000} // to whom this process is another user
	all := newPeers(&Options{AnyServer: true})
	all.trusted = nil
	for _, at := range []string{"127.0.0.1:0", "[::1]:0", ":0", "unix"} {
		network := "tcp"
		if at == "unix" {
			network, at = "unix", filepath.Join(t.TempDir(), "s")
		}
		l, err := net.Listen(network, at)
		if err != nil {
			t.Logf("%s: %v", at, err) // without IPv6
			continue
		}
		defer l.Close()
		address := l.Addr().String()
		if at == ":0" {
			address = fmt.Sprintf("127.0.0.1:%d", l.Addr().(*net.TCPAddr).Port)
		}
		c, err := net.Dial(network, address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := errors.Join(mine.check(c), all.check(c)); err != nil {
			t.Errorf("%s: %v", address, err)
		}
		if err := others.check(c); !errors.Is(err, ErrPeer) {
			t.Errorf("%s, of another user: %v", address, err)
		}
	}
	if _, err := mine.listeners(netip.MustParseAddrPort("127.0.0.1:0")); !errors.Is(err, errNoListener) {
		t.Errorf("a port at which nobody listens: %v", err)
	}
}

// TestNothingIsSentToOthers: a request to another user's process fails at once, before its credential is
// sent.
func TestNothingIsSentToOthers(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a request was sent") })}
	go func() { _ = s.Serve(l) }()
	defer s.Close()
	c, err := newClient("http://"+l.Addr().String(), &Options{Token: func() (string, error) { return "secret", nil }})
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	others := newPeers(&Options{})
	others.trusted = []uint32{uint32(os.Getuid()) + 1}
	c.over = newTransport(c.address, others)
	err = c.do(t.Context(), &request{op: "tip"}, func(*http.Response) error { return nil }, nil)
	if !errors.Is(err, ErrPeer) {
		t.Errorf("it ends with %v", err)
	}
}
