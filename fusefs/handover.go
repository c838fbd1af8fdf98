package fusefs

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"path"
	"slices"
	"syscall"
	"time"

	"mneme/fusefs/tree"
	"mneme/internal/handover"
	"mneme/session"
	"mneme/versionlog"
)

// Another process can continue a mount with a journal when this one is killed (takeover.go). For
// that the journal must say, before each answer, what the kernel holds of the mount and the log
// does not: which nodes the kernel knows and where they lie, which files are open, which bytes
// were written to them and are in no version yet, and what the session knows. Requests mark their
// changes; the goroutine that is about to send an answer notes all that is marked (handing.note).
// The kernel has not been told anything that has not been noted. A note of something that the
// kernel was not told does no harm: a node that no request names, a handle that no program
// closes.

// The kinds of notes: the first byte of each.
const (
	noteGreeting = 'i' // how the kernel and the mount agreed on the protocol, once
	noteState    = 's' // stateNote
	noteNode     = 'n' // nodeNote, which replaces the node's earlier one
	noteGone     = 'g' // a node that is no longer known
	noteHandle   = 'h' // handleNote
	noteClosed   = 'c' // a handle
	noteKnown    = 'l' // knownNote, which replaces the path's earlier one
	noteErrors   = 'r' // errorsNote, which replaces the store's earlier one
	noteStage    = 'e' // stageNote, which replaces the stage's earlier one
	noteText     = 't' // a stage, and all bytes of it
	noteWrite    = 'w' // a stage, an offset, and the bytes that were written there
)

// stateNote is what concerns all nodes.
type stateNote struct {
	Applied []uint64 // by store: every commit up to there the kernel knows of
	Shown   []uint64 // by store: every commit up to there the tree showed, which may be more
	NextID  uint64   // no node has that number, nor a higher one
	NextFH  uint64   // nor a handle
	Pinned  []uint64 `json:",omitempty"` // by store: the commit as of which packs show it; 0: none
	Taken   []Left   `json:",omitempty"` // the texts that the processes which took the mount over have kept
	Flat    bool     `json:",omitempty"` // Options.Flat
}

// errorsNote is what .mneme/errors of a store says.
type errorsNote struct {
	Store  int
	Errors []session.JournalEntry
}

// nodeNote is a node.
type nodeNote struct {
	ID      uint64
	Parent  uint64 `json:",omitempty"` // 0: it no longer has a name
	Name    string `json:",omitempty"`
	Mode    uint32 `json:",omitempty"`
	Store   int    `json:",omitempty"` // which of the mount's; -1: none
	Kept    bool   `json:",omitempty"`
	Removed bool   `json:",omitempty"`
	Was     string `json:",omitempty"`
	MTime   time.Time
	CTime   time.Time
	ATime   time.Time           `json:",omitzero"`
	Told    int64               `json:",omitempty"` // see birth.go
	Head    *versionlog.Version `json:",omitempty"`
	Seen    *session.State      `json:",omitempty"`
}

// handleNote is an open file or directory.
type handleNote struct {
	FH, Node uint64
	Stage    uint64        `json:",omitempty"` // 0: it cannot write
	Failed   syscall.Errno `json:",omitempty"` // handle.failed
	Undone   bool          `json:",omitempty"` // handle.undone
}

// knownNote is what the session knows of a path; nil: nothing.
type knownNote struct {
	Store int
	Path  string
	Seen  *session.State
	Moved *session.MovedState `json:",omitempty"` // what the session has moved away from it unread
}

// stageNote is how a stage is.
type stageNote struct {
	Stage, Node uint64
	State       stageState
}

type stageState int

const (
	stageSaved  stageState = iota // there is nothing in it that is in no version
	stageDirty                    // there is, as noted
	stageDead                     // what is written to it is refused
	stageToKeep                   // it was dirty, and is being kept since the mount was taken over
)

// handing is the set of things that must be noted. Its fields are guarded by fileSystem.mu.
type handing struct {
	fs       *fileSystem
	journal  *handover.Journal
	batch    handover.Batch
	greeting []byte

	nodes        map[*tree.Entry]bool      // marked
	noted        map[*tree.Entry]bool      // the journal has them
	stages       map[*stage]*stagedHanding // that may be written to, or hold what is in no version
	known        map[knownPath]bool        // marked
	errors       map[*store]int64          // the changes of .mneme/errors that are noted
	virtual      map[uint64]bool           // marked numbers of nodes below .mneme
	notedVirtual map[uint64]bool           // likewise, the journal has them
	last         stateNote
	stage        uint64 // the newest number of a stage
}

// unknownChanges are those of no stage: all of it must be noted.
const unknownChanges = math.MaxUint64

// stagedHanding is what the journal has of a stage.
type stagedHanding struct {
	node    *tree.Entry
	number  uint64
	state   stageState
	changes uint64 // of the stage; what it held then is noted if it was dirty
}

// newHanding begins to note a mount in a journal. The kernel has been told of all
// commits up to applied; nil: of all that the tree shows.
func newHanding(fs *fileSystem, journal *handover.Journal, greeting []byte, applied []uint64) *handing {
	return &handing{
		fs: fs, journal: journal, greeting: greeting, last: stateNote{Applied: applied},
		nodes: map[*tree.Entry]bool{}, noted: map[*tree.Entry]bool{}, stages: map[*stage]*stagedHanding{},
		errors: map[*store]int64{}, known: map[knownPath]bool{}, virtual: map[uint64]bool{}, notedVirtual: map[uint64]bool{},
	}
}

// markLocked notes that n has changed.
func markLocked(n *tree.Entry) {
	if storeOf(n) != nil && storeOf(n).fs.handing != nil {
		storeOf(n).fs.handing.nodes[n] = true
	}
}

// markKnownLocked notes that what the session knows of a path has changed.
func (s *store) markKnownLocked(path string) {
	if h := s.fs.handing; h != nil {
		h.known[knownPath{h.index(s), path}] = true
	}
}

// noteKnown notes what the session knows of each path of which that has changed.
func (h *handing) noteKnown() {
	for of := range h.known {
		delete(h.known, of)
		knows := h.fs.stores[of.store].known
		note := knownNote{Store: of.store, Path: of.path, Moved: knows.MovedState(of.path)}
		if known := knows.Of(of.path); known != (session.Knowledge{}) {
			note.Seen = known.State(nil)
		}
		h.json(noteKnown, note)
	}
}

// noteHandleLocked notes a handle that is new, or through which a write has failed.
func (h *handing) noteHandleLocked(fh uint64, of *handle) {
	if h == nil {
		return
	}
	h.nodes[of.node] = true
	note := handleNote{FH: fh, Node: of.node.ID(), Failed: of.failed, Undone: of.undone}
	if of.stage != nil {
		note.Stage = h.stagedLocked(of.node, of.stage).number
	}
	h.json(noteHandle, note)
}

// closedLocked notes the end of a handle.
func (h *handing) closedLocked(fh uint64) {
	if h != nil {
		h.batch.Add([]byte{noteClosed}, number(fh))
	}
}

// stagedLocked returns what is known of a stage of n.
func (h *handing) stagedLocked(n *tree.Entry, st *stage) *stagedHanding {
	sh := h.stages[st]
	if sh == nil {
		h.stage++
		sh = &stagedHanding{node: n, number: h.stage}
		h.stages[st] = sh
		h.noteStage(sh.number, n.ID(), stageSaved)
	}
	return sh
}

// wroteLocked notes what was just written to a stage, whose changes were those before.
func (h *handing) wroteLocked(st *stage, before uint64, at int64, data [][]byte) {
	if h == nil {
		return
	}
	sh := h.stages[st]
	if sh == nil || sh.state != stageDirty || sh.changes != before {
		return // note notes all of it
	}
	h.batch.Add(append([][]byte{{noteWrite}, number(sh.number), number(uint64(at))}, data...)...)
	sh.changes = st.changes
}

// rebasedLocked notes that all bytes of a stage are others.
func (h *handing) rebasedLocked(st *stage) {
	if h != nil && h.stages[st] != nil {
		h.stages[st].changes = unknownChanges
	}
}

// keptTextLocked notes that a text is kept that was taken over.
func (h *handing) keptTextLocked(l *takenText) {
	if h != nil && l.number != 0 {
		h.noteStage(l.number, l.node, stageDead)
	}
}

// note notes what is marked, before an answer is sent.
func (h *handing) note() {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	h.noteAllLocked(h.journal.Long)
}

// forgetErased leaves nothing in the journal but the current state.
func (fs *fileSystem) forgetErased() {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.handing != nil {
		fs.handing.noteAllLocked(func() bool { return true })
	}
}

// noteAllLocked is note where fs.mu is held already. It then rewrites the journal if its argument
// says so.
func (h *handing) noteAllLocked(anew func() bool) {
	h.noteNodesLocked()
	h.noteKnown()
	h.noteVirtualLocked()
	h.noteStagesLocked()
	h.noteErrors()
	if state := h.stateLocked(); !h.batch.Empty() || !equalState(state, h.last) {
		h.json(noteState, state)
		h.last = state
	}
	err := h.journal.Append(&h.batch)
	if err == nil && anew() {
		err = h.rewriteLocked()
	}
	if err != nil { // no process may continue a mount from notes that are not whole
		h.fs.log.Error("should this daemon be killed, the mount ends", "err", err)
		h.journal.Spoil()
		h.fs.handing = nil
	}
}

func equalState(a, b stateNote) bool {
	return a.NextID == b.NextID && a.NextFH == b.NextFH && slices.Equal(a.Applied, b.Applied) && slices.Equal(a.Shown, b.Shown) && slices.Equal(a.Pinned, b.Pinned) && len(a.Taken) == len(b.Taken)
}

// stateLocked returns the state that concerns all nodes. The kernel has been told everything that
// the tree shows once it has taken in all notices.
func (h *handing) stateLocked() stateNote {
	state := stateNote{
		NextID: h.fs.ids.Peek(), NextFH: h.fs.nextFH, Applied: h.last.Applied, Flat: h.fs.opts.Flat,
		Shown: make([]uint64, len(h.fs.stores)), Pinned: make([]uint64, len(h.fs.stores)),
	}
	for i, s := range h.fs.stores {
		state.Shown[i], state.Pinned[i] = s.tree.AppliedLocked(), s.pinned.Load()
		state.Taken = append(state.Taken, s.taken...)
	}
	if state.Applied == nil || h.fs.notify.Idle() {
		state.Applied = state.Shown
	}
	return state
}

func (h *handing) noteNodesLocked() {
	for n := range h.nodes {
		delete(h.nodes, n)
		switch {
		case h.fs.nodes[n.ID()] != n:
			if h.noted[n] {
				delete(h.noted, n)
				h.batch.Add([]byte{noteGone}, number(n.ID()))
			}
		case h.noted[n] || lookupsOf(n) > 0 || opensOf(n) > 0 || stageOf(n) != nil:
			h.noteNodeLocked(n)
		}
	}
}

// noteNodeLocked notes a node, and those above it that the journal does not have.
func (h *handing) noteNodeLocked(n *tree.Entry) {
	up := n.ParentLocked()
	if up != nil && h.fs.nodes[up.ID()] != up { // it has been removed, with all that was in it
		up = nil
	}
	if up != nil && storeOf(up) != nil && !h.noted[up] {
		h.noteNodeLocked(up)
	}
	h.noted[n] = true
	note := nodeNote{
		ID: n.ID(), Mode: n.ModeLocked(), Store: h.index(storeOf(n)), Kept: n.StaysLocked(), Removed: n.IsRemovedLocked(), Was: n.LastPathLocked(),
		MTime: n.MTimeLocked(), CTime: n.CTimeLocked(), ATime: n.ATimeLocked(), Told: inodeOf(n).cache.Birth(),
	}
	if n.HeadLocked() != nil {
		v := n.VersionLocked()
		note.Head = &v
	}
	if up != nil {
		note.Parent, note.Name = up.ID(), n.NameLocked()
	}
	h.json(noteNode, note)
}

// markVirtualLocked notes that the kernel has come to know v, or has forgotten it.
func (h *handing) markVirtualLocked(v *virtualInode) {
	if h != nil {
		h.virtual[v.id] = true
	}
}

// openedVirtualLocked notes a new handle.
func (h *handing) openedVirtualLocked(fh uint64, of *virtualInode) {
	if h != nil {
		h.virtual[of.id] = true
		h.json(noteHandle, handleNote{FH: fh, Node: of.id})
	}
}

// noteVirtualLocked notes which nodes below .mneme the kernel knows.
func (h *handing) noteVirtualLocked() {
	for id := range h.virtual {
		delete(h.virtual, id)
		switch v := h.fs.virtual.inodes[id]; {
		case v != nil:
			h.notedVirtual[id] = true
			h.noteVirtualNodeLocked(v)
		case h.notedVirtual[id]:
			delete(h.notedVirtual, id)
			h.batch.Add([]byte{noteGone}, number(id))
		}
	}
}

// noteVirtualNodeLocked notes v, which is below .mneme, as a file of its directory: 0 where the
// kernel does not know that.
func (h *handing) noteVirtualNodeLocked(v *virtualInode) {
	note := nodeNote{ID: v.id, Name: path.Base(v.at.path), Mode: v.node.Mode()}
	note.Store = slices.IndexFunc(h.fs.stores, func(s *store) bool { return s.id() == v.at.store })
	up := path.Dir(v.at.path)
	if up == "/" {
		root := h.fs.stores[note.Store].tree.Root()
		if !h.noted[root] {
			h.noteNodeLocked(root)
		}
		note.Parent = root.ID()
	} else if dir := h.fs.virtual.places[virtualPlace{v.at.store, up}]; dir != nil {
		note.Parent = dir.id
	}
	h.json(noteNode, note)
}

// noteStagesLocked notes what has become of the stages.
func (h *handing) noteStagesLocked() {
	for st, sh := range h.stages {
		state := stageSaved
		switch {
		case st.err != 0 || st.overtaken && st.isKeptLocked():
			state = stageDead
		case beyondLocked(sh.node, st):
			state = stageDead
		case st.dirty && !sh.node.LatestLocked().IsRemovedLocked():
			state = stageDirty
		case st.overtaken:
			state = stageDead
		}
		if state == stageDirty && (sh.state != stageDirty || sh.changes != st.changes) {
			h.batch.Add([]byte{noteText}, number(sh.number), st.data)
			sh.changes = st.changes
		}
		if state != sh.state {
			sh.state = state
			h.noteStage(sh.number, sh.node.ID(), state)
		}
		if st.writers == 0 && (state != stageDirty || stageOf(sh.node) != st) {
			if state == stageDirty {
				h.noteStage(sh.number, sh.node.ID(), stageDead)
			}
			delete(h.stages, st)
		}
	}
}

func (h *handing) noteStage(number, node uint64, state stageState) {
	h.json(noteStage, stageNote{Stage: number, Node: node, State: state})
}

// noteErrors notes what .mneme/errors says where that has changed.
func (h *handing) noteErrors() {
	for i, s := range h.fs.stores {
		if now := s.errors.Changes(); now != h.errors[s] {
			h.errors[s] = now
			h.json(noteErrors, errorsNote{i, s.errors.Entries()})
		}
	}
}

// rewriteLocked notes the whole state, in place of all notes.
func (h *handing) rewriteLocked() error {
	h.batch.Reset()
	h.batch.Add([]byte{noteGreeting}, h.greeting)
	h.last = h.stateLocked()
	h.json(noteState, h.last)
	clear(h.noted)
	for _, n := range h.fs.nodes {
		h.nodes[n] = true
	}
	h.noteNodesLocked()
	clear(h.notedVirtual)
	for id := range h.fs.virtual.inodes {
		h.virtual[id] = true
	}
	h.noteVirtualLocked()
	for _, s := range h.fs.stores {
		for path := range s.known.All() {
			s.markKnownLocked(path)
		}
		for path := range s.known.AllMoved() {
			s.markKnownLocked(path)
		}
	}
	h.noteKnown()
	for _, l := range h.fs.toKeep {
		h.stage++
		l.number = h.stage
		h.noteStage(l.number, l.node, stageToKeep)
		h.batch.Add([]byte{noteText}, number(l.number), l.text)
	}
	for _, sh := range h.stages {
		sh.state = stageSaved
		h.noteStage(sh.number, sh.node.ID(), stageSaved)
	}
	h.noteStagesLocked()
	for fh, of := range h.fs.handles {
		h.noteHandleLocked(fh, of)
	}
	for fh, of := range h.fs.virtual.handles {
		h.openedVirtualLocked(fh, of.inode)
	}
	h.noteStagesLocked() // of handles whose stages were not known
	clear(h.errors)
	h.noteErrors()
	return h.journal.Rewrite(&h.batch)
}

// json adds a note. The values are plain data, which can always be written.
func (h *handing) json(kind byte, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("note of kind %c: %v", kind, err))
	}
	h.batch.Add([]byte{kind}, text)
}

// index is which of the mount's stores s is; -1: none.
func (h *handing) index(s *store) int { return slices.Index(h.fs.stores, s) }

func number(n uint64) []byte { return binary.LittleEndian.AppendUint64(nil, n) }
