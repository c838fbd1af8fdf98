package tests

import (
	"bufio"
	"encoding/json"
	"os"
	"sync"
	"testing"
)

// dialogue is the test's end of a child process that answers calls, in JSON,
// with replies of type R.
type dialogue[R any] struct {
	child   *child
	calls   *json.Encoder
	replies chan R // closed once the child has ended
	stop    func() // lets the child end
}

// talk starts a child process of a kind in the first store of the mount. It is
// stopped when the test ends, at the latest.
func talk[R any](t testing.TB, m *mount, kind string) *dialogue[R] {
	t.Helper()
	fromTest, toChild, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	fromChild, toTest, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	d := &dialogue[R]{calls: json.NewEncoder(toChild), replies: make(chan R)}
	d.child = m.childWith(t, fromTest, toTest, kind, m.dir)
	_, _ = fromTest.Close(), toTest.Close()
	go func() {
		defer close(d.replies)
		replies := json.NewDecoder(bufio.NewReader(fromChild))
		for {
			var r R
			if replies.Decode(&r) != nil {
				return
			}
			d.replies <- r
		}
	}()
	d.stop = sync.OnceFunc(func() {
		_ = toChild.Close()
		for range d.replies { // until the child has ended
		}
		_ = fromChild.Close()
	})
	t.Cleanup(d.stop)
	return d
}
