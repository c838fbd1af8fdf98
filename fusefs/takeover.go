package fusefs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/fusefs/tree"
	"mneme/internal/fusedev"
	"mneme/internal/handover"
	"mneme/memory"
	"mneme/versionlog"
)

// Taking a mount over means mounting the stores again, while the kernel still has what the
// earlier process told it. So the tree is made from the log, as in any mount; then each node that
// the kernel knows gets its number back, in this order:
//
//  1. A directory, or a file that still has the same version, continues.
//  2. Where the log now has another version, the node stands for the one that its readers have,
//     and the new one takes its place, as if the change had come while the mount was served
//     (tree.SupersedeLocked).
//  3. A file or directory that no longer has a place stays for those programs that have it open.
//
// Then the kernel is told of the commits since it was last told. A program that was writing a
// text that is in no version gets EIO from then on, and the text is kept as a conflict.

// Journal is where the mount notes what another process needs to continue, if the mount has a
// keeper.
func (m *Server) Journal() *handover.Journal { return m.journal }

// Device is the connection to the kernel, for the keeper.
func (m *Server) Device() (fd int) { return m.server.Device() }

// hand makes the journal of a mount that is about to be served for the first time.
func (m *Server) hand() error {
	if err := m.server.CanResume(); err != nil {
		return err
	}
	journal, err := handover.New()
	if err != nil {
		return err
	}
	return m.noteIn(journal, m.server.Greeting(), nil)
}

// noteIn has the mount noted in a journal from now on, see newHanding.
func (m *Server) noteIn(journal *handover.Journal, greeting []byte, applied []uint64) error {
	m.fs.mu.Lock()
	defer m.fs.mu.Unlock()
	m.journal = journal
	m.fs.handing = newHanding(m.fs, journal, greeting, applied)
	for _, n := range m.fs.nodes {
		if st := stageOf(n); st != nil {
			m.fs.handing.stagedLocked(n, st)
		}
	}
	m.server.BeforeAnswers(m.fs.noteAnswer)
	return m.fs.handing.rewriteLocked()
}

// noteAnswer is called before each answer.
func (fs *fileSystem) noteAnswer() {
	fs.mu.RLock()
	h := fs.handing
	fs.mu.RUnlock()
	if h != nil {
		h.note()
	}
}

// TakeOver continues a mount at dir that another process has served until its end, with the same
// stores, in the same order, and the same options. device and journal are the mount's from then
// on. It returns when the mount is served again.
func TakeOver(ctx context.Context, dir string, device int, journal *handover.Journal, stores []*memory.Store, opts *Options) (*Server, error) {
	o := *opts
	notes, err := journal.Notes()
	if err != nil {
		return nil, err
	}
	in, err := readNotes(notes)
	if err != nil {
		return nil, err
	}
	if len(in.state.Applied) != len(stores) || len(in.state.Shown) != len(stores) {
		return nil, fmt.Errorf("the mount has %d stores, not %d", len(in.state.Applied), len(stores))
	}
	if in.state.Flat != o.Flat {
		return nil, fmt.Errorf("the mount is flat: %t, and is to be: %t", in.state.Flat, o.Flat)
	}
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	fs := newFileSystemFrom(life, stores, o, in.state.NextID)
	if err := fs.begin(ctx); err != nil {
		cancel()
		return nil, err
	}
	for _, s := range fs.stores {
		s.load(ctx) // all of it: what is not there now is gone
	}
	front := newFront(fs)
	front.adopt(in)
	missed, err := fs.missed(ctx, in)
	if err != nil {
		cancel()
		return nil, err
	}
	fs.keepAll(fs.adopt(in, missed))
	meter := &meter{FileSystem: front}
	server, err := fusedev.Resume(meter, device, in.greeting, mountOptions(fs))
	if err != nil {
		cancel()
		return nil, err
	}
	m := newServer(fs, meter, server, dir, cancel)
	if err := errors.Join(m.attach(), m.noteIn(journal, in.greeting, in.state.Applied)); err != nil {
		cancel()
		return nil, errors.Join(err, server.Close())
	}
	m.start()
	return m, nil
}

// Leave ends the service of a mount that has a keeper, for another process to take it over.
// Requests that came until then are answered, if that does not take long.
func (m *Server) Leave() {
	m.leaving.Store(true)
	m.server.Leave()
	endsWithin(leavePatience, m.server.AwaitAnswers)
}

// leavePatience is how long a requester waits for an answer of this process; then the next one
// answers.
const leavePatience = time.Second

// missed returns the commits, by store, that the kernel may not have been told of.
func (fs *fileSystem) missed(ctx context.Context, in *inherited) ([][]*versionlog.Commit, error) {
	missed := make([][]*versionlog.Commit, len(fs.stores))
	for i, s := range fs.stores {
		for c, err := range s.memory.Commits(ctx, in.state.Applied[i]) {
			if err != nil {
				return nil, fmt.Errorf("what has happened to store %s: %w", s.slug(), err)
			}
			if c.Seq > s.tree.Shown().Seq {
				break // which the follower brings
			}
			missed[i] = append(missed[i], c)
		}
	}
	return missed, nil
}

// adoption restores the state of a mount that is taken over from the notes of the process that served
// it before. Its steps are the methods that adopt calls, in their order.
type adoption struct {
	fs     *fileSystem
	in     *inherited
	missed [][]*versionlog.Commit // by store: commits that the kernel may not have been told of
	stages map[uint64]*stage      // by their numbers in the notes
	texts  map[*tree.Entry][]byte // the inherited text of each file that has a stage
	left   []*takenText           // texts to keep as conflicts
}

// adopt gives nodes and handles the numbers that the kernel knows them by. It returns the texts that
// no commit has.
func (fs *fileSystem) adopt(in *inherited, missed [][]*versionlog.Commit) (left []*takenText) {
	a := &adoption{fs: fs, in: in, missed: missed, stages: map[uint64]*stage{}, texts: map[*tree.Entry][]byte{}}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.nextFH = in.state.NextFH
	a.restoreReportsLocked()
	a.restoreKnownLocked()
	a.adoptNodesLocked()
	a.tellHiddenLocked()
	a.tellMissedLocked()
	a.adoptStagesLocked()
	a.adoptHandlesLocked()
	a.endUnwrittenLocked()
	return a.left
}

// restoreReportsLocked restores the errors and the taken texts that each store reports.
func (a *adoption) restoreReportsLocked() {
	for i, s := range a.fs.stores {
		s.errors.Restore(a.in.errors[i])
		for _, l := range a.in.state.Taken {
			if l.Store == s.slug() {
				s.taken = append(s.taken, l)
			}
		}
	}
}

// restoreKnownLocked restores the versions that the session knows, and follows the renames and
// removals that the mount has not shown yet.
func (a *adoption) restoreKnownLocked() {
	for of, seen := range a.in.known {
		s, moved := a.fs.storeAt(of.store), a.in.moved[of]
		if s != nil && seen != nil {
			s.noteLocked(of.path, seen.Knowledge(nil))
		}
		if s != nil && moved != nil {
			s.known.RestoreMoved(of.path, *moved)
		}
	}
	for i, s := range a.fs.stores {
		for _, c := range a.missed[i] {
			if c.Seq > a.in.state.Shown[i] {
				s.followKnownLocked(c)
			}
		}
	}
}

// adoptNodesLocked adopts each node after its parent.
func (a *adoption) adoptNodesLocked() {
	empty := a.in.empty()
	for _, note := range a.in.order() {
		if !a.fs.virtual.has(note.ID) {
			a.adoptNodeLocked(note, empty[note.ID])
		}
	}
}

// adoptNodeLocked gives the node of a note its number. An empty file is one that a process has open
// that has made or emptied it, and not written yet.
func (a *adoption) adoptNodeLocked(note *nodeNote, empty bool) {
	s := a.fs.storeAt(note.Store)
	if s == nil {
		return // the root, whose number is fixed
	}
	parent := a.fs.nodes[note.Parent]
	n := a.notedLocked(s, parent, note)
	if n == nil {
		n = s.restoreNotedLocked(parent, note, empty)
	}
	if parent != nil && parent.IsDir() && (n == nil || n.ParentLocked() == nil) {
		a.fs.notify.entryLocked(parent, note.Name)
	}
	if n == nil || n.IsDir() != isDirMode(note.Mode) {
		return
	}
	a.fs.renumberLocked(n, note.ID)
	note.restoreAttributesLocked(n)
	if !n.IsDir() {
		s.adoptHeadLocked(n, note)
	}
}

func isDirMode(mode uint32) bool { return mode&syscall.S_IFMT == syscall.S_IFDIR }

// notedLocked returns the entry that the tree has from the log at the place of a note; nil if it has
// none, or if another note has it already. The parent is adopted already.
func (a *adoption) notedLocked(s *store, parent *tree.Entry, note *nodeNote) *tree.Entry {
	switch {
	case parent == a.fs.root, note.ID == fuse.FUSE_ROOT_ID: // the latter in a flat mount
		return s.tree.Root()
	case parent == nil:
		return nil
	}
	n := parent.ChildLocked(note.Name)
	if n != nil && lookupsOf(n) > 0 {
		return nil // another note has it
	}
	return n
}

// restoreNotedLocked makes the entry of a note that the tree does not have from the log. Directories of
// the mount and empty files get their name back. A file whose version has lost its place gets no name,
// and serves the processes that have it open. The result is nil for any other note.
func (s *store) restoreNotedLocked(parent *tree.Entry, note *nodeNote, empty bool) *tree.Entry {
	isDir := isDirMode(note.Mode)
	named := note.Kept && isDir || note.Head == nil && empty && !note.Removed
	switch {
	case named && parent != nil && parent.IsDir() && !s.readOnly():
		return s.tree.RestoreLocked(parent, note.Name, note.Mode, s.fs.since)
	case note.Head != nil && !isDir:
		n := s.tree.RestoreGoneLocked(note.Mode, note.Head.Time, note.Was, note.Removed)
		n.SetHeadLocked(memory.NewHead(note.Head), note.Head.Spelling)
		return n
	}
	return nil
}

// restoreAttributesLocked gives an entry the attributes that the kernel was told. A file whose head
// has changed since keeps the times of the new head.
func (note *nodeNote) restoreAttributesLocked(n *tree.Entry) {
	n.SetModeLocked(note.Mode)
	cacheOf(n).SetBirth(note.Told)
	if n.IsDir() {
		n.SetStaysLocked(n.StaysLocked() || note.Kept)
	} else if n.HeadLocked() == nil || !n.HeadLocked().Is(note.Head) {
		return
	}
	n.SetMTimeLocked(note.MTime)
	n.SetCTimeLocked(note.CTime)
	if !note.ATime.IsZero() || !n.ATimeLocked().IsZero() {
		n.SetATimeLocked(note.ATime)
	}
}

// adoptHeadLocked makes a file stand for the version that its readers have. If the log has another
// version now, an entry of that version takes the file's place.
func (s *store) adoptHeadLocked(n *tree.Entry, note *nodeNote) {
	noted := memory.NewHead(note.Head)
	if n.HeadLocked() != nil && memory.SameVersion(n.HeadLocked(), noted) {
		noted = n.HeadLocked()
	}
	if path, ok := n.PathLocked(); ok && note.Seen != nil {
		s.noteLocked(path, note.Seen.Knowledge(noted))
	}
	switch {
	case n.ParentLocked() == nil:
	case n.IsUnloggedLocked():
	case note.Head == nil: // the log has the file that was made
		s.fs.notify.contentLocked(n)
	case noted != n.HeadLocked():
		theirs, dir, name := n.VersionLocked(), n.ParentLocked(), n.NameLocked()
		n.SetHeadLocked(noted, note.Head.Spelling)
		s.tree.SupersedeLocked(n, dir, name, theirs)
	}
}

// tellMissedLocked makes the kernel and the session follow the missed commits, which the tree shows
// already.
func (a *adoption) tellMissedLocked() {
	for i, s := range a.fs.stores {
		for _, c := range a.missed[i] {
			s.tellMissedLocked(c)
			if c.Seq > a.in.state.Shown[i] {
				s.adoptMissedLocked(c)
			}
		}
	}
}

// adoptStagesLocked restores the stages that a process can continue to write to, in their order, so
// that the newest stage of a file becomes the file's own. Each other stage answers EIO, and the
// kernel is told to read the file again.
func (a *adoption) adoptStagesLocked() {
	for _, number := range slices.Sorted(maps.Keys(a.in.stages)) {
		is := a.in.stages[number]
		n := a.adoptedForLocked(is.Node)
		if n == nil {
			continue
		}
		st := is.continuedLocked(n)
		if st != nil {
			setStageLocked(n, st)
		} else {
			st = &stage{written: written{err: syscall.EIO}}
			a.fs.notify.contentLocked(n)
		}
		a.stages[number] = st
		a.texts[n] = is.text
		if path, _ := n.TargetLocked(); is.isUnsaved() && !n.IsRemovedLocked() {
			a.left = append(a.left, &takenText{s: storeOf(n), node: n.ID(), path: path, text: is.text, again: is.State == stageToKeep})
		}
	}
}

// continuedLocked returns the stage that replaces an inherited one without a loss: it was saved, or
// its file was only made or emptied. The result is nil for any other stage.
func (is *inheritedStage) continuedLocked(n *tree.Entry) *stage {
	st := &stage{written: written{base: n.HeadLocked(), loaded: n.HeadLocked() == nil, appendOnly: true}}
	switch {
	case n.ParentLocked() == nil:
		return nil
	case is.State == stageSaved && n.HeadLocked() != nil:
		return st
	case is.State == stageDirty && len(is.text) == 0:
		st.emptyLocked()
		return st
	}
	return nil
}

// isUnsaved reports whether a stage has text that neither a commit nor a conflict has.
func (is *inheritedStage) isUnsaved() bool {
	return (is.State == stageDirty || is.State == stageToKeep) && len(is.text) > 0
}

// adoptHandlesLocked restores the handles of all open files and directories.
func (a *adoption) adoptHandlesLocked() {
	for _, note := range a.in.handles {
		if n := a.adoptedForLocked(note.Node); n != nil {
			a.adoptHandleLocked(n, note)
		}
	}
}

// endUnwrittenLocked ends the stages that no handle writes to.
func (a *adoption) endUnwrittenLocked() {
	for n := range a.texts {
		if stageOf(n) != nil && stageOf(n).writers == 0 {
			setStageLocked(n, nil)
		}
	}
}

// adoptedForLocked returns the node of a stage or a handle. If no node has its number, it makes one
// for the processes that have it open.
func (a *adoption) adoptedForLocked(id uint64) *tree.Entry {
	fs := a.fs
	if n := fs.nodes[id]; n != nil {
		return n
	}
	note := a.in.nodes[id]
	if note == nil || fs.storeAt(note.Store) == nil || isDirMode(note.Mode) || fs.virtual.has(id) {
		return nil
	}
	n := fs.stores[note.Store].tree.RestoreGoneLocked(note.Mode, fs.since, a.in.path(note), note.Removed)
	n.SetUnloggedLocked(true)
	fs.renumberLocked(n, id)
	return n
}

// path returns the path that a node had in its store; "" if it is not known.
func (in *inherited) path(note *nodeNote) string {
	var names []string
	for up := note; len(names) <= len(in.nodes); { // damaged notes may go round in circles
		if up.ID == fuse.FUSE_ROOT_ID || up.Parent == fuse.FUSE_ROOT_ID && !in.state.Flat { // the store's root
			return "/" + strings.Join(names, "/")
		}
		names = append([]string{up.Name}, names...)
		if up = in.nodes[up.Parent]; up == nil {
			return note.Was
		}
	}
	return ""
}

// adoptHandleLocked restores a handle of an open file or directory. A handle of a file that is in no
// version reads the inherited text.
func (a *adoption) adoptHandleLocked(n *tree.Entry, note *handleNote) {
	h := &handle{node: n, failed: note.Failed, undone: note.Undone}
	if n.IsUnloggedLocked() && !n.HasNameLocked() {
		h.text = append([]byte{}, a.texts[n]...)
	}
	if note.Stage != 0 {
		if h.stage = a.stages[note.Stage]; h.stage == nil {
			h.stage = &stage{written: written{err: syscall.EIO}}
		}
		h.stage.writers++
		a.fs.accountStageLocked(n, h.stage)
		cacheOf(n).Write()
	}
	a.fs.enterLocked(note.FH, h)
}

// tellMissedLocked tells the kernel of a commit that the tree shows already.
func (s *store) tellMissedLocked(c *versionlog.Commit) {
	for _, v := range c.Versions {
		for _, path := range []string{v.Path, v.From} {
			if path != "" {
				s.tellPathLocked(path)
			}
		}
	}
}

// tellHiddenLocked makes the kernel look up again each memory that was hidden, and has its own name now.
func (a *adoption) tellHiddenLocked() {
	for _, note := range a.in.nodes {
		if s := a.fs.storeAt(note.Store); s != nil && note.Head != nil && note.Parent != 0 && a.in.path(note) != note.Head.Path {
			s.tellPathLocked(note.Head.Path)
		}
	}
}

// tellPathLocked makes the kernel look up all names of a path again, and the file there.
func (s *store) tellPathLocked(path string) {
	n := s.tree.Root()
	for name := range strings.SplitSeq(path[1:], "/") {
		if n == nil || !n.IsDir() {
			return
		}
		s.fs.notify.entryLocked(n, name)
		n = n.ChildLocked(name)
	}
	if n != nil && !n.IsDir() {
		s.fs.notify.contentLocked(n)
	}
}
