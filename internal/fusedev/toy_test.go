package fusedev

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// toy has two files: of inline every request is answered at once, of slow none.
// An open of slow, and making a directory, waits for leave.
type toy struct {
	fuse.RawFileSystem
	leave chan struct{}

	mu      sync.Mutex // guards the fields below
	calls   map[string]int
	data    map[uint64][]byte
	made    []string
	waiting int
}

const inlineID, slowID = 2, 3

var ids = map[string]uint64{"inline": inlineID, "slow": slowID}

func newToy() *toy {
	leave := make(chan struct{})
	close(leave)
	return &toy{
		RawFileSystem: fuse.NewDefaultRawFileSystem(), leave: leave, calls: map[string]int{},
		data: map[uint64][]byte{inlineID: []byte("at once\n"), slowID: []byte("later\n")},
	}
}

// called notes a request of an inode, and returns whether its caller must answer it.
func (f *toy) called(name string, id uint64, inline bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls[name]++
	return !inline || id != slowID
}

func (f *toy) count(name string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[name]
}

func (f *toy) attr(id uint64) fuse.Attr {
	if id == fuse.FUSE_ROOT_ID {
		return fuse.Attr{Ino: id, Mode: syscall.S_IFDIR | 0o755, Nlink: 1}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return fuse.Attr{Ino: id, Mode: syscall.S_IFREG | 0o644, Nlink: 1, Size: uint64(len(f.data[id]))}
}

func (f *toy) lookup(name string, out *fuse.EntryOut) fuse.Status {
	id := ids[name]
	if id == 0 {
		return fuse.ENOENT
	}
	out.NodeId, out.Attr = id, f.attr(id)
	return fuse.OK
}

func (f *toy) write(in *fuse.WriteIn, data []byte) uint32 {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.data[in.NodeId] = append(f.data[in.NodeId][:in.Offset:in.Offset], data...)
	return uint32(len(data))
}

func (f *toy) InlineLookup(_ *fuse.InHeader, name string, out *fuse.EntryOut) (fuse.Status, bool) {
	if !f.called("inline lookup", ids[name], true) {
		return fuse.OK, false
	}
	return f.lookup(name, out), true
}

func (f *toy) Lookup(_ <-chan struct{}, _ *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	f.called("lookup", ids[name], false)
	return f.lookup(name, out)
}

func (f *toy) InlineGetAttr(in *fuse.GetAttrIn, out *fuse.AttrOut) (fuse.Status, bool) {
	out.Attr = f.attr(in.NodeId)
	return fuse.OK, f.called("inline getattr", in.NodeId, true)
}

func (f *toy) GetAttr(_ <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	f.called("getattr", in.NodeId, false)
	out.Attr = f.attr(in.NodeId)
	return fuse.OK
}

func (f *toy) SetAttr(_ <-chan struct{}, in *fuse.SetAttrIn, out *fuse.AttrOut) fuse.Status {
	return f.GetAttr(nil, &fuse.GetAttrIn{InHeader: in.InHeader}, out)
}

// Interrupted implements Inline.
func (f *toy) Interrupted(func(fuse.Status)) {}

func (f *toy) InlineOpen(in *fuse.OpenIn, out *fuse.OpenOut) (fuse.Status, bool) {
	out.OpenFlags = fuse.FOPEN_KEEP_CACHE
	return fuse.OK, f.called("inline open", in.NodeId, true)
}

func (f *toy) Open(_ <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	f.called("open", in.NodeId, false)
	f.wait(1)
	<-f.leave
	f.wait(-1)
	out.OpenFlags = fuse.FOPEN_KEEP_CACHE
	return fuse.OK
}

func (f *toy) Mkdir(_ <-chan struct{}, _ *fuse.MkdirIn, _ string, _ *fuse.EntryOut) fuse.Status {
	f.called("mkdir", 0, false)
	f.wait(1)
	<-f.leave
	f.wait(-1)
	return fuse.ENOSYS
}

func (f *toy) wait(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waiting += n
}

func (f *toy) Read(_ <-chan struct{}, in *fuse.ReadIn, _ []byte) (fuse.ReadResult, fuse.Status) {
	f.called("read", in.NodeId, false)
	f.mu.Lock()
	defer f.mu.Unlock()
	data := f.data[in.NodeId]
	return fuse.ReadResultData(bytes.Clone(data[min(int(in.Offset), len(data)):])), fuse.OK
}

// InlineCreate makes a file that is empty for ever, of any name; of slow ones
// others do.
func (f *toy) InlineCreate(in *fuse.CreateIn, name string, out *fuse.CreateOut) (fuse.Status, bool) {
	id := uint64(inlineID)
	if strings.HasPrefix(name, "slow") {
		id = slowID
	}
	if !f.called("inline create", id, true) {
		return fuse.OK, false
	}
	return f.create(in, name, out), true
}

func (f *toy) Create(_ <-chan struct{}, in *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status {
	f.called("create", 0, false)
	return f.create(in, name, out)
}

func (f *toy) create(in *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.made = append(f.made, fmt.Sprintf("%s %o", name, in.Mode))
	id := uint64(100 + len(f.made))
	out.NodeId, out.Attr = id, fuse.Attr{Ino: id, Mode: in.Mode, Nlink: 1}
	return fuse.OK
}

func (f *toy) InlineWrite(in *fuse.WriteIn, data []byte) (uint32, fuse.Status, bool) {
	if !f.called("inline write", in.NodeId, true) {
		return 0, fuse.OK, false
	}
	return f.write(in, data), fuse.OK, true
}

func (f *toy) Writev(_ <-chan struct{}, in *fuse.WriteIn, data [][]byte) (uint32, fuse.Status) {
	f.called("write", in.NodeId, false)
	return f.write(in, slices.Concat(data...)), fuse.OK
}

func (f *toy) InlineRelease(in *fuse.ReleaseIn) bool {
	return f.called("inline release", in.NodeId, true)
}

func (f *toy) Release(_ <-chan struct{}, in *fuse.ReleaseIn) { f.called("release", in.NodeId, false) }

func (f *toy) InlineOpenDir(in *fuse.OpenIn, _ *fuse.OpenOut) (fuse.Status, bool) {
	return fuse.OK, f.called("inline opendir", in.NodeId, true)
}

func (f *toy) InlineReleaseDir(in *fuse.ReleaseIn) bool {
	return f.called("inline releasedir", in.NodeId, true)
}

func (f *toy) ReadDirPlus(_ <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	names := []string{"inline", "slow"}
	for i := int(in.Offset); i < len(names); i++ {
		entry := out.AddDirLookupEntry(fuse.DirEntry{Name: names[i], Ino: ids[names[i]], Mode: syscall.S_IFREG, Off: uint64(i) + 1})
		if entry == nil {
			break
		}
		f.lookup(names[i], entry)
	}
	return fuse.OK
}

// notify gives the kernel one notice.
func (m *served) notify(n Notice) fuse.Status { return m.Notify(n)[0] }
