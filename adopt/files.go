package adopt

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

// Files are the contents of an agent's directory, in the form that a store would have.
type Files struct {
	Files, Dirs []file // by path
	Bytes       int64
	largest     int64
	notText     []string // files that are not UTF-8
	Programs    []string // executable files; a store does not keep that
	Attributes  []string // files with extended attributes or access lists; a store does not keep them
	refused     []string // entries that no store can hold, each with the reason
	IsOpen      bool     // other users may enter the directory

	most   int64 // most bytes of a file
	git    bool  // the directory .git is skipped
	device uint64
	spelt  map[string]string // the entry for each path in the store
}

// file is a file or directory.
type file struct {
	path     string // in the store; a directory's path ends in a slash
	spelling string // another form of the path, if the directory has it; else ""
	rel      string // below the directory
	mtime    time.Time
	digest   cas.Digest
	stamp    fileStamp
}

// fileStamp differs after a file was changed.
type fileStamp struct {
	inode        uint64
	size         int64
	mtime, ctime syscall.Timespec
}

func newFileStamp(st *syscall.Stat_t) fileStamp {
	return fileStamp{st.Ino, st.Size, st.Mtim, st.Ctim}
}

// GitName is the name of the git directory of a checkout.
const GitName = ".git"

// look reads a directory. No file may have more than most bytes. If git is set, look skips
// the git directory. It changes nothing.
func look(dir string, most int64, git bool) (*Files, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	info, err := root.Stat(".")
	if err != nil {
		return nil, err
	}
	f := &Files{IsOpen: info.Mode()&0o055 != 0, most: most, git: git, device: info.Sys().(*syscall.Stat_t).Dev, spelt: map[string]string{}}
	err = fs.WalkDir(root.FS(), ".", func(rel string, _ fs.DirEntry, err error) error {
		switch {
		case err != nil:
			f.refuse(rel, err)
			return nil
		case rel == ".":
			return nil
		case rel == GitName && git:
			return fs.SkipDir
		}
		return f.add(root, rel)
	})
	return f, err
}

func (f *Files) refuse(rel string, reason any) {
	f.refused = append(f.refused, fmt.Sprintf("%s: %v", quote.Name(rel), reason))
}

// add adds one entry. It refuses an entry that no store can hold, with all below it.
func (f *Files) add(root *os.Root, rel string) error {
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
	file := file{rel: rel, path: "/" + rel, mtime: info.ModTime(), stamp: newFileStamp(st)}
	file.path, _ = memory.ParsePath(file.path) // unfit has checked it
	end := ""
	if info.IsDir() {
		end = "/"
	}
	if file.path != "/"+rel {
		file.spelling = "/" + rel + end
	}
	file.path += end
	if info.IsDir() {
		f.Dirs = append(f.Dirs, file)
		return nil
	}
	data, err := readFile(root, &file)
	if err != nil {
		f.refuse(rel, err)
		return nil
	}
	file.digest = cas.Sum(data)
	f.Files = append(f.Files, file)
	f.Bytes += info.Size()
	f.largest = max(f.largest, info.Size())
	if !utf8.Valid(data) {
		f.notText = append(f.notText, rel)
	}
	if hasAttributes(filepath.Join(root.Name(), rel)) {
		f.Attributes = append(f.Attributes, rel)
	}
	if info.Mode()&0o111 != 0 {
		f.Programs = append(f.Programs, rel)
	}
	return nil
}

// newPath is memory.ParsePath for a new memory. Its errors do not name the memory.
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

// unfit returns why a store cannot hold an entry, or nil.
func (f *Files) unfit(rel string, info fs.FileInfo, st *syscall.Stat_t) error {
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

// hasAttributes reports whether a file has user attributes or an access list. It is false
// if the file system does not say.
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

// readFile reads a file. It returns errFileChanged if the file has changed since look.
func readFile(root *os.Root, file *file) ([]byte, error) {
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

// changedSince returns an entry that has changed since look; "" if none has. dir is the
// name of the directory now.
func (f *Files) changedSince(dir string) (string, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", err
	}
	defer root.Close()
	was := map[string]*file{}
	for _, list := range [][]file{f.Files, f.Dirs} {
		for i := range list {
			was[list[i].rel] = &list[i]
		}
	}
	changed := ""
	err = fs.WalkDir(root.FS(), ".", func(rel string, _ fs.DirEntry, err error) error {
		switch {
		case err != nil || rel == ".":
			return err
		case rel == GitName && f.git:
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

// collisions returns the entries that the store has with another content, and the number of
// the store's memories that are not in the directory.
func (f *Files) collisions(heads map[string]versionlog.Digest) (collide []string, others int) {
	mine := map[string]bool{}
	for _, file := range f.Files {
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
		if !mine[head] && (!f.git || head != "/"+GitName) {
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
