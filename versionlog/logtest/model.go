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
	epoch  uint64 // as many promotions there were
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
		if !slices.Contains([]Outcome{OutcomeOK, OutcomeConflict, OutcomeOverlap, OutcomeNotFound, OutcomeFenced, OutcomeInvalid}, c.Outcome) {
			return fmt.Errorf("a call ended with an error: %s", c.Outcome)
		}
	}
	return fmt.Errorf("not linearizable: %w", order(calls))
}

func order(calls []Call) error {
	span := func(c *Call) Span {
		s := Span{Invoked: c.Invoked, Replied: c.Replied}
		if c.Outcome == OutcomeOK && (len(c.Versions) > 0 && c.Kind == CallCommit || c.Kind == CallPromote || c.Kind == CallImport) {
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
		return x.seq == y.seq && x.epoch == y.epoch && x.digest == y.digest && maps.Equal(x.paths, y.paths)
	},
}

// after returns the state after a call, nil when the call cannot have ended as
// it did in state m.
func (m *model) after(c *Call) *model {
	ok := false
	switch c.Kind {
	case CallCommit:
		return m.afterCommit(c)
	case CallPromote:
		return m.afterEvent(c, c.Outcome == OutcomeOK && c.Epoch == m.epoch+2, 1)
	case CallImport:
		switch {
		case c.After != m.seq || c.AfterIs != m.digest:
			ok = c.Outcome == OutcomeInvalid
		case c.Under < m.epoch+1:
			ok = c.Outcome == OutcomeFenced
		default:
			return m.afterEvent(c, c.Outcome == OutcomeOK && c.Epoch == m.epoch+1, 0)
		}
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

// afterEvent returns the state after a commit that changes no path.
func (m *model) afterEvent(c *Call, ok bool, promotions uint64) *model {
	if !ok || c.Seq != m.seq+1 || c.Prev != m.digest {
		return nil
	}
	return &model{seq: c.Seq, epoch: m.epoch + promotions, digest: c.Digest, paths: m.paths}
}

func (m *model) afterCommit(c *Call) *model {
	if c.Under != 0 && c.Under != m.epoch+1 {
		if c.Outcome == OutcomeFenced {
			return m
		}
		return nil
	}
	if conflicts := m.conflicts(c.Changes); len(conflicts) > 0 {
		if c.Outcome == OutcomeConflict && maps.EqualFunc(conflicts, c.Conflicts, slices.Contains) {
			return m
		}
		return nil
	}
	var todo []Change
	for _, change := range c.Changes {
		at := m.paths[change.Path]
		switch {
		case change.Action == versionlog.Put && at.live && at.digest == change.Digest:
		case change.Action == versionlog.MakeDir && (at.live || m.staysBelow(change.Path, c.Changes) != nil):
		default:
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
	next := &model{seq: m.seq + 1, epoch: m.epoch, digest: c.Digest, paths: maps.Clone(m.paths)}
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
	if next.overlaps() || next.orphans(todo) {
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

// conflicts returns the paths whose expectation does not hold, and which heads may be
// told to be in the way: that of the path, or any of those that imply a directory.
func (m *model) conflicts(changes []Change) map[string][]string {
	found := map[string][]string{}
	for _, c := range changes {
		at := m.paths[c.Path]
		id := ""
		if at.live {
			id = at.id
		}
		implied := m.staysBelow(c.Path, changes)
		switch {
		case c.Action == versionlog.MakeDir && !at.live && implied != nil:
			if c.Expect == ExpectAbsent {
				found[c.Path] = implied
			}
		case !c.possible(at):
			found[c.Path] = []string{id}
		}
		if c.Action != versionlog.Rename {
			continue
		}
		if to := m.paths[c.To]; to.live {
			found[c.To] = []string{to.id}
		} else if implied := m.staysBelow(c.To, changes); implied != nil {
			found[c.To] = implied
		}
	}
	return found
}

// staysBelow returns the heads below a directory that changes do not free; of a memory's
// path nil.
func (m *model) staysBelow(dir string, changes []Change) (ids []string) {
	if !strings.HasSuffix(dir, "/") {
		return nil
	}
	for path, at := range m.paths {
		freed := slices.ContainsFunc(changes, func(c Change) bool {
			return c.Path == path && (c.Action == versionlog.Remove || c.Action == versionlog.Rename)
		})
		if at.live && path != dir && strings.HasPrefix(path, dir) && !freed {
			ids = append(ids, at.id)
		}
	}
	return ids
}

// orphans reports whether something lives below a directory that changes took away.
func (m *model) orphans(changes []Change) bool {
	for _, c := range changes {
		if c.Action != versionlog.Remove && c.Action != versionlog.Rename || !strings.HasSuffix(c.Path, "/") {
			continue
		}
		for path, at := range m.paths {
			if at.live && strings.HasPrefix(path, c.Path) {
				return true
			}
		}
	}
	return false
}

func (c *Change) possible(at lastAt) bool {
	if at.live && (c.Action == versionlog.MakeDir || c.Action == versionlog.Put && at.digest == c.Digest) {
		return c.Expect != ExpectAbsent
	}
	if (c.Action == versionlog.Remove || c.Action == versionlog.Rename) && !at.live {
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
		if !c.Digest.IsZero() {
			want.Digest = c.Digest
		}
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
	case versionlog.Put, versionlog.MakeDir:
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
