package fusefs

import (
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/fusefs/tree"
	"mneme/memory"
	"mneme/versionlog"
)

// Mkdir implements fuse.RawFileSystem. The directory is in the log when it returns.
func (fs *fileSystem) Mkdir(cancel <-chan struct{}, in *fuse.MkdirIn, name string, out *fuse.EntryOut) fuse.Status {
	fs.mu.RLock()
	parent, status := fs.writableLocked(in.NodeId)
	fs.mu.RUnlock()
	if !status.Ok() {
		return status
	}
	req := *in
	return fs.beside(cancel, in.Pid, func(c *call) fuse.Status {
		defer fs.tellUnheard(c, kernelName{req.NodeId, name})
		return fs.mkdirBeside(c, parent, &req, name, out)
	})
}

func (fs *fileSystem) mkdirBeside(c *call, parent *tree.Entry, in *fuse.MkdirIn, name string, out *fuse.EntryOut) fuse.Status {
	storeOf(parent).refresh(c.ctx)
	if status := fs.reach(c.ctx, in.NodeId, name); !status.Ok() {
		return status
	}
	if status := fs.beforeMkdir(in, name); !status.Ok() {
		return status
	}
	release, status := storeOf(parent).claimDir(c.ctx, nameIn{parent, name})
	if !status.Ok() {
		return status
	}
	var n *tree.Entry
	if status = fuse.EINTR; c.ctx.Err() == nil {
		n, status = fs.makeDir(c, in, name, out)
	}
	release()
	if status.Ok() {
		status = fs.keepMode(n, in.Mode) // forgets a private one that had the name before
	}
	return status
}

// makeDir commits a directory, and answers the request that makes it.
func (fs *fileSystem) makeDir(asked *call, in *fuse.MkdirIn, name string, out *fuse.EntryOut) (n *tree.Entry, status fuse.Status) {
	fs.mu.Lock()
	dir, canonical, status := fs.newNameLocked(in.NodeId, name, 1)
	path, spelling := "", ""
	if status.Ok() {
		path, _ = dir.ChildPathLocked(canonical)
		spelling = dir.SpellingOfLocked(path+"/", name+"/")
		if dir.ChildLocked(canonical) != nil {
			status = fuse.Status(syscall.EEXIST)
		} else if err := fs.affordLocked(directoryCost, forScratch); err != nil {
			status = storeOf(dir).tooMuch("mkdir", canonical, err)
		}
	}
	if status.Ok() {
		if marker, there := storeOf(dir).tree.EmptiedThereLocked(dir, canonical, path); there || isPassing(canonical) && dir.HiddenAtLocked(canonical) == nil {
			n = storeOf(dir).tree.MakeDirLocked(dir, canonical, in.Mode, time.Now(), marker)
			n.SpellLocked(name)
			fs.replyIfLocked(asked.answers(), n, canonical == name, out)
		}
	}
	fs.mu.Unlock()
	if !status.Ok() || n != nil {
		return n, status
	}
	s := storeOf(dir)
	if err := s.buryFile(dir, canonical); isConflict(err) {
		if theirs, _ := versionlog.ConflictAt(err, path); theirs != nil {
			return nil, fuse.Status(syscall.EEXIST)
		}
	} else if err != nil {
		return nil, s.fail("mkdir", path, err)
	}
	made := memory.Change{Action: versionlog.MakeDir, Path: path + "/", Spelling: spelling, Expect: versionlog.ExpectAbsent()}
	//archtest:locked commit calls it with the lock
	err := s.commit([]memory.Change{made}, func(c *versionlog.Commit) {
		if isErased(c) {
			s.bringErasedLocked(c, dir, canonical)
			return
		}
		n = s.tree.MadeDirLocked(dir, canonical, path, in.Mode, &c.Versions[0])
		n.SpellLocked(name)
		fs.replyIfLocked(asked.answers(), n, canonical == name, out)
	})
	switch {
	case isConflict(err):
		return nil, fuse.Status(syscall.EEXIST) // the tree shows what is there, see showRefusalLocked
	case err != nil:
		return nil, s.fail("mkdir", path, err)
	case n == nil: // it was there, and is erased: the kernel tries once more
		return nil, fuse.Status(syscall.ESTALE)
	}
	return n, fuse.OK
}
