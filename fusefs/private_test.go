package fusefs

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/internal/testing/logfault"
	"mneme/memory"
	"mneme/private"
	"mneme/session/conflict"
	"mneme/spool"
)

// remount kills the mount of a rig, and mounts the store again with a mode, and with a directory
// for the state that outlives a mount.
func (r *rig) remount(mode uint32, dir string) {
	r.Helper()
	r.stop()
	r.awaitTasks()
	if r.s.spool != nil {
		if left := r.s.spool.End(); left != nil {
			r.must(left.Close())
		}
	}
	ctx, stop := context.WithCancel(r.Context())
	r.fs = newFileSystem(ctx, []*memory.Store{r.s.memory}, Options{Logger: slog.New(slog.DiscardHandler), Session: "mine", Mode: mode})
	r.notices().Close()
	r.s, r.stop = r.fs.stores[0], stop
	r.s.patience = time.Microsecond
	r.keepIn(conflict.New(dir))
	r.s.private, r.s.spool = private.New(dir), spool.New(dir, minSpoolBytes)
	r.s.recover(ctx)
	r.must(r.s.begin(ctx))
	r.s.load(ctx)
}

func (r *rig) chmod(path string, mode uint32) fuse.Status {
	r.Helper()
	entry := r.wantLookup(path, fuse.OK)
	in := &fuse.SetAttrIn{SetAttrInCommon: fuse.SetAttrInCommon{InHeader: header(entry.NodeId), Valid: fuse.FATTR_MODE, Mode: mode}}
	return r.fs.SetAttr(nil, in, &fuse.AttrOut{})
}

// create makes a file of a mode, and closes it.
func (r *rig) create(path string, mode uint32) fuse.Status {
	r.Helper()
	return r.createThen(path, mode, func() {})
}

// createThen makes a file of a mode, does something before there is anything in it, and closes it.
func (r *rig) createThen(path string, mode uint32, then func()) fuse.Status {
	r.Helper()
	dir, name := r.parent(path)
	var created fuse.CreateOut
	in := &fuse.CreateIn{InHeader: header(dir), Flags: syscall.O_WRONLY | syscall.O_CREAT | syscall.O_EXCL, Mode: mode}
	if status := r.fs.Create(nil, in, name, &created); !status.Ok() {
		return status
	}
	then()
	_, status := r.fs.Write(nil, &fuse.WriteIn{Fh: created.Fh}, []byte(path))
	r.wantOK(status)
	return r.close(created.Fh)
}

func (r *rig) mkdirAs(path string, mode uint32) fuse.Status {
	r.Helper()
	dir, name := r.parent(path)
	return r.fs.Mkdir(nil, &fuse.MkdirIn{InHeader: header(dir), Mode: mode}, name, &fuse.EntryOut{})
}

func (r *rig) wantOK(status fuse.Status) {
	r.Helper()
	if !status.Ok() {
		r.Fatal(status)
	}
}

func (r *rig) wantModes(want ...string) {
	r.Helper()
	for _, one := range want {
		mode, path, _ := strings.Cut(one, " ")
		shown := r.s.tree.Root().ModeLocked()
		if path != "/" {
			shown = r.wantLookup(path, fuse.OK).Mode
		}
		if got := fmt.Sprintf("%03o", shown&0o777); got != mode {
			r.Errorf("%s has mode %s, want %s", path, got, mode)
		}
	}
}

// TestPrivateInAPrivateMount: in a mount that lets no other user in, a chmod that closes a file
// to others is remembered for a later mount that lets them in, and one that opens it again, too,
// also before the file is a memory, as install and cp -p do. The modes with which files are made
// say nothing there.
func TestPrivateInAPrivateMount(t *testing.T) {
	dir := t.TempDir()
	r := newRig(t, "/back", "/d/file", "/file", "/group", "/open", "/target", "/wide")
	r.remount(0o700, dir)
	for path, mode := range map[string]uint32{"/file": 0o600, "/back": 0o600, "/group": 0o640, "/open": 0o644, "/wide": 0o777, "/d": 0o700} {
		r.wantOK(r.chmod(path, mode))
	}
	r.wantOK(r.chmod("/back", 0o644))
	r.wantOK(r.create("/made", 0o600))
	r.wantOK(r.createThen("/installed", 0o600, func() { r.wantOK(r.chmod("/installed", 0o600)) }))
	r.wantOK(r.createThen("/x.tmp", 0o600, func() { r.wantOK(r.chmod("/x.tmp", 0o640)) }))
	r.wantOK(r.rename("/x.tmp", "/target", 0))
	r.wantOK(r.createThen("/reopened", 0o600, func() {
		r.wantOK(r.chmod("/reopened", 0o600))
		r.wantOK(r.chmod("/reopened", 0o644))
	}))
	r.wantModes("600 /file", "600 /d/file", "700 /d")
	r.remount(0o755, dir)
	r.wantModes("600 /installed", "640 /target", "644 /reopened", "600 /file", "644 /back", "640 /group", "644 /open", "644 /wide", "700 /d", "644 /d/file", "644 /made", "755 /")
}

// A file that is private in a mount is private in the next one, however it became so and wherever
// it was moved; a file that is no longer private is not.
func TestPrivateStaysPrivate(t *testing.T) {
	dir := t.TempDir()
	r := newRig(t, "/back", "/d/file", "/e/deep/file", "/file", "/moved", "/moved-between", "/open", "/opened", "/target", "/wide")
	r.remount(0o755, dir)
	r.wantModes("755 /", "644 /file", "755 /d")
	for path, mode := range map[string]uint32{
		"/file": 0o600, "/back": 0o600, "/moved": 0o640, "/moved-between": 0o600, "/opened": 0o600, "/wide": 0o666, "/d": 0o700, "/e/deep": 0o711,
	} {
		r.wantOK(r.chmod(path, mode))
	}
	r.wantOK(r.chmod("/back", 0o644))
	r.wantOK(r.rename("/moved", "/d/moved", 0))
	r.wantOK(r.rename("/e", "/f", 0))
	r.wantOK(r.create("/made", 0o600))
	r.wantOK(r.create("/made-open", 0o644))
	r.wantOK(r.create("/x.tmp", 0o600))
	r.wantOK(r.rename("/x.tmp", "/target", 0))
	r.wantOK(r.create("/y.tmp", 0o644))
	r.wantOK(r.rename("/y.tmp", "/opened", 0))
	r.wantOK(r.mkdirAs("/new", 0o700))
	r.wantOK(r.create("/new/file", 0o666))
	r.wantOK(r.mkdirAs("/twice", 0o700))
	r.rmdir("/twice")
	r.wantOK(r.mkdirAs("/twice", 0o755))
	r.wantOK(r.create("/twice/file", 0o666))
	_, err := r.other.Rename(t.Context(), "/moved-between", "/elsewhere", nil)
	r.must(err)
	want := []string{
		"755 /", "600 /file", "644 /back", "640 /d/moved", "700 /d", "755 /f", "711 /f/deep", "600 /made", "644 /made-open", "600 /target", "644 /opened",
		"700 /new", "755 /twice", "644 /new/file", "600 /elsewhere", "644 /open", "644 /wide",
	}
	r.remount(0o755, dir)
	r.wantModes(want...)
	r.remount(0, dir) // no other user may enter: a mode that is narrower for others stays so
	r.wantModes("700 /", "600 /file", "600 /back", "700 /d", "600 /elsewhere")
	r.wantOK(r.chmod("/file", 0o600))
	r.remount(0o755, dir)
	r.wantModes(want...)
	r.remount(0, dir)
	r.wantOK(r.chmod("/file", 0o644))
	r.wantOK(r.chmod("/", 0o750))
	r.remount(0o755, dir)
	r.wantModes("644 /file", "750 /")
	r.remount(0o777, dir)
	r.wantModes("750 /", "666 /open", "600 /made")
}

// A file is remembered before it is in the history, so that no kill leaves it open;
// one that a mount which was killed has remembered so is private wherever it is moved.
func TestPrivateBeforeItIsAMemory(t *testing.T) {
	dir := t.TempDir()
	r := newRig(t, "/taken")
	r.remount(0o755, dir)
	var killed []byte
	r.log.Next(logfault.AfterCommit, func() {
		text, err := os.ReadFile(filepath.Join(dir, private.FileName))
		r.must(err)
		killed = text
	})
	r.wantOK(r.create("/made", 0o600))
	r.must(os.WriteFile(filepath.Join(dir, private.FileName), killed, 0o600))
	r.remount(0o755, dir)
	r.wantModes("600 /made", "644 /taken")
	_, err := r.other.Rename(t.Context(), "/made", "/moved", nil)
	r.must(err)
	r.remount(0o755, dir)
	r.wantModes("600 /moved")

	r.log.Next(logfault.BeforeCommit, func() { r.write("/lost", "another's") })
	if status := r.create("/lost", 0o600); status != fuse.Status(DefaultConflictErrno) {
		t.Errorf("made where another session was faster: %v", status)
	}
	r.remount(0o755, dir)
	r.wantModes("644 /lost")
}

// A request that fails leaves private files as they were.
func TestPrivateAfterFailure(t *testing.T) {
	dir := t.TempDir()
	r := newRig(t, "/from/deep/file", "/to/deep/file")
	r.remount(0o755, dir)
	for path, mode := range map[string]uint32{"/from": 0o711, "/from/deep": 0o700, "/to": 0o700, "/to/deep": 0o750} {
		r.wantOK(r.chmod(path, mode))
	}
	if status := r.rename("/from", "/to", 0); status != fuse.Status(syscall.ENOTEMPTY) {
		t.Errorf("rename over what is not empty: %v", status)
	}
	r.remount(0o755, dir)
	r.wantModes("711 /from", "700 /from/deep", "700 /to", "750 /to/deep")

	r.remove("/to/deep/file")
	r.follow()
	r.log.Next(logfault.BeforeCommit, func() { r.write("/to/file", "another's") })
	if status := r.create("/to", 0o600); status.Ok() {
		t.Error("a file was made in the place of another session's directory")
	}
	r.remount(0o755, dir)
	r.wantModes("700 /to")
}

// A temporary file whose mount was killed is as private when it comes back.
func TestPrivateComesBack(t *testing.T) {
	dir := t.TempDir()
	r := newRig(t)
	r.remount(0o755, dir)
	r.wantOK(r.create("/x.tmp", 0o600))
	r.wantOK(r.create("/y.tmp", 0o644))
	r.wantOK(r.create("/z.tmp", 0o600))
	r.write("/z.tmp", "another's")
	r.remount(0, dir)
	r.remount(0o755, dir)
	r.wantModes("600 /x.tmp", "644 /y.tmp", "644 /z.tmp")
}

// The number of remembered modes is bounded: a mode that would pass the bound is refused, and one
// whose file is gone makes room.
func TestPrivateIsBounded(t *testing.T) {
	dir := t.TempDir()
	r := newRig(t, "/a", "/b", "/gone")
	r.remount(0o755, dir)
	if _, err := os.Stat(filepath.Join(dir, private.FileName)); err == nil {
		t.Error("where nothing is private, there is a file")
	}
	r.wantOK(r.chmod("/gone", 0o600))
	r.remove("/gone")
	r.follow()
	var many []private.Change
	for i := range 2000 { // directories that are not there yet
		many = append(many, private.Change{Key: fmt.Sprintf("/%0490d/%d", 0, i), Mode: 0o700})
	}
	r.must(r.s.private.Note(many...))
	for i := 0; r.s.private.Note(private.Change{Key: fmt.Sprintf("/%d", i), Mode: 0o700}) == nil; i++ {
	}
	r.wantOK(r.chmod("/a", 0o600))
	const made = "/a-file-whose-path-is-long"
	for path, status := range map[string]fuse.Status{
		"chmod": r.chmod("/b", 0o600), "mkdir": r.mkdirAs("/a-directory-of-some-length", 0o700), "create": r.create(made, 0o600),
	} {
		if status != fuse.Status(syscall.EDQUOT) {
			t.Errorf("%s: %v, want EDQUOT", path, status)
		}
	}
	r.wantModes("644 /b")
	r.wantLookup("/a-directory-of-some-length", fuse.ENOENT)
	if _, err := r.other.Head(t.Context(), made); err == nil {
		t.Error("what was refused is in the history")
	}
	r.wantOK(r.chmod("/a", 0o644))
	r.wantOK(r.chmod("/b", 0o600))
	r.remount(0o755, dir)
	r.wantModes("644 /a", "600 /b")
}
