package memory_test

import (
	"errors"
	"fmt"
	"maps"
	"time"

	"mneme/cas"
	"mneme/versionlog"
	"mneme/versionlog/logtest"

	"github.com/anishathalye/porcupine"
)

// storeCall is a call of a memory.Store and how it ended, as its caller saw it.
type storeCall struct {
	kind    callKind
	path    string       // read, append
	text    string       // append
	changes []callChange // batch

	invoked, replied time.Duration

	outcome   callOutcome
	seq       uint64               // batch, append, tip
	versions  []versionlog.Version // batch; read and append: one
	content   string               // read
	conflicts map[string]string    // version id of the head by path, "" for none
}

type callKind int

const (
	callRead callKind = iota
	callBatch
	callAppend // read, add to it, write under the version read, until that succeeds
	callTip
)

// callOutcome is "" for well; else one of these, or the text of an error that
// no call may end with.
type callOutcome string

const (
	conflicted callOutcome = "conflict"
	notFound   callOutcome = "not found"
)

type callChange struct {
	action  versionlog.Action
	path    string
	to      string
	text    string
	expect  callExpect
	version string // expectThis
}

type callExpect int

const (
	expectNone callExpect = iota
	expectAbsence
	expectPresence
	expectThis
)

func (c *callChange) expectation() versionlog.Expectation {
	return map[callExpect]versionlog.Expectation{
		expectNone: versionlog.ExpectAny(), expectAbsence: versionlog.ExpectAbsent(),
		expectPresence: versionlog.ExpectExists(), expectThis: versionlog.ExpectVersion(c.version),
	}[c.expect]
}

// storeState is what a store holds after some calls.
type storeState struct {
	seq   uint64
	heads map[string]head // live ones
}

type head struct{ id, memory, content string }

// linearizable checks the calls made of one store.
func linearizable(calls []storeCall) error {
	ops := make([]porcupine.Operation, len(calls))
	for i := range calls {
		ops[i] = porcupine.Operation{Input: &calls[i], Call: int64(calls[i].invoked), Return: int64(calls[i].replied)}
	}
	model := porcupine.Model{
		Init: func() any { return &storeState{} },
		Step: func(state, input, _ any) (bool, any) {
			next := state.(*storeState).after(input.(*storeCall))
			return next != nil, next
		},
		Equal: func(a, b any) bool {
			x, y := a.(*storeState), b.(*storeState)
			return x.seq == y.seq && maps.Equal(x.heads, y.heads)
		},
	}
	switch porcupine.CheckOperationsTimeout(model, ops, time.Minute) {
	case porcupine.Ok:
		return nil
	case porcupine.Unknown:
		return errors.New("not decided within a minute")
	}
	for _, c := range calls {
		if c.outcome != "" && c.outcome != conflicted && c.outcome != notFound {
			return fmt.Errorf("a call ended with an error: %s", c.outcome)
		}
	}
	return errors.New("not linearizable")
}

// ordered checks the same without a search, so that it can decide however many
// calls overlap.
func ordered(calls []storeCall) error {
	span := func(c *storeCall) logtest.Span {
		s := logtest.Span{Invoked: int64(c.invoked), Replied: int64(c.replied)}
		if c.outcome == "" && (c.kind == callAppend || c.kind == callBatch) {
			s.Seq = c.seq
		}
		return s
	}
	return logtest.Order(&storeState{}, calls, span, func(s *storeState, c *storeCall) (*storeState, bool) {
		next := s.after(c)
		return next, next != nil
	})
}

// after returns the state after a call, nil when the call cannot have ended as
// it did in state s.
func (s *storeState) after(c *storeCall) *storeState {
	at, there := s.heads[c.path]
	switch c.kind {
	case callRead:
		if !there && c.outcome == notFound || there && c.outcome == "" && c.versions[0].ID == at.id && c.content == at.content {
			return s
		}
	case callTip:
		if c.outcome == "" && c.seq == s.seq {
			return s
		}
	case callAppend:
		if c.outcome == "" {
			return s.append(c, []callChange{{action: versionlog.Put, path: c.path, text: at.content + c.text}})
		}
	case callBatch:
		conflicts := s.conflicts(c.changes)
		if len(conflicts) > 0 && c.outcome == conflicted && maps.Equal(conflicts, c.conflicts) {
			return s
		}
		if len(conflicts) == 0 && c.outcome == "" {
			return s.append(c, c.changes)
		}
	}
	return nil
}

// conflicts returns the heads of the paths whose expectation does not hold.
func (s *storeState) conflicts(changes []callChange) map[string]string {
	found := map[string]string{}
	for _, c := range changes {
		at, there := s.heads[c.path]
		holds := c.expect == expectNone || c.expect == expectAbsence && !there ||
			c.expect == expectPresence && there || c.expect == expectThis && there && at.id == c.version
		if !holds || c.action != versionlog.Put && !there {
			found[c.path] = at.id
		}
		if to, taken := s.heads[c.to]; c.action == versionlog.Rename && taken {
			found[c.to] = to.id
		}
	}
	return found
}

// append returns the state after a commit of changes, all of which change
// something: no content is written twice.
func (s *storeState) append(c *storeCall, changes []callChange) *storeState {
	if c.seq != s.seq+1 || len(c.versions) != len(changes) {
		return nil
	}
	next := &storeState{seq: c.seq, heads: maps.Clone(s.heads)}
	if next.heads == nil {
		next.heads = map[string]head{}
	}
	for i, change := range changes {
		if !s.follows(&c.versions[i], change, c.seq) {
			return nil
		}
	}
	for _, change := range changes {
		if change.action != versionlog.Put {
			delete(next.heads, change.path)
		}
	}
	for i, change := range changes {
		switch v := c.versions[i]; change.action {
		case versionlog.Put:
			next.heads[change.path] = head{id: v.ID, memory: v.MemoryID, content: change.text}
		case versionlog.Rename:
			next.heads[change.to] = head{id: v.ID, memory: v.MemoryID, content: s.heads[change.path].content}
		}
	}
	return next
}

// follows reports whether v is the version that a change makes in state s.
func (s *storeState) follows(v *versionlog.Version, c callChange, seq uint64) bool {
	at, there := s.heads[c.path]
	op, path, content := versionlog.OpModified, c.path, c.text
	switch {
	case c.action == versionlog.Remove:
		return v.Op == versionlog.OpDeleted && v.Path == path && v.Parent == at.id && v.MemoryID == at.memory && v.Seq == seq
	case c.action == versionlog.Rename:
		op, path, content = versionlog.OpRenamed, c.to, at.content
	case !there:
		op = versionlog.OpCreated
	}
	return v.Op == op && v.Path == path && v.Digest == cas.Sum([]byte(content)) && v.Size == int64(len(content)) &&
		v.Parent == at.id && (!there || v.MemoryID == at.memory) && v.Seq == seq
}
