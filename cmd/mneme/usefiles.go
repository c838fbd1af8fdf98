package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"syscall"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"mneme/cas"
	"mneme/internal/quote"
	"mneme/memory"
	"mneme/versionlog"
)

// agentFiles is what is in the directory of an agent, as a store would have it.
type agentFiles struct {
	files, dirs []agentFile // by path
	bytes       int64
	largest     int64
	notText     []string // files that are not UTF-8
	programs    []string // files that can be executed, which a store does not say
	attributes  []string // files with extended attributes or access lists, likewise
	refused     []string // what no store can hold, each with the reason
	isOpen      bool     // other users may go into the directory

	most   int64 // bytes of a file
	git    bool  // a directory .git is passed over
	device uint64
	spelt  map[string]string // what is there by its path in the store
}

// agentFile is a file or directory.
type agentFile struct {
	path     string // in the store; a directory's ends in a slash
	spelling string // where that is another form of it; else ""
	rel      string // below the directory
	mtime    time.Time
	digest   cas.Digest
	stamp    fileStamp
}

// fileStamp is another one after a file was changed.
type fileStamp struct {
	inode        uint64
	size         int64
	mtime, ctime syscall.Timespec
}

func newFileStamp(st *syscall.Stat_t) fileStamp {
	return fileStamp{st.Ino, st.Size, st.Mtim, st.Ctim}
}

// gitName is the name of the git directory of a checkout.
const gitName = ".git"

// lookIntoDir reads what is in a directory, of which no file may have more than most
// bytes, but for the git directory if git is set. It changes nothing.
func lookIntoDir(dir string, most int64, git bool) (*agentFiles, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	info, err := root.Stat(".")
	if err != nil {
		return nil, err
	}
	f := &agentFiles{isOpen: info.Mode()&0o055 != 0, most: most, git: git, device: info.Sys().(*syscall.Stat_t).Dev, spelt: map[string]string{}}
	err = fs.WalkDir(root.FS(), ".", func(rel string, _ fs.DirEntry, err error) error {
		switch {
		case err != nil:
			f.refuse(rel, err)
			return nil
		case rel == ".":
			return nil
		case rel == gitName && git:
			return fs.SkipDir
		}
		return f.add(root, rel)
	})
	return f, err
}

func (f *agentFiles) refuse(rel string, reason any) {
	f.refused = append(f.refused, fmt.Sprintf("%s: %v", quote.Name(rel), reason))
}

// add takes in what has a name. What no store holds is refused, and not looked into.
func (f *agentFiles) add(root *os.Root, rel string) error {
	info, err := root.Lstat(rel)
	if err != nil {
		return err
	}
	st := info.Sys().(*syscall.Stat_t)
	if reason := f.unfit(rel, info, st); reason != nil {
		f.refuse(rel, reason)
		if info.IsDir() {
			return fs.SkipDir
		}
		return nil
	}
	file := agentFile{rel: rel, path: "/" + rel, mtime: info.ModTime(), stamp: newFileStamp(st)}
	file.path, _ = memory.ParsePath(file.path) // which unfit has seen
	end := ""
	if info.IsDir() {
		end = "/"
	}
	if file.path != "/"+rel {
		file.spelling = "/" + rel + end
	}
	file.path += end
	if info.IsDir() {
		f.dirs = append(f.dirs, file)
		return nil
	}
	data, err := readAgentFile(root, &file)
	if err != nil {
		f.refuse(rel, err)
		return nil
	}
	file.digest = cas.Sum(data)
	f.files = append(f.files, file)
	f.bytes += info.Size()
	f.largest = max(f.largest, info.Size())
	if !utf8.Valid(data) {
		f.notText = append(f.notText, rel)
	}
	if hasAttributes(filepath.Join(root.Name(), rel)) {
		f.attributes = append(f.attributes, rel)
	}
	if info.Mode()&0o111 != 0 {
		f.programs = append(f.programs, rel)
	}
	return nil
}

// newPath is memory.ParsePath for a memory that is not there yet. Its errors do not name it.
func newPath(path string) (string, error) {
	name, err := memory.ParsePath(path)
	if err == nil {
		err = memory.CheckNew(name)
	}
	var whole *memory.PathError
	var character *memory.CharacterError
	switch {
	case errors.As(err, &character):
		return "", errors.New("its name " + character.Fault)
	case errors.Is(err, memory.ErrPathEncoding):
		return "", errors.New("its name is not UTF-8")
	case errors.As(err, &whole):
		return "", whole.Err
	}
	return name, err
}

// unfit returns why a store cannot hold what has a name, or nil.
func (f *agentFiles) unfit(rel string, info fs.FileInfo, st *syscall.Stat_t) error {
	name, err := newPath("/" + rel)
	if err != nil {
		return err
	}
	other, taken := f.spelt[name]
	f.spelt[name] = rel
	switch kind := info.Mode().Type(); {
	case taken:
		return fmt.Errorf("its name is another spelling of %s", quote.Name(other))
	case st.Dev != f.device:
		return errors.New("another file system is mounted there")
	case kind == fs.ModeSymlink:
		return errors.New("a symbolic link")
	case kind != 0 && kind != fs.ModeDir:
		return errors.New("neither a file nor a directory")
	case int(st.Uid) != os.Geteuid():
		return fmt.Errorf("it belongs to user %d, not to you", st.Uid)
	case kind == 0 && st.Nlink > 1:
		return errors.New("it has another name, by a hard link")
	case kind == 0 && st.Size > f.most:
		return fmt.Errorf("it has %d bytes, a memory of the store at most %d", st.Size, f.most)
	}
	return nil
}

// hasAttributes reports whether a file has attributes or an access list of a user's, as far as its
// file system says.
func hasAttributes(path string) bool {
	names := make([]byte, 64<<10)
	n, err := unix.Llistxattr(path, names)
	if err != nil {
		return false
	}
	for name := range bytes.SplitSeq(names[:n], []byte{0}) {
		if bytes.HasPrefix(name, []byte("user.")) || bytes.HasPrefix(name, []byte("system.posix_acl_")) {
			return true
		}
	}
	return false
}

var errFileChanged = errors.New("it changes while it is read")

// readAgentFile reads a file as it was when it was looked at: errFileChanged.
func readAgentFile(root *os.Root, file *agentFile) ([]byte, error) {
	in, err := root.OpenFile(file.rel, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	data, err := io.ReadAll(io.LimitReader(in, file.stamp.size+1))
	if err != nil {
		return nil, err
	}
	info, err := in.Stat()
	if err == nil && newFileStamp(info.Sys().(*syscall.Stat_t)) != file.stamp {
		err = errFileChanged
	}
	return data, err
}

// changedSince returns what is not as it was when the directory was looked into, which
// may have another name by now; "" if all is.
func (f *agentFiles) changedSince(dir string) (string, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", err
	}
	defer root.Close()
	was := map[string]*agentFile{}
	for _, list := range [][]agentFile{f.files, f.dirs} {
		for i := range list {
			was[list[i].rel] = &list[i]
		}
	}
	changed := ""
	err = fs.WalkDir(root.FS(), ".", func(rel string, _ fs.DirEntry, err error) error {
		switch {
		case err != nil || rel == ".":
			return err
		case rel == gitName && f.git:
			return fs.SkipDir
		}
		info, err := root.Lstat(rel)
		if err != nil {
			return err
		}
		file := was[rel]
		delete(was, rel)
		if file == nil || !info.IsDir() && newFileStamp(info.Sys().(*syscall.Stat_t)) != file.stamp {
			changed = rel
			return fs.SkipAll
		}
		return nil
	})
	if changed == "" && err == nil {
		for rel := range maps.Keys(was) {
			changed = rel
		}
	}
	return changed, err
}

// collisions returns what of the directory the store has otherwise, and how many of its
// memories are not in the directory.
func (f *agentFiles) collisions(heads map[string]versionlog.Digest) (collide []string, others int) {
	mine := map[string]bool{}
	for _, file := range f.files {
		mine[file.path] = true
		if digest, there := heads[file.path]; there && digest != file.digest {
			collide = append(collide, fmt.Sprintf("%s: the store has another text there", quote.Name(file.path)))
		}
		for dir := path.Dir(file.path); dir != "/"; dir = path.Dir(dir) {
			if _, there := heads[dir]; there {
				collide = append(collide, fmt.Sprintf("%s: the store has a memory at %s", quote.Name(file.path), quote.Name(dir)))
			}
		}
	}
	for head := range heads {
		if !mine[head] && (!f.git || head != "/"+gitName) {
			others++
		}
		for dir := path.Dir(head); dir != "/"; dir = path.Dir(dir) {
			if mine[dir] {
				collide = append(collide, fmt.Sprintf("%s: in the store it is a directory", quote.Name(dir)))
			}
		}
	}
	return collide, others
}
