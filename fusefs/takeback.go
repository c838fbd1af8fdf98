package fusefs

import (
	"fmt"
	"slices"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/cas"
	"mneme/memory"
	"mneme/versionlog"
)

// An open for reading does not say who will write, and from which text: one
// process of a session searches all files, another writes one of them from what
// it read before somebody else changed it, and the session "knows" that change.
// So the session remembers its steps, the changes by other sessions that it has
// only read, and what it then writes is judged: when that takes back such a
// change (memory.TakesBack), it is refused once, or merged, as if it were based
// on the version before.
//
//  1. A read of a version that the session does not know is a step, from what it
//     knew there to what it reads (base.read).
//  2. A write that keeps the other's lines passes, and the steps stay: another
//     process of the session may still hold the older text. A step whose change
//     the head does not show any more matters to nobody.
//  3. A write that takes a step back is refused, and kept as a conflict. Then
//     the next read of the file, seen to be one (node.mustRead), says that it is
//     meant: the next write passes unjudged.
//
// Not judged is what was only appended, and what is written through a handle
// through which the version was read. A write on top of no step reads nothing.
type step struct {
	from  *versionlog.Version // nil: no memory, or not known
	known bool                // whether from is; else only cut counts
	to    *versionlog.Version
	cut   int64 // how long the kernel took the file to be before it was told of to; 0: not known
}

const (
	maxSteps      = 4       // of one file: what a text lacks that is older still, it lacks of these, too
	maxStoreSteps = 1 << 13 // of a store, some 1 KB each; then the older half goes
)

// read is what the session knows after it has read v.
func (b base) read(v *versionlog.Version) base {
	own := b.own != "" && b.own == v.ID
	next := base{known: true, version: v, steps: b.steps, again: b.refused || b.again && (own || !b.stale(v))}
	switch {
	case own:
	case b.stale(v):
		next.steps = b.stepTo(v)
	case !b.known && 0 < b.told && b.told < v.Size:
		next.steps = b.stepTo(v)
	}
	return next
}

// stepTo returns the steps with one more.
func (b base) stepTo(v *versionlog.Version) []step {
	kept := b.steps[max(0, len(b.steps)-maxSteps+1):]
	return append(slices.Clone(kept), step{b.version, b.known, v, b.told})
}

// wrote is what the session knows after it has made v of what it knew.
func (b base) wrote(v *versionlog.Version) base {
	return base{known: true, version: v, steps: b.steps, refused: b.refused}
}

// added is what the session knows after it has made v of under, which it may not
// have read, by appending or merging.
func (b base) added(v, under *versionlog.Version) base {
	if b.stale(under) && b.own != under.ID {
		b.steps, b.again = b.stepTo(under), false
	}
	b.own = v.ID
	return b
}

// asks reports whether it matters that what is written is based on what was read
// through the same handle.
func (b base) asks() bool { return b.refused || len(b.steps) > 0 }

// onlyRead reports whether what the session knows is another session's change of
// what it knew before, which it has done no more than read. Who removes that
// without having been told of it may mean what was there before.
func (b base) onlyRead() bool {
	if len(b.steps) == 0 || b.again {
		return false
	}
	last := b.steps[len(b.steps)-1]
	return last.known && sameText(last.to, b.version) && b.version.Size > 0
}

// holder is the file for which the session knows what is written to n: n, what
// took its place, or what this mount hides there. Caller holds fs.mu.
func (n *node) holder() *node {
	if n.hasLocalName() {
		if hidden := n.parent.hidden[n.name]; hidden != nil {
			return hidden
		}
	}
	return n.now()
}

// learn sets what the session knows of n. Caller holds fs.mu.
func (n *node) learn(b base) {
	more := len(b.steps) > len(n.seen.steps)
	n.seen = b
	n.mark()
	if s := n.store; more {
		if s.steps++; s.steps >= maxStoreSteps {
			s.forgetSteps()
		}
	}
}

// forgetSteps drops the older half of the steps. Caller holds fs.mu.
func (s *store) forgetSteps() {
	var seqs []uint64
	all := func(each func(base) base) {
		for _, n := range s.fs.nodes {
			if n.store == s && len(n.seen.steps) > 0 {
				n.seen = each(n.seen)
			}
		}
		for path, b := range s.lost {
			if len(b.steps) > 0 {
				s.lost[path] = each(b)
			}
		}
	}
	all(func(b base) base {
		for _, one := range b.steps {
			seqs = append(seqs, one.to.Seq)
		}
		return b
	})
	slices.Sort(seqs)
	oldest := seqs[max(0, len(seqs)-maxStoreSteps/2)]
	s.steps = 0
	all(func(b base) base {
		b.steps = slices.DeleteFunc(slices.Clone(b.steps), func(one step) bool { return one.to.Seq < oldest })
		s.steps += len(b.steps)
		return b
	})
}

// takesBack returns the newest step that yours, written over head, takes back;
// nil when there is none. What cannot be read is not judged: a version that is
// damaged must not make its file read-only. Callers hold no lock of the tree.
func (s *store) takesBack(steps []step, head *versionlog.Version, yours []byte) *step {
	if len(steps) == 0 || head == nil || head.Digest == cas.Sum(yours) {
		return nil
	}
	texts := map[cas.Digest][]byte{}
	load := func(v *versionlog.Version) ([]byte, bool) {
		if v == nil {
			return nil, true
		}
		data, there := texts[v.Digest]
		if !there && v.Size <= memory.MostCompared {
			var err error
			if data, err = s.memory.Content(s.fs.ctx, *v); err != nil {
				s.fs.log.Error("content to judge a write", "store", s.slug(), "path", v.Path, "err", err)
				return nil, false
			}
			texts[v.Digest] = data
		}
		return data, v.Size <= memory.MostCompared
	}
	for i := range slices.Backward(steps) {
		one := &steps[i]
		newest := sameText(one.to, head)
		if one.known && newest && digestOf(one.from) == cas.Sum(yours) {
			return one
		}
		from, there := load(one.from)
		to, toThere := load(one.to)
		now, nowThere := load(head)
		if !there || !toThere || !nowThere {
			continue
		}
		if one.known && memory.TakesBack(from, to, now, yours) {
			return one
		}
		if newest && memory.CutAt(to, yours, one.cut) {
			return &step{to: one.to, cut: one.cut}
		}
	}
	return nil
}

func digestOf(v *versionlog.Version) cas.Digest {
	if v == nil {
		return cas.Sum(nil)
	}
	return v.Digest
}

// underTaken is what a write that takes a step back is based on; head where it
// is not known.
func (one *step) underTaken(head *versionlog.Version) *versionlog.Version {
	if one.known {
		return one.from
	}
	return head
}

// mergeBack merges a draft that takes a step back with the head that it replaces,
// if the mount merges and that can be done.
func (fs *fileSystem) mergeBack(d *draft, back *step) (message string, ok bool) {
	merged, ok := d.n.store.mergedBack(back, d.base, d.data)
	if !ok {
		return "", false
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return mergeMessage(d.base, back.underTaken(d.base)), fs.rebaseOnto(d, d.base, merged)
}

// mergedBack merges what takes a step back with head, if the mount merges.
func (s *store) mergedBack(back *step, head *versionlog.Version, yours []byte) ([]byte, bool) {
	if !s.fs.opts.Merge || back.known && back.from == nil {
		return nil, false
	}
	theirs := s.text(head)
	under := theirs[:min(back.cut, int64(len(theirs)))]
	if back.known {
		under = s.text(back.from)
	}
	if theirs == nil || under == nil {
		return nil, false
	}
	return memory.Merge(under, theirs, yours)
}

// loseBack refuses a draft that takes a step back: it is based on what was there
// before. Caller holds n.commitMu and no other lock of the mount below store.ops.
func (fs *fileSystem) loseBack(d *draft, back *step) fuse.Status {
	fs.mu.Lock()
	d.st.base = back.underTaken(d.base)
	fs.mu.Unlock()
	return fs.lose(d.n, d.st, d.base, back)
}

// admitRemoval decides whether a memory may be removed: not when it is not what
// the session knows, nor when that is another session's change which it has only
// read. Caller holds fs.mu.
func (s *store) admitRemoval(n *node) fuse.Status {
	switch {
	case n.seen.stale(n.head):
		return s.refuseStale(n, n.head)
	case !n.seen.onlyRead():
		return fuse.OK
	}
	path, _ := n.logPath()
	n.seen.refused = true
	n.mark()
	s.errors.addConflict(path, s.takingBack(path, "removed", &n.seen.steps[len(n.seen.steps)-1])+"; "+redoTaken)
	return fuse.Status(s.fs.opts.ConflictErrno)
}

const redoTaken = "read it again, and do the same again if that is meant"

// takingBack says, for an agent, why a file was not saved, or removed.
func (s *store) takingBack(path, done string, back *step) string {
	what := fmt.Sprintf("take back what version %d changed", back.to.Seq)
	if !back.known {
		what = fmt.Sprintf("drop the end of version %d", back.to.Seq)
	}
	return fmt.Sprintf("%s:%s was not %s: that would %s (%s)", s.slug(), path, done, what, by(back.to))
}
