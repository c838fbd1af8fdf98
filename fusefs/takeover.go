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

	"mneme/fusefs/kernelcache"
	"mneme/fusefs/tree"
	"mneme/internal/fusedev"
	"mneme/internal/handover"
	"mneme/memory"
	"mneme/versionlog"
)

// To take a mount over is to mount the stores anew, where the kernel has been told
// something before. So the tree is made as by any mount, of what the log has; then
// each node that the kernel knows gets its number back, in this order:
//
//  1. A directory, or a file that has the version that it had, goes on.
//  2. Where the log has another version by now, the node stands for the one that its
//     readers have, and the new one takes its place, as if the change had come while
//     the mount was served (tree.SupersedeLocked).
//  3. What has no place any more is there for those who have it open.
//
// Then the kernel is told of what was committed since it last was. Who was writing
// what is in no version gets EIO from then on, and the text is kept as a conflict.

// manyLookups is how many references the kernel is taken to have to a node that was
// taken over: how many of the answers that gave it one it has got is not known. Such
// a node stays until the mount ends. So does the root of a flat mount.
const manyLookups = 1 << 40

// Journal is where the mount notes what another process needs to go on, if the mount
// has a keeper.
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

// TakeOver goes on with a mount at dir that another process has served until its
// end, with the same stores, in the same order, and the same options. device and
// journal are the mount's from then on. It returns when the mount is served again.
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

// Leave ends the service of a mount that has a keeper, for another process to take
// it over. What was asked until then is answered, if that does not take long.
func (m *Server) Leave() {
	m.leaving.Store(true)
	m.server.Leave()
	endsWithin(leavePatience, m.server.AwaitAnswers)
}

// leavePatience is how long who waits for an answer waits for this process; then the
// next one answers.
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

// adopt gives nodes and handles the numbers that the kernel knows them by.
func (fs *fileSystem) adopt(in *inherited, missed [][]*versionlog.Commit) (left []*takenText) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.nextFH = in.state.NextFH
	for i, s := range fs.stores {
		s.errors.Restore(in.errors[i])
		for _, l := range in.state.Taken {
			if l.Store == s.slug() {
				s.taken = append(s.taken, l)
			}
		}
	}
	for of, seen := range in.known {
		s, moved := fs.storeAt(of.store), in.moved[of]
		if s != nil && seen != nil {
			s.noteLocked(of.path, seen.Knowledge(nil))
		}
		if s != nil && moved != nil {
			s.known.RestoreMoved(of.path, *moved)
		}
	}
	for i, s := range fs.stores {
		for _, c := range missed[i] {
			if c.Seq > in.state.Shown[i] {
				s.followKnownLocked(c)
			}
		}
	}
	empty := in.empty()
	for _, note := range in.order() {
		if !fs.virtual.has(note.ID) {
			fs.adoptNodeLocked(note, empty[note.ID])
		}
	}
	fs.tellHiddenLocked(in)
	for i, s := range fs.stores {
		for _, c := range missed[i] {
			s.tellMissedLocked(c)
			if c.Seq > in.state.Shown[i] {
				s.adoptMissedLocked(c)
			}
		}
	}
	stages, texts := map[uint64]*stage{}, map[*tree.Entry][]byte{}
	for _, number := range slices.Sorted(maps.Keys(in.stages)) { // the newest of a file is its own
		is := in.stages[number]
		n := fs.adoptedForLocked(in, is.Node)
		if n == nil {
			continue
		}
		st := &stage{written: written{base: n.HeadLocked(), loaded: n.HeadLocked() == nil, appendOnly: true}}
		switch {
		case is.State == stageSaved && n.ParentLocked() != nil && n.HeadLocked() != nil:
			setStageLocked(n, st)
		case is.State == stageDirty && len(is.text) == 0 && n.ParentLocked() != nil: // it was made, or emptied
			st.emptyLocked()
			setStageLocked(n, st)
		default:
			st = &stage{written: written{err: syscall.EIO}}
			fs.notify.contentLocked(n)
		}
		stages[number] = st
		texts[n] = is.text
		unsaved := is.State == stageDirty || is.State == stageToKeep
		if path, _ := n.TargetLocked(); unsaved && len(is.text) > 0 && !n.IsRemovedLocked() {
			left = append(left, &takenText{s: storeOf(n), node: n.ID(), path: path, text: is.text, again: is.State == stageToKeep})
		}
	}
	for _, note := range in.handles {
		if n := fs.adoptedForLocked(in, note.Node); n != nil {
			fs.adoptHandleLocked(n, note, stages, texts[n])
		}
	}
	for n := range texts {
		if stageOf(n) != nil && stageOf(n).writers == 0 { // nobody writes to it any more
			setStageLocked(n, nil)
		}
	}
	return left
}

func (fs *fileSystem) storeAt(i int) *store {
	if i < 0 || i >= len(fs.stores) {
		return nil
	}
	return fs.stores[i]
}

// adoptNodeLocked gives the node that a note is of its number. An empty file is one that
// somebody has open who has made or emptied it, and not written yet.
func (fs *fileSystem) adoptNodeLocked(note *nodeNote, empty bool) {
	s := fs.storeAt(note.Store)
	if s == nil {
		return // the root, whose number is fixed
	}
	parent := fs.nodes[note.Parent]
	n := fs.notedLocked(s, parent, note)
	switch {
	case n == nil && parent != nil && parent.IsDir() && note.Kept && isDirMode(note.Mode) && !s.readOnly():
		n = s.tree.RestoreLocked(parent, note.Name, note.Mode, fs.since)
	case n == nil && parent != nil && parent.IsDir() && note.Head == nil && empty && !note.Removed && !s.readOnly():
		n = s.tree.RestoreLocked(parent, note.Name, note.Mode, fs.since)
	case n == nil && note.Head != nil && !isDirMode(note.Mode):
		n = s.tree.RestoreGoneLocked(note.Mode, note.Head.Time, note.Was, note.Removed)
		n.SetHeadLocked(memory.NewHead(note.Head), note.Head.Spelling)
	}
	if parent != nil && parent.IsDir() && (n == nil || n.ParentLocked() == nil) {
		fs.notify.entryLocked(parent, note.Name)
	}
	if n == nil || n.IsDir() != isDirMode(note.Mode) {
		return
	}
	fs.renumberLocked(n, note.ID)
	n.SetModeLocked(note.Mode)
	cacheOf(n).SetBirth(note.Told)
	if n.IsDir() {
		n.SetStaysLocked(n.StaysLocked() || note.Kept)
	}
	if n.IsDir() || n.HeadLocked() != nil && n.HeadLocked().Is(note.Head) {
		n.SetMTimeLocked(note.MTime)
		n.SetCTimeLocked(note.CTime)
		if !note.ATime.IsZero() || !n.ATimeLocked().IsZero() {
			n.SetATimeLocked(note.ATime)
		}
	}
	if n.IsDir() {
		return
	}
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
	case note.Head == nil: // what was made is in the log by now
		fs.notify.contentLocked(n)
	case noted != n.HeadLocked():
		theirs, dir, name := n.VersionLocked(), n.ParentLocked(), n.NameLocked()
		n.SetHeadLocked(noted, note.Head.Spelling)
		s.tree.SupersedeLocked(n, dir, name, theirs)
	}
}

func isDirMode(mode uint32) bool { return mode&syscall.S_IFMT == syscall.S_IFDIR }

// notedLocked returns what the tree has of the log at the place of a note, in a parent
// that was adopted; nil: nothing.
func (fs *fileSystem) notedLocked(s *store, parent *tree.Entry, note *nodeNote) *tree.Entry {
	switch {
	case parent == fs.root, note.ID == fuse.FUSE_ROOT_ID: // the latter in a flat mount
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

// adoptedForLocked returns the node of a stage or a handle, made where there is none: for
// those who have it open.
func (fs *fileSystem) adoptedForLocked(in *inherited, id uint64) *tree.Entry {
	if n := fs.nodes[id]; n != nil {
		return n
	}
	note := in.nodes[id]
	if note == nil || fs.storeAt(note.Store) == nil || isDirMode(note.Mode) || fs.virtual.has(id) {
		return nil
	}
	n := fs.stores[note.Store].tree.RestoreGoneLocked(note.Mode, fs.since, in.path(note), note.Removed)
	n.SetUnloggedLocked(true)
	fs.renumberLocked(n, id)
	return n
}

// renumberLocked gives n the number that the kernel knows it by.
func (fs *fileSystem) renumberLocked(n *tree.Entry, id uint64) {
	delete(fs.nodes, n.ID())
	n.RenumberLocked(id)
	cacheOf(n).Lookups, cacheOf(n).Looked = manyLookups, kernelcache.Now()
	n.SetLengthToldLocked(true)
	fs.nodes[id] = n
}

// path returns where a node was in its store; "" where that is not known.
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

// adoptHandleLocked gives who has a file or directory open its handle back. Of a file
// that is in no version it reads text.
func (fs *fileSystem) adoptHandleLocked(n *tree.Entry, note *handleNote, stages map[uint64]*stage, text []byte) {
	h := &handle{node: n, failed: note.Failed, undone: note.Undone}
	if n.IsUnloggedLocked() && !n.HasNameLocked() {
		h.text = append([]byte{}, text...)
	}
	if note.Stage != 0 {
		if h.stage = stages[note.Stage]; h.stage == nil {
			h.stage = &stage{written: written{err: syscall.EIO}}
		}
		h.stage.writers++
		fs.accountStageLocked(n, h.stage)
		cacheOf(n).Write()
	}
	fs.enterLocked(note.FH, h)
}

// tellMissedLocked has the kernel told of a commit, which the tree shows already.
func (s *store) tellMissedLocked(c *versionlog.Commit) {
	for _, v := range c.Versions {
		for _, path := range []string{v.Path, v.From} {
			if path != "" {
				s.tellPathLocked(path)
			}
		}
	}
}

// tellHiddenLocked has the kernel look up again what was hidden, and has its own name now.
func (fs *fileSystem) tellHiddenLocked(in *inherited) {
	for _, note := range in.nodes {
		if s := fs.storeAt(note.Store); s != nil && note.Head != nil && note.Parent != 0 && in.path(note) != note.Head.Path {
			s.tellPathLocked(note.Head.Path)
		}
	}
}

// tellPathLocked has the kernel look up all names of a path again, and what is there.
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
