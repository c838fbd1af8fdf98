package session

import (
	"mneme/memory"
	"mneme/versionlog"
)

// State is Knowledge as plain data, for a face that hands a session on to another
// process, which may be of an older or newer build: the names in JSON stay.
type State struct {
	Known   bool                `json:",omitempty"`
	IsHead  bool                `json:",omitempty"` // the version is the head of the file that the state is of
	Head    *versionlog.Version `json:"Version,omitempty"`
	Changes []ChangeState       `json:"Steps,omitempty"`
	Refused bool                `json:",omitempty"`
	Meant   bool                `json:"Again,omitempty"`
	OwnTop  string              `json:"Own,omitempty"`
	Length  int64               `json:"Told,omitempty"`
}

// ChangeState is a Change as plain data.
type ChangeState struct {
	From  *versionlog.Version `json:",omitempty"`
	Known bool                `json:",omitempty"`
	To    *versionlog.Version
	Cut   int64 `json:",omitempty"`
}

// MovedState is a memory that a session has moved without having read it, as plain data.
type MovedState struct {
	At, Memory string // where it is now, and its id
	Seq        uint64 // of the commit that moved it
}

// MovedState returns what was moved away from a path unread; nil: nothing.
func (k *Known) MovedState(path string) *MovedState {
	k.mu.Lock()
	defer k.mu.Unlock()
	was := k.moved[path]
	if was.at == "" {
		return nil
	}
	return &MovedState{At: was.at, Memory: was.memory, Seq: was.seq}
}

// RestoreMoved notes what another process knew to have been moved away from a path unread.
func (k *Known) RestoreMoved(path string, st MovedState) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.setMovedLocked(path, movedUnread{at: st.At, memory: st.Memory, seq: st.Seq})
}

// State returns k as plain data. A version that is head is noted in less room.
func (k Knowledge) State(head *memory.Head) *State {
	st := &State{Known: k.known, Refused: k.refused, Meant: k.meant, OwnTop: k.ownTop(), Length: k.length()}
	if st.IsHead = k.head != nil && k.head == head; !st.IsHead {
		st.Head = k.head.Version()
	}
	for _, one := range k.Changes() {
		st.Changes = append(st.Changes, ChangeState{From: one.From.Version(), Known: one.Known, To: one.To.Version(), Cut: one.Cut})
	}
	return st
}

// Knowledge returns what st is the state of, for the same head. A nil State is that
// nothing is known.
func (st *State) Knowledge(head *memory.Head) Knowledge {
	if st == nil {
		return Knowledge{}
	}
	k := Knowledge{head: memory.NewHead(st.Head), known: st.Known, refused: st.Refused, meant: st.Meant}
	if st.IsHead {
		k.head = head
	}
	more := details{ownTop: st.OwnTop, length: st.Length}
	for _, one := range st.Changes {
		more.changes = append(more.changes, Change{From: memory.NewHead(one.From), Known: one.Known, To: memory.NewHead(one.To), Cut: one.Cut})
	}
	k.more = newDetails(more)
	return k
}
