package use

import (
	"syscall"

	"mneme/tests/harness"
)

// apply does a call in the model and says how it ends, as on Linux.
func (r *modelRun) apply(c harness.Call) syscall.Errno {
	switch c.Op {
	case "write at":
		r.open[c.To].write(c.Text, c.N)
		return 0
	case "cut":
		r.open[c.To].resize(c.N)
		return 0
	case "read all", "sync", "close":
		return 0
	case "rename":
		return r.rename(c.Path, c.To)
	}
	in, name, at, errno := r.find(c.Path)
	if errno != 0 {
		return errno
	}
	switch c.Op {
	case "put", "append", "excl", "open", "patch", "truncate":
		return r.change(c, in, name, at)
	case "replace":
		if at != nil && at.dir() {
			return syscall.EEXIST // that is what Go's os.Rename makes of it
		}
		in.kids[name] = &modelNode{data: []byte(c.Text)}
	case "mkdir1":
		if at != nil {
			return syscall.EEXIST
		}
		in.kids[name] = newModelDir()
	case "unlink":
		switch {
		case at == nil:
			return syscall.ENOENT
		case at.dir():
			return syscall.EISDIR
		}
		delete(in.kids, name)
	case "rmdir":
		switch {
		case at == nil:
			return syscall.ENOENT
		case !at.dir():
			return syscall.ENOTDIR
		case len(at.kids) > 0:
			return syscall.ENOTEMPTY
		}
		delete(in.kids, name)
	}
	return 0
}

// change does what opens a file by its name and writes to it.
func (r *modelRun) change(c harness.Call, in *modelNode, name string, at *modelNode) syscall.Errno {
	makes := c.Op != "patch" && c.Op != "truncate"
	switch {
	case at == nil && !makes:
		return syscall.ENOENT
	case at != nil && c.Op == "excl":
		return syscall.EEXIST
	case at != nil && at.dir():
		return syscall.EISDIR
	case at == nil:
		at = &modelNode{}
		in.kids[name] = at
	}
	switch c.Op {
	case "put":
		at.data = []byte(c.Text)
	case "append", "excl":
		at.write(c.Text, int64(len(at.data)))
	case "patch":
		at.write(c.Text, c.N)
	case "truncate":
		at.resize(c.N)
	case "open":
		r.open[c.To] = at
	}
	return 0
}

func (n *modelNode) write(text string, offset int64) {
	if text == "" { // writes nothing, and makes no hole
		return
	}
	if end := offset + int64(len(text)); end > int64(len(n.data)) {
		n.resize(end)
	}
	copy(n.data[offset:], text)
}

func (n *modelNode) resize(size int64) {
	data := make([]byte, size)
	copy(data, n.data)
	n.data = data
}

func (r *modelRun) rename(from, to string) syscall.Errno {
	fromDir, fromName, moved, errno := r.find(from)
	if errno != 0 {
		return errno
	}
	toDir, toName, there, errno := r.find(to)
	switch {
	case errno != 0:
		return errno
	case moved == nil:
		return syscall.ENOENT
	case moved == there:
		return 0
	case moved.dir() && moved.holds(toDir):
		return syscall.EINVAL
	case there != nil && there.dir() && there.holds(fromDir):
		return syscall.ENOTEMPTY
	case there != nil && moved.dir() && !there.dir():
		return syscall.ENOTDIR
	case there != nil && !moved.dir() && there.dir():
		return syscall.EISDIR
	case there != nil && len(there.kids) > 0:
		return syscall.ENOTEMPTY
	}
	delete(fromDir.kids, fromName)
	toDir.kids[toName] = moved
	return 0
}
