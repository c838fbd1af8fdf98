package fusefs

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/cas"
	"mneme/internal/testing/logfault"
	"mneme/versionlog"
)

// verbs are all steps. A file is a path, or what lookup has called by a name; a handle is
// what open has called so. Every request takes "by 2", the thread that makes it.
var verbs map[string]verb

func init() { // not in place: steps lead back to it
	verbs = map[string]verb{
		// These steps happen to the mount and its log.
		"load":    {0, 0, func(r *run, _ *act) error { return r.load() }},
		"begin":   {0, 0, func(r *run, _ *act) error { return r.s.begin(r.Context()) }}, // it hears of the log what it does at its mount
		"follow":  {0, 2, (*run).followSteps},                                           // all; "follow 1", so many commits; "follow theirs", up to the first of mine
		"go":      {0, 0, func(r *run, _ *act) error { r.letGo(); return nil }},
		"commits": {1, many, (*run).setFates},                                 // made, unheard, unmade; "commits always unmade", "commits always made"
		"reads":   {1, 1, (*run).setReads},                                    // fail, work; "reads count", from now on
		"killed":  {0, 0, func(r *run, _ *act) error { r.die(); return nil }}, // the daemon is, and another one begins
		"spool":   {1, 1, (*run).setSpool},                                    // full, works
		"pushed":  {1, 1, (*run).pushPages},                                   // path: the kernel is given its pages, until go
		"lose":    {1, 1, (*run).loseBlob},                                    // text: its blob is gone

		// Programs ask these of the mount.
		"mine lookup":    {1, 5, (*run).mineLookup},           // file [as name]
		"mine lookups":   {1, many, (*run).mineLookups},       // path path: each, however that ends
		"mine list":      {1, 1, (*run).mineList},             // path
		"mine lists":     {1, many, (*run).mineLists},         // path path: each, however that ends
		"mine open":      {2, 9, (*run).mineOpen},             // file r|w|r+|w+|a [create] [excl] [as handle]
		"mine read":      {1, 1, (*run).mineRead},             // handle; or a file, which is opened and closed
		"mine write":     {2, 6, (*run).mineWrite},            // handle text [at offset] [times number]
		"mine mapped":    {2, 2, (*run).mineMapped},           // handle text: written through a mapping
		"mine flush":     {1, 3, requestOf((*run).flush)},     // handle: one of its descriptors is closed
		"mine release":   {1, 3, requestOf((*run).release)},   // handle: it ends without that
		"mine close":     {1, 3, requestOf((*run).closeBoth)}, // handle: its only descriptor is closed
		"mine sync":      {1, 3, requestOf((*run).sync)},      // handle
		"mine save":      {2, 3, (*run).mineSave},             // path text [excl]: opened, truncated, written, closed
		"mine append":    {2, 2, (*run).mineAppend},           // path text: opened, written, closed
		"mine truncate":  {2, 2, (*run).mineTruncate},         // file size
		"mine ftruncate": {2, 2, (*run).mineFtruncate},        // handle size
		"mine unlink":    {1, 1, inDirectory((*run).unlinkIn)},
		"mine mkdir":     {1, 1, inDirectory((*run).mkdirIn)},
		"mine rmdir":     {1, 1, inDirectory((*run).rmdirIn)},
		"mine rename":    {2, 3, (*run).mineRename}, // path path [noreplace]
		"mine forget":    {1, 1, (*run).mineForget}, // name of a lookup
		"mine end":       {0, 0, func(r *run, _ *act) error { r.commitAll(); return nil }},

		// The other session does these.
		"theirs write":  {2, 2, (*run).theirWrite}, // path text
		"theirs append": {2, 2, (*run).theirAppend},
		"theirs remove": {1, 1, (*run).theirRemove},
		"theirs rmtree": {1, 1, (*run).theirRemoveTree},
		"theirs rename": {2, 2, (*run).theirRename},
		"theirs mkdir":  {1, 1, (*run).theirMkdir},
		"theirs rmdir":  {1, 1, (*run).theirRmdir},
	}
	for name, v := range wants {
		verbs["want "+name] = v
	}
}

func (r *run) followSteps(s *act) error {
	left := many
	own := false
	switch s.arg(0) {
	case "":
	case "theirs":
		own = true
	default:
		var err error
		if left, err = strconv.Atoi(s.arg(0)); err != nil {
			return err
		}
	}
	r.followWhile(func(c *versionlog.Commit) bool {
		left--
		return left >= 0 && (!own || c.Session != "mine")
	})
	return nil
}

func (r *run) setFates(s *act) error {
	var fates []logfault.Fate
	for _, name := range s.rest(0) {
		switch name {
		case "always":
		case "made":
			fates = append(fates, logfault.Made)
		case "unheard":
			fates = append(fates, logfault.Unheard)
		case "unmade":
			fates = append(fates, logfault.Unmade)
		default:
			return fmt.Errorf("%q is nothing that becomes of a commit", name)
		}
	}
	if s.arg(0) == "always" {
		r.log.SetFate(func() logfault.Fate { return fates[0] })
		return nil
	}
	r.log.SetFates(fates...)
	return nil
}

func (r *run) setReads(s *act) error {
	if s.arg(0) == "count" {
		r.log.ResetReads()
		return nil
	}
	r.log.SetDown(s.arg(0) == "fail")
	return nil
}

func (r *run) setSpool(s *act) error {
	full := s.arg(0) == "full"
	if full {
		r.whole = r.openSpool(10)
	} else {
		r.useSpool(r.whole)
	}
	return nil
}

func (r *run) loseBlob(s *act) error {
	return r.blobs.(cas.Deleter).Delete(r.Context(), cas.Sum([]byte(s.arg(0))))
}

func (r *run) pushPages(s *act) error {
	r.held = append(r.held, r.pushing(s.arg(0)))
	return nil
}

// thread is what a request says of the thread that makes it.
func (s *act) thread(id uint64) fuse.InHeader {
	by, _ := s.option("by")
	thread, _ := strconv.ParseUint(by, 10, 32)
	return fuse.InHeader{NodeId: id, Caller: fuse.Caller{Pid: uint32(thread)}}
}

// entry is what the kernel knows a file by.
func (r *run) entry(file string) (fuse.EntryOut, fuse.Status, error) {
	if strings.HasPrefix(file, "/") {
		entry, status := r.lookup(file)
		return entry, status, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	entry, ok := r.entries[file]
	if !ok {
		return entry, 0, fmt.Errorf("nothing was looked up as %s", file)
	}
	return entry, fuse.OK, nil
}

func (r *run) handleNamed(name string) (handleInUse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h, ok := r.handles[name]
	if !ok {
		return h, fmt.Errorf("no handle is called %s", name)
	}
	return h, nil
}

func (r *run) mineLookup(s *act) error {
	path := s.arg(0)
	var entry fuse.EntryOut
	var status fuse.Status
	if _, by := s.option("by"); by { // of the last name only
		dir, name := r.parent(path)
		in := s.thread(dir)
		if status = r.fs.Lookup(nil, &in, name, &entry); status.Ok() && entry.NodeId == 0 {
			status = fuse.ENOENT
		}
	} else {
		entry, status = r.lookup(path)
	}
	if name, ok := s.option("as"); ok && status.Ok() {
		r.mu.Lock()
		r.entries[name] = entry
		r.mu.Unlock()
	}
	return s.ended(status)
}

func (r *run) mineLookups(s *act) error {
	for _, path := range s.rest(0) {
		_, _ = r.lookup(path)
	}
	return nil
}

func (r *run) mineList(s *act) error {
	_, status := r.names(s.arg(0))
	return s.ended(status)
}

func (r *run) mineLists(s *act) error {
	for _, path := range s.rest(0) {
		_, _ = r.names(path)
	}
	return nil
}

var openFlags = map[string]uint32{
	"r": syscall.O_RDONLY, "w": syscall.O_WRONLY, "r+": syscall.O_RDWR, "w+": syscall.O_RDWR | syscall.O_TRUNC, "wt": syscall.O_WRONLY | syscall.O_TRUNC,
	"a": syscall.O_WRONLY | syscall.O_APPEND, "a+": syscall.O_RDWR | syscall.O_APPEND, "create": syscall.O_CREAT, "excl": syscall.O_CREAT | syscall.O_EXCL,
}

func (r *run) mineOpen(s *act) error {
	h := handleInUse{}
	for _, name := range s.rest(1) {
		if name == "as" || name == "by" {
			break
		}
		flag, ok := openFlags[name]
		if !ok {
			return fmt.Errorf("%q is no way to open a file", name)
		}
		h.flags |= flag
	}
	entry, status, err := r.entry(s.arg(0))
	switch {
	case err != nil:
		return err
	case status.Ok() && h.flags&syscall.O_EXCL == 0:
		var out fuse.OpenOut
		status = r.fs.Open(nil, &fuse.OpenIn{InHeader: s.thread(entry.NodeId), Flags: h.flags &^ syscall.O_CREAT}, &out)
		h.id, h.fh, h.answer = entry.NodeId, out.Fh, out.OpenFlags
	case h.flags&syscall.O_CREAT != 0:
		dir, name := r.parent(s.arg(0))
		var out fuse.CreateOut
		status = r.fs.Create(nil, &fuse.CreateIn{InHeader: s.thread(dir), Flags: h.flags, Mode: 0o644}, name, &out)
		h.id, h.fh, h.answer = out.NodeId, out.Fh, out.OpenFlags
	}
	if name, ok := s.option("as"); ok && status.Ok() {
		r.mu.Lock()
		r.handles[name] = h
		r.mu.Unlock()
	}
	return s.ended(status)
}

// text reads a handle; or a file, as a program that opens and closes it.
func (r *run) text(file string) (string, fuse.Status, error) {
	h, err := r.handleNamed(file)
	if err != nil {
		entry, status, entryErr := r.entry(file)
		if entryErr != nil {
			return "", 0, errors.Join(err, entryErr)
		}
		h.id = entry.NodeId
		if status.Ok() {
			h.fh, status = r.open(h.id, syscall.O_RDONLY)
		}
		if !status.Ok() {
			return "", status, nil
		}
		defer r.front().Release(nil, &fuse.ReleaseIn{InHeader: header(h.id), Fh: h.fh})
	}
	result, status := r.front().Read(nil, &fuse.ReadIn{InHeader: header(h.id), Fh: h.fh}, make([]byte, 1<<20))
	if !status.Ok() {
		return "", status, nil
	}
	data, status := result.Bytes(nil)
	return string(data), status, nil
}

func (r *run) mineRead(s *act) error {
	_, status, err := r.text(s.arg(0))
	return errors.Join(err, s.ended(status))
}

func (r *run) mineWrite(s *act) error {
	h, err := r.handleNamed(s.arg(0))
	if err != nil {
		return err
	}
	offset, err := s.offset()
	if err != nil {
		return err
	}
	text := s.arg(1)
	if times, ok := s.option("times"); ok {
		n, err := strconv.Atoi(times)
		if err != nil {
			return err
		}
		text = strings.Repeat(text, n)
	}
	in := &fuse.WriteIn{InHeader: s.thread(h.id), Fh: h.fh, Flags: h.flags, Offset: offset}
	_, status := r.fs.Write(nil, in, []byte(text))
	return s.ended(status)
}

// offset is where a request writes: 0 unless it says "at 3", or "at page-3", three bytes
// before the end of a page.
func (s *act) offset() (offset uint64, err error) {
	at, ok := s.option("at")
	if !ok {
		return 0, nil
	}
	before, ok := strings.CutPrefix(at, "page-")
	if offset, err = strconv.ParseUint(before, 10, 64); ok {
		offset = uint64(os.Getpagesize()) - offset
	}
	return offset, err
}

func (r *run) mineMapped(s *act) error {
	h, err := r.handleNamed(s.arg(0))
	if err != nil {
		return err
	}
	_, status := r.fs.Write(nil, &fuse.WriteIn{InHeader: header(h.id), Fh: h.fh, WriteFlags: fuse.WRITE_CACHE}, []byte(s.arg(1)))
	return s.ended(status)
}

func (r *run) mineFtruncate(s *act) error {
	h, err := r.handleNamed(s.arg(0))
	size, sizeErr := strconv.ParseUint(s.arg(1), 10, 64)
	if err = errors.Join(err, sizeErr); err != nil {
		return err
	}
	in := &fuse.SetAttrIn{SetAttrInCommon: fuse.SetAttrInCommon{
		InHeader: header(h.id), Valid: fuse.FATTR_SIZE | fuse.FATTR_FH, Fh: h.fh, Size: size,
	}}
	return s.ended(r.fs.SetAttr(nil, in, &fuse.AttrOut{}))
}

// requestOf is a request about a handle.
func requestOf(request func(*run, *act, handleInUse) fuse.Status) func(*run, *act) error {
	return func(r *run, s *act) error {
		h, err := r.handleNamed(s.arg(0))
		if err != nil {
			return err
		}
		return s.ended(request(r, s, h))
	}
}

func (r *run) flush(s *act, h handleInUse) fuse.Status {
	return r.fs.Flush(nil, &fuse.FlushIn{InHeader: s.thread(h.id), Fh: h.fh})
}

func (r *run) release(s *act, h handleInUse) fuse.Status {
	r.fs.Release(nil, &fuse.ReleaseIn{InHeader: s.thread(h.id), Fh: h.fh})
	return fuse.OK
}

func (r *run) closeBoth(s *act, h handleInUse) fuse.Status {
	status := r.flush(s, h)
	r.release(s, h)
	return status
}

func (r *run) sync(s *act, h handleInUse) fuse.Status {
	return r.fs.Fsync(nil, &fuse.FsyncIn{InHeader: s.thread(h.id), Fh: h.fh})
}

func (r *run) mineSave(s *act) error {
	return s.ended(r.save(s.arg(0), s.arg(1), openFlags[s.arg(2)]&^syscall.O_CREAT))
}

func (r *run) mineAppend(s *act) error {
	return s.ended(r.close(r.dirtyWith(s.arg(0), s.arg(1), syscall.O_WRONLY|syscall.O_APPEND)))
}

func (r *run) mineTruncate(s *act) error {
	size, err := strconv.ParseUint(s.arg(1), 10, 64)
	entry, status, entryErr := r.entry(s.arg(0))
	if err = errors.Join(err, entryErr); err != nil {
		return err
	}
	if status.Ok() {
		status = r.truncate(entry.NodeId, size)
	}
	return s.ended(status)
}

// inDirectory is a request about a name in a directory.
func inDirectory(request func(r *run, in fuse.InHeader, name string) fuse.Status) func(*run, *act) error {
	return func(r *run, s *act) error {
		dir, name := r.parent(s.arg(0))
		return s.ended(request(r, s.thread(dir), name))
	}
}

func (r *run) unlinkIn(in fuse.InHeader, name string) fuse.Status {
	return r.fs.Unlink(nil, &in, name)
}

func (r *run) mkdirIn(in fuse.InHeader, name string) fuse.Status {
	return r.fs.Mkdir(nil, &fuse.MkdirIn{InHeader: in, Mode: 0o755}, name, &fuse.EntryOut{})
}

func (r *run) rmdirIn(in fuse.InHeader, name string) fuse.Status { return r.fs.Rmdir(nil, &in, name) }

func (r *run) mineRename(s *act) error {
	flags := uint32(0)
	if s.arg(2) == "noreplace" {
		flags = 1 // RENAME_NOREPLACE
	}
	return s.ended(r.rename(s.arg(0), s.arg(1), flags))
}

func (r *run) mineForget(s *act) error {
	entry, _, err := r.entry(s.arg(0))
	r.fs.Forget(entry.NodeId, 1)
	return err
}

func (r *run) theirWrite(s *act) error {
	_, err := r.other.Write(r.Context(), s.arg(0), []byte(s.arg(1)), versionlog.ExpectAny())
	return err
}

func (r *run) theirAppend(s *act) error {
	_, data, err := r.other.Read(r.Context(), s.arg(0))
	if err != nil {
		return err
	}
	_, err = r.other.Write(r.Context(), s.arg(0), append(data, s.arg(1)...), versionlog.ExpectAny())
	return err
}

func (r *run) theirRemove(s *act) error {
	_, err := r.other.Remove(r.Context(), s.arg(0), versionlog.ExpectAny())
	return err
}

func (r *run) theirRemoveTree(s *act) error {
	_, err := r.other.RemoveTree(r.Context(), s.arg(0), nil, nil)
	return err
}

func (r *run) theirRename(s *act) error {
	_, err := r.other.Rename(r.Context(), s.arg(0), s.arg(1), nil)
	return err
}

func (r *run) theirMkdir(s *act) error {
	_, err := r.other.MakeDir(r.Context(), s.arg(0), versionlog.ExpectAny(), nil)
	return err
}

func (r *run) theirRmdir(s *act) error {
	_, err := r.other.RemoveDir(r.Context(), s.arg(0), nil)
	return err
}
