package fusedev

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestGuard: each time that it is set it reports once that the device can be read, also if
// it could be read before, and nothing otherwise.
func TestGuard(t *testing.T) {
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	stop, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(stop)
	g, err := newGuard(pipe[0], stop)
	if err != nil {
		t.Fatal(err)
	}
	woken := make(chan error)
	go func() {
		for err := error(nil); err == nil; {
			err = g.wait()
			select {
			case woken <- err:
			case <-t.Context().Done():
				return
			}
		}
	}()
	set := func() {
		t.Helper()
		if err := g.set(); err != nil {
			t.Fatal(err)
		}
	}
	write := func() {
		t.Helper()
		if _, err := unix.Write(pipe[1], []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	read := func() {
		t.Helper()
		if _, err := unix.Read(pipe[0], make([]byte, 100)); err != nil {
			t.Fatal(err)
		}
	}
	wake := func(what string) {
		t.Helper()
		select {
		case err := <-woken:
			if err != nil {
				t.Fatal(err)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%s: nobody is woken", what)
		}
	}
	sleep := func(what string) {
		t.Helper()
		select {
		case err := <-woken:
			t.Errorf("%s: somebody is woken, %v", what, err)
		case <-time.After(20 * time.Millisecond):
		}
	}

	write()
	sleep("not set")
	set()
	wake("set where there is something to read")
	sleep("set once")
	set()
	wake("set again")
	read()
	set()
	sleep("set where there is nothing")
	write()
	wake("then something comes")
	read()
	set()
	g.unset()
	g.unset()
	write()
	sleep("taken back")
	set()
	wake("set after that")

	read()
	if err := unix.Close(pipe[1]); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		set()
		wake("the end")
	}
	if _, err := unix.Write(stop, bytesOf(new(uint64(1)))); err != nil {
		t.Fatal(err)
	}
	wake("not to be served any more")
	wake("for good")
}
