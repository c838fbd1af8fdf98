package server

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"mneme/server/access"
	"mneme/versionlog"
)

// TestCrowdShares: one key holds at most a quarter of all connections, by itself or with its tokens, one
// of these an eighth, and a connection that is held stays, whatever comes.
func TestCrowdShares(t *testing.T) {
	for name, test := range map[string]struct {
		token func(n int) string
		share int
	}{
		"key":       {func(int) string { return "" }, 4},
		"one token": {func(int) string { return "t" }, 8},
		"tokens":    {func(n int) string { return fmt.Sprint(n) }, 4},
	} {
		t.Run(name, func(t *testing.T) { testCrowdShares(t, test.token, test.share) })
	}
}

// testCrowdShares has a caller come with tokens that hold one in share connections at most.
func testCrowdShares(t *testing.T, token func(n int) string, share int) {
	const most = 16
	c := newCrowd(most)
	arrive := func(key string) (conn net.Conn, left net.Conn) {
		conn, other := net.Pipe()
		t.Cleanup(func() { other.Close() })
		left = c.move(conn, http.StateNew)
		c.move(conn, http.StateActive)
		if key != "" {
			q := httptest.NewRequest("GET", "/", nil)
			c.hold(q.WithContext(c.remember(q.Context(), conn)), &access.Caller{Actor: versionlog.Actor{ID: key}, Token: token(len(c.open))})
		}
		return conn, left
	}
	held, _ := arrive("a")
	for range 3 * most {
		if _, left := arrive("b"); left == held {
			t.Fatal("a connection had to leave that was held")
		}
	}
	n := 0
	for _, g := range c.open {
		if g.loose == nil {
			n++
		}
	}
	if n != 1+most/share || len(c.open) != most {
		t.Errorf("%d of %d connections are held", n, len(c.open))
	}
	c.move(held, http.StateIdle)
	left := false
	for range most {
		_, leaves := arrive("")
		left = left || leaves == held
	}
	if !left {
		t.Error("a connection stayed that was idle for the longest time")
	}
	for conn := range c.open {
		c.move(conn, http.StateClosed)
	}
	if c.held.Parties() != 0 || c.loose.Len() != 0 || len(c.nearby) != 0 {
		t.Errorf("left: %d parties, %d connections, %d addresses", c.held.Parties(), c.loose.Len(), len(c.nearby))
	}
}
