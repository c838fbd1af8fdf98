package logtest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"mneme/versionlog"

	"github.com/anishathalye/porcupine"
)

// model is what a store must look like after some calls. It is written against
// the contract and shares no code with versionlog.Build.
type model struct {
	seq    uint64
	digest versionlog.Digest
	paths  map[string]lastAt
}

// lastAt is the last version at a path.
type lastAt struct {
	id, memory string
	digest     versionlog.Digest
	live       bool
}

func checkStore(calls []Call, timeout time.Duration) error {
	ops := make([]porcupine.Operation, len(calls))
	for i := range calls {
		ops[i] = porcupine.Operation{Input: &calls[i], Call: calls[i].Invoked, Return: calls[i].Replied}
	}
	switch porcupine.CheckOperationsTimeout(storeModel, ops, timeout) {
	case porcupine.Ok:
		return nil
	case porcupine.Unknown:
		return fmt.Errorf("not decided within %v", timeout)
	}
	for _, c := range calls {
		if !slices.Contains([]Outcome{OutcomeOK, OutcomeConflict, OutcomeOverlap, OutcomeNotFound}, c.Outcome) {
			return fmt.Errorf("a call ended with an error: %s", c.Outcome)
		}
	}
	return fmt.Errorf("not linearizable: %w", order(calls))
}

func order(calls []Call) error {
	span := func(c *Call) Span {
		s := Span{Invoked: c.Invoked, Replied: c.Replied}
		if c.Kind == CallCommit && len(c.Versions) > 0 {
			s.Seq = c.Seq
		}
		return s
	}
	return Order(&model{}, calls, span, func(m *model, c *Call) (*model, bool) {
		next := m.after(c)
		return next, next != nil
	})
}

var storeModel = porcupine.Model{
	Init: func() any { return &model{} },
	Step: func(state, input, _ any) (bool, any) {
		next := state.(*model).after(input.(*Call))
		return next != nil, next
	},
	Equal: func(a, b any) bool {
		x, y := a.(*model), b.(*model)
		return x.seq == y.seq && x.digest == y.digest && maps.Equal(x.paths, y.paths)
	},
}

// after returns the state after a call, nil when the call cannot have ended as
// it did in state m.
func (m *model) after(c *Call) *model {
	ok := false
	switch c.Kind {
	case CallCommit:
		return m.afterCommit(c)
	case CallHead:
		at, there := m.paths[c.Path]
		ok = matches(c, at, there && at.live)
	case CallLast:
		at, there := m.paths[c.Path]
		ok = matches(c, at, there)
	case CallTip:
		ok = c.Outcome == OutcomeOK && c.Seq == m.seq && c.Digest == m.digest
	}
	if !ok {
		return nil
	}
	return m
}

func matches(c *Call, at lastAt, there bool) bool {
	if !there {
		return c.Outcome == OutcomeNotFound
	}
	if c.Outcome != OutcomeOK {
		return false
	}
	v := &c.Versions[0]
	return at == lastAt{id: v.ID, memory: v.MemoryID, digest: v.Digest, live: at.live}
}

func (m *model) afterCommit(c *Call) *model {
	if conflicts := m.conflicts(c.Changes); len(conflicts) > 0 {
		if c.Outcome == OutcomeConflict && maps.Equal(conflicts, c.Conflicts) {
			return m
		}
		return nil
	}
	var todo []Change
	for _, change := range c.Changes {
		if at := m.paths[change.Path]; change.Action != versionlog.Put || !at.live || at.digest != change.Digest {
			todo = append(todo, change)
		}
	}
	if len(todo) == 0 {
		if c.Outcome == OutcomeOK && c.Seq == m.seq && c.Digest == m.digest && len(c.Versions) == 0 {
			return m
		}
		return nil
	}
	return m.append(c, todo)
}

// append returns the state after a commit that is not refused for a conflict.
func (m *model) append(c *Call, todo []Change) *model {
	next := &model{seq: m.seq + 1, digest: c.Digest, paths: maps.Clone(m.paths)}
	if next.paths == nil {
		next.paths = map[string]lastAt{}
	}
	if c.Outcome == OutcomeOK && (c.Seq != next.seq || c.Prev != m.digest || len(c.Versions) != len(todo)) {
		return nil
	}
	for i, change := range todo {
		v := versionlog.Version{}
		if c.Outcome == OutcomeOK {
			v = c.Versions[i]
			if !m.follows(&v, change) {
				return nil
			}
		}
		next.apply(change, v)
	}
	if next.overlaps() {
		if c.Outcome == OutcomeOverlap {
			return m
		}
		return nil
	}
	if c.Outcome != OutcomeOK {
		return nil
	}
	return next
}

// conflicts returns the heads of the paths whose expectation does not hold.
func (m *model) conflicts(changes []Change) map[string]string {
	found := map[string]string{}
	for _, c := range changes {
		at := m.paths[c.Path]
		id := ""
		if at.live {
			id = at.id
		}
		if !c.possible(at) {
			found[c.Path] = id
		}
		if to := m.paths[c.To]; c.Action == versionlog.Rename && to.live {
			found[c.To] = to.id
		}
	}
	return found
}

func (c *Change) possible(at lastAt) bool {
	if c.Action == versionlog.Put && at.live && at.digest == c.Digest {
		return c.Expect != ExpectAbsent
	}
	if c.Action != versionlog.Put && !at.live {
		return false
	}
	switch c.Expect {
	case ExpectAny:
		return true
	case ExpectAbsent:
		return !at.live
	case ExpectExists:
		return at.live
	case ExpectVersion:
		return at.live && at.id == c.Version
	case ExpectDigest:
		return at.live && at.digest == c.Content
	}
	return false
}

// follows reports whether v is the version that the change makes in state m.
func (m *model) follows(v *versionlog.Version, c Change) bool {
	at := m.paths[c.Path]
	want := versionlog.Version{Path: c.Path, Digest: at.digest, MemoryID: at.memory, Parent: at.id}
	switch {
	case c.Action == versionlog.Remove:
		want.Op, want.Digest = versionlog.OpDeleted, versionlog.Digest{}
	case c.Action == versionlog.Rename:
		want.Op, want.Path, want.From = versionlog.OpRenamed, c.To, c.Path
	case at.live:
		want.Op, want.Digest = versionlog.OpModified, c.Digest
	default:
		want.Op, want.Digest, want.MemoryID, want.Parent = versionlog.OpCreated, c.Digest, v.MemoryID, ""
	}
	return v.ID != "" && v.ID != at.id && v.MemoryID != "" && v.Seq == m.seq+1 && v.Op == want.Op && v.Path == want.Path &&
		v.From == want.From && v.Digest == want.Digest && v.MemoryID == want.MemoryID && v.Parent == want.Parent
}

func (m *model) apply(c Change, v versionlog.Version) {
	at := lastAt{id: v.ID, memory: v.MemoryID, digest: v.Digest}
	switch c.Action {
	case versionlog.Put:
		at.live = true
		m.paths[c.Path] = at
	case versionlog.Remove:
		m.paths[c.Path] = at
	case versionlog.Rename:
		m.paths[c.Path] = at
		at.live = true
		m.paths[c.To] = at
	}
}

// overlaps reports whether a live path lies below another.
func (m *model) overlaps() bool {
	for below, x := range m.paths {
		for above, y := range m.paths {
			if x.live && y.live && strings.HasPrefix(below, above+"/") {
				return true
			}
		}
	}
	return false
}
