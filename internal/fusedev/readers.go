package fusedev

import (
	"errors"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// work answers requests as one of the readers, as which it is counted when it
// begins, and rests while it is not needed.
func (s *Server) work() {
	for s.readAndAnswer() && s.rest() {
	}
}

// readAndAnswer returns when there are other readers, true, or when the mount is gone.
func (s *Server) readAndAnswer() (more bool) {
	b := s.buffers.Get().(*buffers)
	defer s.buffers.Put(b)
	defer b.wipe()
	for look := false; ; look = true {
		n, err := s.next(b, look)
		switch {
		case err == errEnough:
			return true
		case err != nil:
			s.end(err)
			return false
		case s.inline(b, n):
			continue
		}
		if s.readers.Add(-1) == 0 && s.guard.set() != nil {
			s.call()
		}
		s.answer(b, n)
		if s.readers.Add(1) == 1 {
			s.guard.unset() // else a reader is called who finds that there is another one
		}
	}
}

// stand calls a reader whenever a request comes in while there is none.
func (s *Server) stand() {
	for {
		if err := s.guard.wait(); err != nil {
			s.log.Print(err)
			return
		}
		select {
		case <-s.gone:
			return
		default:
			s.call()
		}
	}
}

// end is the end of a reader: no request will come. An unmount looks like ENODEV or, if it
// comes while a request is being read, like ECONNABORTED (fs/fuse/dev.c, fuse_dev_do_read).
func (s *Server) end(err error) {
	if err != errStopped && err != syscall.ENODEV && err != syscall.ECONNABORTED {
		s.log.Printf("read from the FUSE device: %v", err)
	}
	s.finish()
}

// finish lets go of those who sleep, and of those who rest.
func (s *Server) finish() {
	s.ended.Do(func() {
		close(s.gone)
		_, _ = unix.Write(s.stop, bytesOf(new(uint64(1))))
	})
}

// call makes a resting or new goroutine a reader.
func (s *Server) call() {
	s.readers.Add(1)
	select {
	case s.wake <- struct{}{}:
	default:
		s.serving.Go(s.work)
	}
}

// rest returns true when there is a reader less than there must be.
func (s *Server) rest() bool {
	const most = 4 // are kept for later requests
	defer s.resting.Add(-1)
	if s.resting.Add(1) > most {
		return false
	}
	select {
	case <-s.wake:
		return true
	case <-s.gone:
		return false
	}
}

// retire makes the caller no reader any more, unless he is the last.
func (s *Server) retire() bool {
	for {
		n := s.readers.Load()
		if n <= 1 {
			return false
		}
		if s.readers.CompareAndSwap(n, n-1) {
			return true
		}
	}
}

var (
	errEnough  = errors.New("not needed as a reader") // there are others
	errStopped = errors.New("nothing is to be read any more")
)

// next returns the length of the next request, or errEnough, after which the
// caller is no reader any more, or errStopped. With look it may look for it before
// it sleeps.
func (s *Server) next(b *buffers, look bool) (int, error) {
	select {
	case <-s.gone:
		return 0, errStopped
	default:
	}
	if look && s.eager.Load() && s.looking.CompareAndSwap(false, true) {
		n, err := s.look(b)
		s.looking.Store(false)
		if err != syscall.EAGAIN {
			return n, err
		}
	}
	// First of all: a reader that is not the last must not wait here.
	b.wipe()
	for !s.retire() {
		ready := []unix.PollFd{{Fd: int32(s.fd), Events: unix.POLLIN}, {Fd: int32(s.stop), Events: unix.POLLIN}}
		if _, err := unix.Poll(ready, -1); err != nil && err != syscall.EINTR {
			return 0, err
		}
		if ready[1].Revents != 0 {
			return 0, errStopped
		}
		n, err := s.try(b)
		if err != syscall.EAGAIN { // otherwise another reader was faster
			s.eager.Store(s.now()-time.Duration(s.answered.Load()) < patience)
			return n, err
		}
	}
	return 0, errEnough
}

// try returns the length of the next request, or EAGAIN if there is none.
func (s *Server) try(b *buffers) (int, error) {
	for {
		n, err := unix.Read(s.fd, b.in)
		b.usedIn = max(b.usedIn, n)
		// ENOENT: the request was taken back before it could be read.
		if err != syscall.EINTR && err != syscall.ENOENT {
			return n, err
		}
	}
}
