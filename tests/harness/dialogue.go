package harness

import (
	"bufio"
	"encoding/json"
	"os"
	"sync"
	"testing"
)

// Dialogue is the test's end of a child process that answers calls, in JSON,
// with replies of type R.
type Dialogue[R any] struct {
	Child   *Child
	Calls   *json.Encoder
	Replies chan R // closed once the child has ended
	stop    func() // lets the child end
}

// Talk starts a child process of a kind in the first store of the mount. It is
// stopped when the test ends, at the latest.
func Talk[R any](t testing.TB, m *Mount, kind string) *Dialogue[R] {
	t.Helper()
	fromTest, toChild, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	fromChild, toTest, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	d := &Dialogue[R]{Calls: json.NewEncoder(toChild), Replies: make(chan R)}
	d.Child = m.childWith(t, fromTest, toTest, kind, m.Dir)
	_, _ = fromTest.Close(), toTest.Close()
	go func() {
		defer close(d.Replies)
		replies := json.NewDecoder(bufio.NewReader(fromChild))
		for {
			var r R
			if replies.Decode(&r) != nil {
				return
			}
			d.Replies <- r
		}
	}()
	d.stop = sync.OnceFunc(func() {
		_ = toChild.Close()
		for range d.Replies { // until the child has ended
		}
		_ = fromChild.Close()
	})
	t.Cleanup(d.stop)
	return d
}
