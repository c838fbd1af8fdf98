package fusedev

import (
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// maxWrite is how many bytes a read, a write or a listing has at most. The
// kernel asks for room of at least that much and the header.
const maxWrite = 128 << 10

// buffers are those of one request and of its answer.
type buffers struct {
	in, out         []byte
	usedIn, usedOut int // how many bytes at their beginning wipe is to clear
}

func newBuffers() *buffers {
	const header = 4 << 10 // of every kind, and more
	return &buffers{in: make([]byte, maxWrite+header), out: make([]byte, maxWrite+header)}
}

// wipe clears the bytes of earlier requests and answers, before the buffers may be unused
// for an unknown time: an erased text must not stay in them.
func (b *buffers) wipe() {
	clear(b.in[:b.usedIn])
	clear(b.out[:b.usedOut])
	b.usedIn, b.usedOut = 0, 0
}

func (b *buffers) header() *fuse.InHeader { return (*fuse.InHeader)(unsafe.Pointer(&b.in[0])) }

func (b *buffers) outHeader() *fuse.OutHeader { return (*fuse.OutHeader)(unsafe.Pointer(&b.out[0])) }

// head makes the header of an answer with so many bytes, and returns the length
// of both. An error has no bytes.
func (b *buffers) head(status fuse.Status, bytes uintptr) int {
	if !status.Ok() {
		bytes = 0
	}
	length := unsafe.Sizeof(fuse.OutHeader{}) + bytes
	*b.outHeader() = fuse.OutHeader{Length: uint32(length), Status: -int32(status), Unique: b.header().Unique}
	return int(length)
}

// request returns what was asked, in a request of length n: what an older kernel
// leaves out is zero.
func request[T any](b *buffers, n int) *T {
	var in T
	if size := int(unsafe.Sizeof(in)); n < size {
		clear(b.in[n:size])
	}
	return (*T)(unsafe.Pointer(&b.in[0]))
}

// result returns the body of the answer, all zero.
func result[T any](b *buffers) *T {
	out := (*T)(unsafe.Pointer(&b.out[unsafe.Sizeof(fuse.OutHeader{})]))
	var zero T
	*out = zero
	return out
}
