package fusedev

import (
	"sync"
	"syscall"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// answers are those that the kernel waits for. An ordinary answer is given with mu held for
// reading, so that revoke knows when the last one is given.
//
//  1. Active: requests are answered by the file system.
//  2. Revoked: every request is refused, waiting ones included, except the writes of pages
//     that mappings have changed: the kernel writes these back when it is told to forget
//     the pages.
//  3. Stopped: those writes are refused, too.
//
// The goroutine that takes a request off the list answers it, so that none is answered
// twice, and a handler that works on long after that does no harm.
type answers struct {
	mu    sync.RWMutex
	state revocation

	listMu sync.Mutex
	list   map[uint64]bool // by unique: whether it writes back
}

type revocation int

const (
	active revocation = iota
	revoked
	stopped
)

// servesLocked reports whether the file system answers a request.
func (a *answers) servesLocked(writesBack bool) bool {
	return a.state == active || a.state == revoked && writesBack
}

// ended reports whether the service has.
func (a *answers) ended() bool {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.state != active
}

// expect puts a request on the list, unless it must be refused.
func (a *answers) expect(unique uint64, writesBack bool) bool {
	a.mu.RLock()
	defer a.mu.RUnlock()
	if !a.servesLocked(writesBack) {
		return false
	}
	a.listMu.Lock()
	defer a.listMu.Unlock()
	if a.list == nil {
		a.list = map[uint64]bool{}
	}
	a.list[unique] = writesBack
	return true
}

// give calls reply, unless the request has been answered since it was expected.
func (a *answers) give(unique uint64, reply func()) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	if a.take(unique) {
		reply()
	}
}

func (a *answers) take(unique uint64) bool {
	a.listMu.Lock()
	defer a.listMu.Unlock()
	_, there := a.list[unique]
	delete(a.list, unique)
	return there
}

// become goes on to a later state, and returns the requests that are now to be
// refused.
func (a *answers) become(state revocation) (refused []uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.state = max(a.state, state)
	for unique, writesBack := range a.list {
		if !a.servesLocked(writesBack) {
			refused = append(refused, unique)
			delete(a.list, unique)
		}
	}
	return refused
}

// Revoke ends the service for every process, in any namespace: when it returns, requests
// fail, also those that wait for an answer, and no answer depends on later state. The
// kernel may still have pages and attributes. When notices make it forget them, pages that
// mappings have changed are still written.
func (s *Server) Revoke() {
	s.refuseAll(s.answers.become(revoked))
	s.storing.Lock() // once the last pages have been given
	defer s.storing.Unlock()
}

// Stop refuses everything and makes Serve return as soon as the file system is done
// with the requests that came.
func (s *Server) Stop() {
	s.refuseAll(s.answers.become(stopped))
	s.finish()
}

// refusal is what a program gets in a mount whose connection has ended.
const refusal = fuse.Status(syscall.ENOTCONN)

func (s *Server) refuseAll(uniques []uint64) {
	b := newBuffers()
	for _, unique := range uniques {
		b.header().Unique = unique
		s.reply(b.out[:b.head(refusal, 0)])
	}
}

// refuse answers a request that the file system is not to hear of.
func (s *Server) refuse(b *buffers) {
	if wantsAnswer(b.header().Opcode) {
		s.reply(b.out[:b.head(refusal, 0)])
	}
}

// wantsAnswer reports whether the kernel waits for an answer to a request of a kind.
func wantsAnswer(opcode uint32) bool {
	return opcode != opForget && opcode != opBatchForget && opcode != opInterrupt
}

// writesBack reports whether a request of length n is what a mapping has changed.
func writesBack(b *buffers, n int) bool {
	return n >= int(unsafe.Sizeof(fuse.WriteIn{})) && b.header().Opcode == opWrite &&
		(*fuse.WriteIn)(unsafe.Pointer(&b.in[0])).WriteFlags&fuse.WRITE_CACHE != 0
}
