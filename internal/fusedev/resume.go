package fusedev

import (
	"bytes"
	"errors"
	"fmt"
	"syscall"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// A connection outlives the process that serves it as long as another process has its
// device open. The successor must keep the promises to the kernel: that it notifies the
// kernel of changes, and which nodes and handles exist. Before each answer the file system
// records the state that a successor needs (BeforeAnswers). The kernel sends requests that
// were read and never answered once more, and marks them. Their operations may have been
// done already:
//
//   - A request that changes names fails with EIO (doubtful), and the kernel forgets those
//     names. A later lookup shows whether it was done.
//   - All others are repeated as if they were new, which has the same result.

// resent marks the number of a request that is sent once more (FUSE_UNIQUE_RESEND,
// since Linux 6.9, which says so by capResend).
const (
	resent    = 1 << 63
	capResend = 1 << 39
)

// The kinds of requests that change names, and how many bytes stand before the
// first name (include/uapi/linux/fuse.h).
var changesNames = map[uint32]int{
	6: 0, 8: 16, 9: 8, 10: 0, 11: 0, // SYMLINK, MKNOD, MKDIR, UNLINK, RMDIR
	opRename: 8, 13: 8, opCreate: 16, opRename2: 16, 51: 16, // LINK, TMPFILE
}

const (
	opRename  = 12
	opRename2 = 45
)

// BeforeAnswers has note called before each answer that the kernel gets. It must be
// called before Serve.
func (s *Server) BeforeAnswers(note func()) { s.before = note }

// Device is the connection, which lives as long as a process has it open.
func (s *Server) Device() (fd int) { return s.fd }

// Greeting is the request by which the kernel and the first server have agreed on
// the protocol, for Resume.
func (s *Server) Greeting() []byte { return s.greeting }

// CanResume says why the kernel cannot have requests answered by another process
// than read them, or nil.
func (s *Server) CanResume() error {
	in := (*fuse.InitIn)(unsafe.Pointer(&s.greeting[0]))
	if in.Flags64()&capResend == 0 {
		return errors.New("this kernel cannot repeat requests, which takes Linux 6.9")
	}
	return nil
}

// Resume serves fs in a connection that another process has served until its end,
// under the options that that one had mounted with, whose Greeting is given. The
// device is the server's from then on. Requests that were not answered come again
// once Serve is called.
func Resume(fs FileSystem, device int, greeting []byte, opts *fuse.MountOptions) (*Server, error) {
	o := complete(opts)
	var init fuse.InitIn
	if len(greeting) < int(unsafe.Sizeof(init)) {
		return nil, fmt.Errorf("the kernel's greeting has %d bytes, want %d", len(greeting), unsafe.Sizeof(init))
	}
	if err := unix.SetNonblock(device, false); err != nil {
		return nil, err
	}
	s, err := newServer(fs, device, &o)
	if err != nil {
		return nil, err
	}
	b := newBuffers()
	n := copy(b.in, greeting)
	if err := s.agree(b, n); err != nil { // by which the kernel has agreed already
		return nil, errors.Join(err, s.Close())
	}
	s.resumed = true
	return s, nil
}

// repeat makes the kernel send once more what was not answered.
func (s *Server) repeat() {
	if status := s.write(newNotice(fuse.NOTIFY_RESEND)); !status.Ok() && status != fuse.Status(syscall.ENODEV) {
		s.log.Printf("have the kernel repeat requests: %v", status)
	}
}

// doubtful answers the request of length n if it may have been done already, and
// must not be done twice.
func (s *Server) doubtful(b *buffers, n int) bool {
	header := b.header()
	skip, changes := changesNames[header.Opcode]
	if header.Unique&resent == 0 || !changes {
		return false
	}
	about := []nameAt{{parent: header.NodeId}}
	rest := b.in[min(n, int(unsafe.Sizeof(fuse.InHeader{}))+skip):n]
	var name []byte
	name, rest, _ = bytes.Cut(rest, []byte{0})
	about[0].name = string(name)
	if header.Opcode == opRename || header.Opcode == opRename2 {
		name, _, _ = bytes.Cut(rest, []byte{0})
		about = append(about, nameAt{(*fuse.RenameIn)(unsafe.Pointer(&b.in[0])).Newdir, string(name)})
	}
	s.reply(b.out[:b.head(fuse.EIO, 0)])
	var notices []Notice
	for _, a := range about {
		notices = append(notices, EntryNotice(a.parent, a.name), InodeNotice(a.parent, 0, 0))
	}
	go s.Notify(notices...) // the kernel has locked the directories until it has the answer
	return true
}

// nameAt is a name in a directory.
type nameAt struct {
	parent uint64
	name   string
}

// Leave makes Serve return once the requests that were read are answered. The connection
// stays, for a process that resumes it.
func (s *Server) Leave() { s.finish() }

// AwaitAnswers returns when all that was read is answered, after Leave.
func (s *Server) AwaitAnswers() { s.serving.Wait() }
