package conflict

import (
	"fmt"
	"maps"
	"math"
	"time"

	"github.com/anishathalye/porcupine"

	"mneme/tests/harness"
	"mneme/versionlog/logtest"
)

// episodeChange is an acknowledged change and what its session knew of the path
// that it replaced.
type episodeChange struct {
	*mountCall
	seq   uint64 // of its commit
	known []string
}

// decidable is how many sessions' changes porcupine can put in order within a
// minute.
const decidable = 4

// linearizable looks for an order of the acknowledged changes, each at some time
// while it was made, in which each replaces what its session knew, and after
// which there is what everybody finds in the end. It does not ask the log, unless
// there are more sessions than porcupine can decide: then the log's order has to
// be one.
func (e *episode) linearizable(end map[string]string) error {
	var ops []porcupine.Operation
	for _, session := range e.sessions() {
		e.knows(session, func(c *mountCall, seq uint64, k sessionKnowledge) {
			if !c.changes() {
				return
			}
			change := episodeChange{mountCall: c, seq: seq, known: k.during(c.Path, c)}
			if c.Op == opRename {
				change.known = k.during(c.To, c)
			}
			change.known = append(change.known, k.ever(c)...) // it may have been renamed from where it is known
			ops = append(ops, porcupine.Operation{Input: change, Call: c.Begin, Return: c.End})
		})
	}
	ops = append(ops, porcupine.Operation{Input: end, Call: math.MaxInt64 - 1, Return: math.MaxInt64})
	model := porcupine.Model{
		Init: func() any { return map[string]string{} },
		Step: func(state, input, _ any) (bool, any) {
			files := state.(map[string]string)
			if end, ok := input.(map[string]string); ok {
				return maps.Equal(files, end), files
			}
			after := input.(episodeChange).after(files)
			return after != nil, after
		},
		Equal: func(a, b any) bool { return maps.Equal(a.(map[string]string), b.(map[string]string)) },
	}
	if len(e.sessions()) > decidable {
		span := func(op *porcupine.Operation) logtest.Span {
			change, _ := op.Input.(episodeChange) // the end is none
			return logtest.Span{Invoked: op.Call, Replied: op.Return, Seq: change.seq}
		}
		return logtest.Order(model.Init(), ops, span, func(state any, op *porcupine.Operation) (any, bool) {
			ok, after := model.Step(state, op.Input, nil)
			return after, ok
		})
	}
	if result := porcupine.CheckOperationsTimeout(model, ops, time.Minute); result != porcupine.Ok {
		return fmt.Errorf("porcupine finds no order: %v", result)
	}
	return nil
}

// after is what there is after a change, nil when it cannot have gone well.
func (c episodeChange) after(files map[string]string) map[string]string {
	at := c.place()
	old, there := files[at]
	after := maps.Clone(files)
	switch c.Op {
	case opOverwrite, opSave:
		if there && !mayReplace(c.known, harness.SumOf(old)) {
			return nil
		}
		after[at] = c.text()
	case opCreate:
		if there && at == c.Path {
			return nil
		}
		after[at] = c.text()
	case opAppend:
		after[at] = old + c.text()
	case opUnlink, opRename:
		if !there || c.Op == opUnlink && !mayReplace(c.known, harness.SumOf(old)) {
			return nil
		}
		delete(after, at)
		if c.Op == opRename {
			if to, over := files[c.To]; over && !mayReplace(c.known, harness.SumOf(to)) {
				return nil
			}
			after[c.To] = old
		}
	}
	return after
}
