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

// loggedMove is a move of a file that needs a commit, with the state of the tree when the move began.
type loggedMove struct {
	*move
	source, target string        // paths in the log
	spelling       string        // of target
	placed         bool          // the directory that the file moves to has a path
	inLog          bool          // the log has the file
	returns        bool          // the file was hidden and changed, and gets its own path back
	overtaken      bool          // a commit of another session took the file or the directory away
	head           *memory.Head  // of the file; nil: no version
	theirs         *memory.Head  // at target; nil: no memory
	st             *stage        // of the file; nil: no stage
	failed         syscall.Errno // of a write to the file; 0: none
	staged         bool          // the stage has the content
	data           []byte        // the content, once it is loaded
	changes        uint64        // of the stage, when data was taken from it
}

// loggedMoveLocked returns a move with what the tree has of both names.
func (fs *fileSystem) loggedMoveLocked(m *move) *loggedMove {
	m.ResolveLocked()
	l := &loggedMove{
		move: m, inLog: m.Entry.InLogLocked(), head: m.Entry.HeadLocked(), theirs: m.ReplacedLocked(),
		st: stageOf(m.Entry), staged: isStaged(m.Entry), failed: fs.failedWriterLocked(m.Entry),
	}
	var known bool
	l.source, known = m.Entry.LogPathLocked()
	l.target, l.placed = m.To.ChildPathLocked(m.New)
	if l.placed {
		l.spelling = m.To.SpellingOfLocked(l.target, m.As)
	}
	l.overtaken = !l.placed || l.inLog && (!known || m.MovedAwayLocked())
	l.returns = l.inLog && known && l.source == l.target
	if l.staged {
		l.data, l.changes = slices.Clone(l.st.data), l.st.changes
	}
	return l
}

// refusedLocked returns why the session may not make a memory at the target, or nil. A memory whose own
// path is the reason may move.
func (m *loggedMove) refusedLocked() *session.LostError {
	if !m.placed || m.theirs != nil {
		return nil
	}
	refused := m.s.admitNewLocked(m.target)
	if refused != nil && m.inLog && refused.At == m.source {
		return nil
	}
	return refused
}

// renameInLog commits the rename. A file that replaces a memory becomes that memory's next version, with
// its id and history. If the file was a memory, the same commit removes it at its old path.
func (fs *fileSystem) renameInLog(m *move) error {
	fs.mu.Lock()
	l := fs.loggedMoveLocked(m)
	if refused := l.refusedLocked(); refused != nil {
		status, shown := m.s.answerLocked(refused), m.s.shownAsLocked(refused)
		fs.mu.Unlock()
		if l.staged && !l.inLog { // the program may remove it now
			m.s.session.KeepRefused(fs.ctx, refused, shown, l.data)
		}
		return syscall.Errno(status)
	}
	fs.mu.Unlock()
	switch {
	case l.overtaken:
		return syscall.ENOENT
	case l.inLog && l.theirs == nil && !l.returns:
		return l.commitPath()
	}
	if err := l.load(); err != nil {
		return err
	}
	return l.commitContent()
}

// commitPath commits a rename that replaces no memory.
func (m *loggedMove) commitPath() error {
	change := memory.Change{Action: versionlog.Rename, Path: m.source, To: m.target, Spelling: m.spelling, Expect: versionlog.ExpectExists()}
	//archtest:locked commit calls it with the lock
	err := m.s.commit([]memory.Change{change}, func(c *versionlog.Commit) {
		if isErased(c) {
			m.s.bringErasedLocked(c, m.To, m.New)
			return
		}
		m.s.unspoolLocked(m.s.tree.MovedLocked(m.Move, m.source, c.Versions[0]))
	})
	if _, taken := versionlog.ConflictAt(err, m.target); taken {
		m.s.fs.mu.Lock()
		defer m.s.fs.mu.Unlock()
		m.s.noteLocked(m.target, session.Nothing()) // the kernel will try once more
	}
	return err
}

// load gets the content of the file: from its stage, or else from its version. A file of which a write
// has failed has none.
func (m *loggedMove) load() (err error) {
	switch {
	case m.failed != 0:
		return m.failed
	case m.staged:
		return nil
	case m.head != nil:
		m.data, err = m.s.memory.ContentOf(m.s.fs.ctx, m.head)
		return err
	case m.st != nil && m.st.err != 0:
		return m.st.err
	}
	return syscall.ENOENT
}

// commitContent commits the content as the next version at the target.
func (m *loggedMove) commitContent() error {
	fs := m.s.fs
	fs.mu.Lock()
	key, used := m.st.spooledKeyLocked(m.changes)
	fs.mu.Unlock()
	t := &renameText{
		move: m.move, path: m.target, spelled: m.spelling, data: m.data, changes: m.changes, theirs: m.theirs, key: key, used: used,
	}
	if m.inLog && !m.returns {
		t.also = []memory.Change{{Action: versionlog.Remove, Path: m.source, Expect: versionlog.ExpectVersion(m.head.ID())}}
	}
	err := fs.replace(t)
	if _, told := err.(syscall.Errno); told || err != nil && memory.IsFinal(err) {
		fs.mu.Lock()
		defer fs.mu.Unlock()
		m.st.refusedKeyLocked(m.changes, key)
	}
	return err
}
