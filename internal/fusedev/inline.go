package fusedev

import (
	"bytes"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// The kinds of requests that may be answered at once (include/uapi/linux/fuse.h).
const (
	opLookup     = 1
	opGetAttr    = 3
	opOpen       = 14
	opWrite      = 16
	opRelease    = 18
	opOpenDir    = 27
	opReleaseDir = 29
	opCreate     = 35

	// These are never waited for.
	opForget      = 2
	opGetXAttr    = 22
	opListXAttr   = 23
	opInterrupt   = 36
	opBatchForget = 42
)

// inline answers the request of length n if that can be done at once, or if it must be
// refused.
func (s *Server) inline(b *buffers, n int) bool {
	if n < int(unsafe.Sizeof(fuse.InHeader{})) {
		return false // for the protocol to complain of
	}
	s.answers.mu.RLock()
	defer s.answers.mu.RUnlock()
	if !s.answers.servesLocked(writesBack(b, n)) {
		s.refuse(b)
		return true
	}
	if s.doubtful(b, n) {
		return true
	}
	var status fuse.Status
	var answered bool
	var size uintptr
	switch b.header().Opcode {
	case opOpen:
		in, out := request[fuse.OpenIn](b, n), result[fuse.OpenOut](b)
		status, answered = s.fs.InlineOpen(in, out)
		size = unsafe.Sizeof(*out)
	case opWrite:
		const head = int(unsafe.Sizeof(fuse.WriteIn{}))
		if n < head {
			return false
		}
		out := result[fuse.WriteOut](b)
		out.Size, status, answered = s.fs.InlineWrite(request[fuse.WriteIn](b, n), b.in[head:n])
		size = unsafe.Sizeof(*out)
	case opRelease:
		answered = s.fs.InlineRelease(request[fuse.ReleaseIn](b, n))
	case opOpenDir:
		in, out := request[fuse.OpenIn](b, n), result[fuse.OpenOut](b)
		status, answered = s.fs.InlineOpenDir(in, out)
		size = unsafe.Sizeof(*out)
	case opReleaseDir:
		answered = s.fs.InlineReleaseDir(request[fuse.ReleaseIn](b, n))
	case opLookup:
		out := result[fuse.EntryOut](b)
		status, answered = s.fs.InlineLookup(b.header(), nameIn(b.in[unsafe.Sizeof(fuse.InHeader{}):n]), out)
		size = unsafe.Sizeof(*out)
	case opCreate:
		const head = int(unsafe.Sizeof(fuse.CreateIn{}))
		if n < head {
			return false
		}
		out := result[fuse.CreateOut](b)
		status, answered = s.fs.InlineCreate(request[fuse.CreateIn](b, n), nameIn(b.in[head:n]), out)
		size = unsafe.Sizeof(*out)
	case opGetAttr:
		in, out := request[fuse.GetAttrIn](b, n), result[fuse.AttrOut](b)
		status, answered = s.fs.InlineGetAttr(in, out)
		size = unsafe.Sizeof(*out)
	case opInterrupt:
		s.interrupted(b, n)
		return true
	case opForget, opBatchForget, opGetXAttr, opListXAttr:
		s.reply(s.ask(b, n))
		return true
	}
	if answered {
		s.reply(b.out[:b.head(status, size)])
	}
	return answered
}

// interrupted tells the file system of a signal that has come to the requester of another request.
func (s *Server) interrupted(b *buffers, n int) {
	s.interrupt.Lock()
	defer s.interrupt.Unlock()
	unique := request[fuse.InterruptIn](b, n).Unique
	s.reply(s.ask(b, n))
	s.fs.Interrupted(func(status fuse.Status) {
		out := fuse.OutHeader{Length: uint32(unsafe.Sizeof(fuse.OutHeader{})), Status: -int32(status), Unique: unique}
		s.answers.give(unique, func() { s.reply(bytesOf(&out)) })
	})
}

// nameIn returns the name that the rest of a request is.
func nameIn(rest []byte) string {
	name, _, _ := bytes.Cut(rest, []byte{0})
	return string(name)
}
