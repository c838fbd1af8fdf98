package fusefs

import (
	"math/rand/v2"
	"slices"
	"time"

	"mneme/memory"
)

// maxRebases bounds how often a commit starts over. Each time somebody else has
// got something done.
const maxRebases = 1000

// refusals are the tries of one commit that were refused in a row for one version.
type refusals struct {
	of     *memory.Head
	number int
}

// maxAlike is how many of them there may be. While others move things it is two or
// three; more when the tree differs from the log, and then no try helps.
const maxAlike = 50

// stuck notes a refusal, and reports whether it is one too many.
func (r *refusals) stuck(theirs *memory.Head) bool {
	if !memory.SameVersion(theirs, r.of) {
		*r = refusals{}
	}
	if theirs != nil {
		r.of = theirs
		r.number++
	}
	return r.number > maxAlike
}

// rebase gives a stage whose commit was overtaken another base, if that can be
// done: what was appended is put at the end of theirs; with Options.Merge,
// changes to other lines are brought together. It returns the message for the
// commit, and false when the write has lost. The caller has the node's turn.
func (fs *fileSystem) rebase(d *draft, theirs *memory.Head, try int) (message string, ok bool) {
	if try >= maxRebases || !d.tails && !(fs.opts.Merge && d.base != nil && theirs != nil) {
		return "", false
	}
	var content []byte
	if theirs != nil {
		var err error
		if content, err = d.n.store.memory.ContentOf(fs.ctx, theirs); err != nil {
			return "", false
		}
	}
	if !d.tails {
		base, err := d.n.store.memory.ContentOf(fs.ctx, d.base)
		if err != nil {
			return "", false
		}
		if content, ok = memory.Merge(base, content, d.data); !ok {
			return "", false
		}
		message = mergeMessage(theirs, d.base)
	}
	if try > 0 {
		time.Sleep(rand.N(min(time.Duration(try), 20) * time.Millisecond))
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return message, fs.rebaseOntoLocked(d, theirs, content)
}

// rebaseOntoLocked gives a stage the base theirs, whose content is given, and reports
// whether nothing has happened to it since the draft that stands against that.
func (fs *fileSystem) rebaseOntoLocked(d *draft, theirs *memory.Head, content []byte) bool {
	n, st := d.n, d.st
	path, _ := n.targetLocked()
	switch {
	case n.nowLocked().removed || st.err != 0:
		return false
	case path != d.path:
		return d.tails // which the next try puts at the end of what is there
	case d.tails && st.tails:
		content = slices.Concat(content, st.tail)
	case d.tails || st.changes != d.changes:
		return false
	}
	if was := n.stage(); was == nil || was.overtaken || was == st {
		n.setStageLocked(st)
		fs.reckonLocked(n, was)
	}
	st.base, st.data, st.loaded, st.overtaken = theirs, content, true, false
	fs.reckonLocked(n, st)
	fs.handing.rebasedLocked(st)
	fs.notify.contentLocked(n)
	return true
}
