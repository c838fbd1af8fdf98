package fusefs

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"mneme/session"
)

// inherited is what a journal says of the mount that another process has served.
type inherited struct {
	greeting []byte
	state    stateNote
	nodes    map[uint64]*nodeNote
	handles  map[uint64]*handleNote
	known    map[knownPath]*session.State
	moved    map[knownPath]*session.MovedState
	stages   map[uint64]*inheritedStage
	errors   map[int][]session.JournalEntry
}

type knownPath struct {
	store int
	path  string
}

type inheritedStage struct {
	stageNote
	text []byte // of one that is dirty
}

var errNote = errors.New("a note of the handover is not one that this version of mneme writes")

// readNotes reads the notes of a mount, oldest first.
func readNotes(notes [][]byte) (*inherited, error) {
	in := &inherited{
		nodes: map[uint64]*nodeNote{}, handles: map[uint64]*handleNote{},
		known: map[knownPath]*session.State{}, moved: map[knownPath]*session.MovedState{}, stages: map[uint64]*inheritedStage{},
		errors: map[int][]session.JournalEntry{},
	}
	for _, note := range notes {
		if len(note) == 0 {
			return nil, errNote
		}
		if err := in.read(note[0], note[1:]); err != nil {
			return nil, fmt.Errorf("%w: kind %q: %w", errNote, note[0], err)
		}
	}
	if in.greeting == nil || in.state.NextID == 0 {
		return nil, fmt.Errorf("%w: they do not say how they begin", errNote)
	}
	return in, nil
}

func (in *inherited) read(kind byte, rest []byte) error {
	switch kind {
	case noteGreeting:
		in.greeting = rest
	case noteState:
		in.state = stateNote{}
		return json.Unmarshal(rest, &in.state)
	case noteNode:
		var n nodeNote
		err := json.Unmarshal(rest, &n)
		in.nodes[n.ID] = &n
		return err
	case noteHandle:
		var h handleNote
		err := json.Unmarshal(rest, &h)
		in.handles[h.FH] = &h
		return err
	case noteKnown:
		var l knownNote
		err := json.Unmarshal(rest, &l)
		of := knownPath{l.Store, l.Path}
		in.known[of], in.moved[of] = l.Seen, l.Moved
		return err
	case noteErrors:
		var e errorsNote
		err := json.Unmarshal(rest, &e)
		in.errors[e.Store] = e.Errors
		return err
	case noteStage:
		var s stageNote
		err := json.Unmarshal(rest, &s)
		in.stage(s.Stage).stageNote = s
		return err
	case noteGone, noteClosed, noteText, noteWrite:
		return in.readNumbered(kind, rest)
	default:
		return errors.New("there is none")
	}
	return nil
}

// readNumbered reads a note that begins with a number.
func (in *inherited) readNumbered(kind byte, rest []byte) error {
	if len(rest) < 8 {
		return errors.New("it is too short")
	}
	id, rest := binary.LittleEndian.Uint64(rest), rest[8:]
	switch kind {
	case noteGone:
		delete(in.nodes, id)
	case noteClosed:
		delete(in.handles, id)
	case noteText:
		in.stage(id).text = rest
	case noteWrite:
		return in.stage(id).write(rest)
	}
	return nil
}

func (in *inherited) stage(number uint64) *inheritedStage {
	if in.stages[number] == nil {
		in.stages[number] = &inheritedStage{}
	}
	return in.stages[number]
}

// write brings a write into the text: its offset, and the bytes.
func (s *inheritedStage) write(rest []byte) error {
	if len(rest) < 8 {
		return errors.New("it is too short")
	}
	at, data := binary.LittleEndian.Uint64(rest), rest[8:]
	if at > maxScratchBytes {
		return fmt.Errorf("it is of byte %d", at)
	}
	if end := int(at) + len(data); end > len(s.text) {
		s.text = append(s.text, make([]byte, end-len(s.text))...)
	}
	copy(s.text[at:], data)
	return nil
}

// empty returns the files that were made or emptied and not written to since.
func (in *inherited) empty() map[uint64]bool {
	empty := map[uint64]bool{}
	for _, s := range in.stages {
		if s.State == stageDirty && len(s.text) == 0 {
			empty[s.Node] = true
		}
	}
	return empty
}

// order returns the nodes, each after its parent.
func (in *inherited) order() []*nodeNote {
	var ordered []*nodeNote
	done := map[uint64]bool{}
	var visit func(n *nodeNote)
	visit = func(n *nodeNote) {
		if n == nil || done[n.ID] {
			return
		}
		done[n.ID] = true
		visit(in.nodes[n.Parent])
		ordered = append(ordered, n)
	}
	ids := make([]uint64, 0, len(in.nodes))
	for id := range in.nodes {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		visit(in.nodes[id])
	}
	return ordered
}
