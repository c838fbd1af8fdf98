package fusefs

import (
	"slices"
	"syscall"

	"mneme/memory"
	"mneme/session"
	"mneme/versionlog"
)

// renameFile moves a file: a memory, one that is hidden elsewhere, or one that
// the log does not have.
func (fs *fileSystem) renameFile(m *move) error {
	if m.Target != nil && m.Target.IsDir() {
		return syscall.EISDIR
	}
	fs.mu.Lock()
	displaced, hiddenFrom := m.Target != nil && m.Target.IsHiddenLocked(), ""
	if displaced {
		hiddenFrom, _ = m.Target.LogPathLocked()
		if status := m.s.admitRemovalLocked(m.Target); !status.Ok() { // as in Unlink
			fs.mu.Unlock()
			return syscall.Errno(status)
		}
	}
	fs.mu.Unlock()
	if displaced { // the last name of a memory that is hidden
		if err := m.s.remove(m.Target, hiddenFrom); err != nil {
			return err
		}
	}
	if fs.renamedLocally(m) || fs.comesBack(m) {
		return nil
	}
	return fs.renameInLog(m)
}

// staysLocalLocked reports whether the new name keeps the file out of the log.
func (fs *fileSystem) staysLocalLocked(m *move) bool {
	if b := backupNames.FindStringSubmatch(m.New); b != nil && b[1] == m.Old && random.MatchString(b[2]) && m.From == m.To {
		return true
	}
	switch classifyLocked(m.To, m.New) {
	case editorScratch:
		return true
	case temporary:
		return m.Entry.IsMountOnlyLocked()
	}
	return false
}

// renamedLocally changes names in this mount only, if that is all there is to
// do, and reports whether it was.
func (fs *fileSystem) renamedLocally(m *move) bool {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	m.ResolveLocked()
	if m.To.ChildLocked(m.New).IsMemoryLocked() || !fs.staysLocalLocked(m) {
		return false
	}
	memoryMoves := m.Entry.IsMemoryLocked()
	if !m.To.HasPlaceLocked() || memoryMoves && m.MovedAwayLocked() {
		return false
	}
	from, itself := m.Entry.KnownAtLocked(), m.Entry.KnownByItselfLocked()
	m.s.unspoolLocked(m.s.tree.HideLocked(m.Move))
	switch at := m.Entry.KnownAtLocked(); {
	case !m.Entry.KnownByItselfLocked():
	case itself:
		m.s.known.Moved(from, at)
	default:
		m.s.known.Set(at, session.Nothing())
	}
	if !memoryMoves && stageOf(m.Entry) != nil && stageOf(m.Entry).writers == 0 && classifyLocked(m.To, m.New) == temporary {
		fs.lingerLocked(m.Entry)
	}
	return true
}

// comesBack undoes hiding: the file gets the name back under which the log has
// it. It reports whether that was all there was to do.
func (fs *fileSystem) comesBack(m *move) bool {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	m.ResolveLocked()
	if !m.Entry.IsHiddenFromLocked(m.To, m.New) || stageOf(m.Entry) != nil || m.Target != nil {
		return false
	}
	m.s.tree.RevealLocked(m.Move)
	return true
}

// renameInLog commits the rename. A file that replaces a memory becomes that
// memory's next version, whose id and history go on; what it was itself, if it
// was a memory, is deleted in the same commit.
func (fs *fileSystem) renameInLog(m *move) error {
	fs.mu.Lock()
	m.ResolveLocked()
	source, known := m.Entry.LogPathLocked()
	target, ok := m.To.ChildPathLocked(m.New)
	spelling := ""
	if ok {
		spelling = m.To.SpellingOfLocked(target, m.As)
	}
	theirs := m.ReplacedLocked()
	inLog := m.Entry.InLogLocked()
	self := inLog && known && source == target // a hidden file, changed, that comes back
	away := m.MovedAwayLocked()
	head, st := m.Entry.HeadLocked(), stageOf(m.Entry)
	var data []byte
	var changes uint64
	loaded, failed := isStaged(m.Entry), fs.failedWriterLocked(m.Entry)
	if loaded {
		data, changes = slices.Clone(st.data), st.changes
	}
	if ok && theirs == nil {
		if refused := m.s.admitNewLocked(target); refused != nil && !(inLog && refused.At == source) {
			status, shown := m.s.answerLocked(refused), m.s.shownAsLocked(refused)
			fs.mu.Unlock()
			if loaded && !inLog { // the program may remove it now
				m.s.session.KeepRefused(fs.ctx, refused, shown, data)
			}
			return syscall.Errno(status)
		}
	}
	fs.mu.Unlock()
	if !ok || inLog && (!known || away) { // another session's commit took the place away
		return syscall.ENOENT
	}

	if inLog && theirs == nil && !self {
		change := memory.Change{Action: versionlog.Rename, Path: source, To: target, Spelling: spelling, Expect: versionlog.ExpectExists()}
		//archtest:locked commit calls it with the lock
		err := m.s.commit([]memory.Change{change}, func(c *versionlog.Commit) {
			if isErased(c) {
				m.s.bringErasedLocked(c, m.To, m.New)
				return
			}
			m.s.unspoolLocked(m.s.tree.MovedLocked(m.Move, source, c.Versions[0]))
		})
		if _, taken := versionlog.ConflictAt(err, target); taken {
			fs.mu.Lock()
			defer fs.mu.Unlock()
			m.s.noteLocked(target, session.Nothing()) // the kernel will try once more
		}
		return err
	}
	switch {
	case failed != 0: // what was written to it was refused
		return failed
	case !loaded && head == nil && st != nil && st.err != 0:
		return st.err
	case !loaded && head == nil:
		return syscall.ENOENT
	case !loaded:
		var err error
		if data, err = m.s.memory.ContentOf(fs.ctx, head); err != nil {
			return err
		}
	}
	fs.mu.Lock()
	key, used := st.spooledKeyLocked(changes)
	fs.mu.Unlock()
	t := &renameText{move: m, path: target, spelled: spelling, data: data, changes: changes, theirs: theirs, key: key, used: used}
	if inLog && !self {
		t.also = []memory.Change{{Action: versionlog.Remove, Path: source, Expect: versionlog.ExpectVersion(head.ID())}}
	}
	err := fs.replace(t)
	if _, told := err.(syscall.Errno); told || err != nil && memory.IsFinal(err) {
		fs.mu.Lock()
		defer fs.mu.Unlock()
		st.refusedKeyLocked(changes, key)
	}
	return err
}
