package session

import (
	"iter"
	"maps"
	"slices"
	"sync"

	"mneme/memory"
	"mneme/versionlog"
)

// Known is what a session knows of each path. It may be used by many goroutines at once;
// its zero value is that the session knows nothing.
//
// A path is the one that the log has, also of a memory that a face shows under another name. The
// knowledge lies in two rooms: "there", of paths at which there is a memory, as far as the
// session has heard, and "gone", of others. It moves with the session's own renames, it is copied
// by another session's, and it stays where another session has freed a path: a memory that is
// made there later is another version.
//
// Invariants. K1: a path is in one room. K2: Came brings from "gone" only what "there"
// has not. K3: Note never replaces. K4: "gone" has at most maxGone paths, and all of them
// together maxAllChanges changes. K5: a Knowledge is never changed in place, so that a
// caller may keep one.
type Known struct {
	strict  bool
	changed func(path string) // nil: no caller needs it

	mu      sync.Mutex // guards what follows; a leaf
	there   map[string]Knowledge
	gone    map[string]Knowledge
	changes int                    // the most changes that all of it may have
	moved   map[string]movedUnread // what this session has moved without having read it, by the path from which
	movedTo map[string][]string    // the inverse of moved: the paths from which, by where it is now
}

// movedUnread is a memory that this session has moved without having read it.
type movedUnread struct {
	at     string // where it is now
	memory string // its id
	seq    uint64 // of the commit that moved it: what is read of it since has no lower one
}

// How much is known at most. Then what is new is forgotten, or the older half.
const (
	maxGone       = 1 << 16 // paths, of about 100 bytes
	maxAllChanges = 1 << 13 // of about 1 KB
)

// Of returns what is known of a path.
func (k *Known) Of(path string) Knowledge {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.ofLocked(path)
}

func (k *Known) ofLocked(path string) Knowledge {
	if now, ok := k.there[path]; ok {
		return now
	}
	return k.gone[path]
}

// Set replaces what is known of a path; of "" nothing is.
func (k *Known) Set(path string, now Knowledge) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.setLocked(path, now)
}

// Update replaces what is known of a path by what change makes of it. change must not
// use k.
func (k *Known) Update(path string, change func(Knowledge) Knowledge) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.setLocked(path, change(k.ofLocked(path)))
}

// ReadSince notes that head has been read at a path of which before was known when the reading
// began; nil: there was no memory. Anything that became known meanwhile stays, unless head is
// newer.
func (k *Known) ReadSince(path string, before Knowledge, head *memory.Head) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.ofLocked(path)
	switch headIsNewer := head != nil && now.Head() != nil && now.Head().Seq() < head.Seq(); {
	case now != before && !headIsNewer:
	case head == nil:
		k.setLocked(path, Nothing())
	default:
		k.setLocked(path, now.Read(head))
	}
}

// Note sets what is known of a path of which nothing is.
func (k *Known) Note(path string, now Knowledge) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.ofLocked(path).IsKnown() {
		k.setLocked(path, now)
	}
}

func (k *Known) setLocked(path string, now Knowledge) {
	if path == "" {
		return
	}
	before, there := k.there[path]
	if !there {
		before = k.gone[path]
	}
	if now == before {
		return
	}
	if there || now.Head() != nil || !now.IsKnown() {
		delete(k.gone, path)
		put(&k.there, path, now)
	} else if !k.setGoneLocked(path, now) {
		return
	}
	k.noteLocked(path)
	if len(now.Changes()) > len(before.Changes()) {
		if k.changes++; k.changes >= maxAllChanges {
			k.forgetChangesLocked()
		}
	}
}

// setGoneLocked puts what is known of a path into "gone", and reports whether there was
// room.
func (k *Known) setGoneLocked(path string, now Knowledge) bool {
	if _, ok := k.gone[path]; !ok && len(k.gone) >= maxGone {
		return false
	}
	put(&k.gone, path, now)
	return true
}

func (k *Known) noteLocked(path string) {
	if k.changed != nil {
		k.changed(path)
	}
}

// put sets an entry of a map, which it makes if there is none. The zero Knowledge is no
// entry.
func put(m *map[string]Knowledge, path string, now Knowledge) {
	if now == (Knowledge{}) {
		delete(*m, path)
		return
	}
	if *m == nil {
		*m = map[string]Knowledge{}
	}
	(*m)[path] = now
}

// Came says that there is a memory at a path from now on.
func (k *Known) Came(path string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now, ok := k.gone[path]
	if !ok {
		return
	}
	delete(k.gone, path)
	if !k.there[path].IsKnown() {
		put(&k.there, path, now)
	}
	k.noteLocked(path)
}

// Went says that there is no longer a memory at a path, because of another session.
func (k *Known) Went(path string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.wentLocked(path)
}

func (k *Known) wentLocked(path string) {
	now, ok := k.there[path]
	if !ok {
		return
	}
	delete(k.there, path)
	if now.IsKnown() {
		k.setGoneLocked(path, now)
	}
	k.noteLocked(path)
}

// Freed says that a commit of this session with a sequence number has left nothing at a path. A
// version that the session has read there since stays known.
func (k *Known) Freed(path string, seq uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.freedLocked(path, seq)
}

func (k *Known) freedLocked(path string, seq uint64) {
	if now := k.ofLocked(path); now.Head() != nil && now.Head().Seq() > seq {
		return
	}
	now := k.ofLocked(path).Removed()
	delete(k.there, path)
	k.setGoneLocked(path, now)
	k.noteLocked(path)
}

// Renamed follows a rename by this session, by which v is where it is: the knowledge goes along,
// and the session knows that nothing is left behind.
//
// A rename moves whatever is at a path at that time, also a version that another session has put
// there and this one has not read. A program that then makes the path again replaces that version
// as surely as if it had overwritten it. Programs that save a file by renaming the old one away
// do so. So the path stays refused (MovedUnread) until the memory that has moved away has been
// read at its new path.
func (k *Known) Renamed(v *versionlog.Version) {
	k.mu.Lock()
	defer k.mu.Unlock()
	before, there := k.ofLocked(v.From), k.ofLocked(v.Path)
	k.moveLocked(v.From, v.Path)
	if isNewer(there, v) {
		put(&k.there, v.Path, there)
	}
	if isNewer(before, v) {
		put(&k.there, v.From, before)
	} else {
		k.freedLocked(v.From, v.Seq)
	}
	k.movedAwayLocked(v.From, v, v.Seq)
}

// isNewer reports whether what is known was read after a commit that made v, of another session.
func isNewer(now Knowledge, v *versionlog.Version) bool {
	return now.Head() != nil && now.Head().Seq() > v.Seq
}

// MovedAway notes that a commit of this session with a sequence number has made what was at a
// path the version v of another memory. Renamed does that where it stays the same memory.
func (k *Known) MovedAway(from string, v *versionlog.Version, seq uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, path := range slices.Clone(k.movedTo[from]) {
		was := k.moved[path]
		was.at, was.memory = v.Path, v.MemoryID
		k.setMovedLocked(path, was)
	}
	if k.ofLocked(from).Head() == nil { // its changes are in v
		k.setLocked(from, Nothing())
	}
	k.movedAwayLocked(from, v, seq)
}

func (k *Known) movedAwayLocked(from string, v *versionlog.Version, seq uint64) {
	k.setMovedLocked(from, movedUnread{})
	if head := memory.NewHead(v); k.isUnread(k.ofLocked(v.Path), head) && len(k.moved) < maxGone {
		k.setMovedLocked(from, movedUnread{at: v.Path, memory: v.MemoryID, seq: seq})
	}
}

// Moved follows a rename by this session of which the log knows nothing.
func (k *Known) Moved(from, to string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.moveLocked(from, to)
}

// moveLocked makes what is known of from all that is known of to.
func (k *Known) moveLocked(from, to string) {
	now := k.ofLocked(from)
	delete(k.there, from)
	delete(k.gone, from)
	delete(k.gone, to)
	put(&k.there, to, now)
	k.followMovedLocked(from, to)
	k.noteLocked(from)
	k.noteLocked(to)
}

// Followed follows a rename by another session. The knowledge of from becomes that of to, too,
// unless something else is known of to; free says that there was nothing at to, and that the
// knowledge of it does not count.
func (k *Known) Followed(from, to string, free bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.ofLocked(from)
	if now.IsKnown() && (free || !k.ofLocked(to).IsKnown()) {
		delete(k.gone, to)
		put(&k.there, to, now)
		k.noteLocked(to)
	}
	k.wentLocked(from)
	k.followMovedLocked(from, to)
}

// MovedUnread returns where the memory is now that this session has moved away from a path
// without having read it; "" if there is none, or it has been read there. head returns the memory
// at a path; nil: none. If there is none, or another one, nothing is kept of it.
func (k *Known) MovedUnread(path string, head func(path string) *memory.Head) (at string, now *memory.Head) {
	k.mu.Lock()
	was := k.moved[path]
	k.mu.Unlock()
	if was.at == "" {
		return "", nil
	}
	now = head(was.at)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.moved[path] != was {
		return "", nil
	}
	if known := k.ofLocked(was.at); !was.isOf(now) || was.readBy(known) || !k.isUnread(known, now) {
		k.setMovedLocked(path, movedUnread{})
		return "", nil
	}
	return was.at, now
}

// isOf reports whether a version is one of the memory that was moved.
func (m movedUnread) isOf(head *memory.Head) bool {
	return head != nil && head.MemoryID() == m.memory
}

// readBy reports whether a session that knows that has read the memory since it was moved,
// whatever another one has made of it after.
func (m movedUnread) readBy(known Knowledge) bool {
	return m.isOf(known.Head()) && known.Head().Seq() >= m.seq
}

// isUnread reports whether a session that knows that may not replace head.
func (k *Known) isUnread(now Knowledge, head *memory.Head) bool {
	return head != nil && (now.Stale(head) || k.strict && !now.IsKnown())
}

// setMovedLocked notes what has been moved away from a path unread; the zero value: nothing.
func (k *Known) setMovedLocked(path string, to movedUnread) {
	if k.moved[path] != to {
		k.noteLocked(path)
	}
	if before := k.moved[path].at; before != "" {
		left := slices.DeleteFunc(k.movedTo[before], func(from string) bool { return from == path })
		if k.movedTo[before] = left; len(left) == 0 {
			delete(k.movedTo, before)
		}
		delete(k.moved, path)
	}
	if to.at == "" {
		return
	}
	if k.moved == nil {
		k.moved, k.movedTo = map[string]movedUnread{}, map[string][]string{}
	}
	k.moved[path] = to
	k.movedTo[to.at] = append(k.movedTo[to.at], path)
}

// followMovedLocked notes that what has been moved unread has moved again.
func (k *Known) followMovedLocked(from, to string) {
	for _, path := range slices.Clone(k.movedTo[from]) {
		was := k.moved[path]
		was.at = to
		k.setMovedLocked(path, was)
	}
}

// AllMoved yields the paths from which this session has moved something without having read it, in no
// order, as they are when the loop begins.
func (k *Known) AllMoved() iter.Seq[string] {
	k.mu.Lock()
	defer k.mu.Unlock()
	return maps.Keys(maps.Clone(k.moved))
}

// All yields what is known of each path, in no order, as it is when the loop begins.
func (k *Known) All() iter.Seq2[string, Knowledge] {
	k.mu.Lock()
	all := maps.Clone(k.there)
	if all == nil {
		all = map[string]Knowledge{}
	}
	maps.Copy(all, k.gone)
	k.mu.Unlock()
	return maps.All(all)
}

// forgetChangesLocked drops the older half of the changes.
func (k *Known) forgetChangesLocked() {
	var seqs []uint64
	rooms := []map[string]Knowledge{k.there, k.gone}
	for _, room := range rooms {
		for _, now := range room {
			for _, one := range now.Changes() {
				seqs = append(seqs, one.To.Seq())
			}
		}
	}
	slices.Sort(seqs)
	oldest := seqs[max(0, len(seqs)-maxAllChanges/2)]
	k.changes = 0
	for _, room := range rooms {
		for path, now := range room {
			if len(now.Changes()) > 0 {
				now = now.WithoutOlder(oldest)
				room[path] = now
				k.changes += len(now.Changes())
			}
		}
	}
}
