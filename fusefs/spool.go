package fusefs

import (
	"slices"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/fusefs/tree"
	"mneme/spool"
	"mneme/versionlog"
)

// A file with a scratch name is not committed by close and fsync, and yet must survive the end of
// the mount, however it ends. So its bytes go to a spool on disk, from which the end of the
// mount, or the next mount after one that was killed, settles them (left.go). close writes them
// there, which survives the daemon; fsync makes them survive the machine, too.
//
// An entry has the key under which its bytes will be committed, and every operation that commits
// them uses it: a rename, the file's lingering, the next mount. So they are one version though
// the daemon was killed between the commit and the byte that says that the entry is settled.
//
// An editor's scratch file that has become longer than a memory may be can never be one,
// and is gone with the mount.

// minSpoolBytes is how much a mount may have in the spool of a store, if that does
// not take memories of more than half as much.
const minSpoolBytes = 256 << 20

// spooled is what the spool has of a stage. The node's turn guards it as well as fs.mu: a holder
// of either may read it.
type spooled struct {
	slot    *spool.Slot
	key     string // of the commit to come; "": it is under way, or another one
	used    bool   // key was proposed before, and refused
	path    string
	changes uint64 // of the stage
	synced  bool
	older   *spooled // the newest that is synced, if this one is not
}

// toSpool is what a scratch file has to have spooled.
type toSpool struct {
	n        *tree.Entry
	st       *stage
	path     string
	spelling string // path as a new file has it
	changes  uint64 // of the stage
	key      string // of the commit to come; "": the spool has data already
	data     []byte
}

// toSpoolLocked is what a scratch file has to have spooled before why is answered; nil:
// nothing.
func toSpoolLocked(n *tree.Entry, st *stage, why occasion) *toSpool {
	path, ok := n.PathLocked()
	if storeOf(n).spool == nil || !ok || stageOf(n) != st {
		return nil
	}
	if beyondLocked(n, st) {
		storeOf(n).unspoolStage(st)
		return nil
	}
	d := &toSpool{n: n, st: st, path: path, spelling: n.SpellingAtLocked(path), changes: st.changes}
	switch now := st.spooled; {
	case now == nil && len(st.data) == 0:
		return nil // as it is right after it was made
	case now == nil || now.changes != st.changes || now.path != path:
		d.key, d.data = versionlog.NewKey(), slices.Clone(st.data)
	case now.synced || why != synced:
		return nil
	}
	return d
}

// spool keeps a scratch file's bytes. The caller has the node's turn and holds no lock.
func (fs *fileSystem) spool(d *toSpool, why occasion) fuse.Status {
	s, st := storeOf(d.n), d.st
	fs.mu.RLock()
	now, mode := st.spooled, d.n.ModeLocked()&0o777
	fs.mu.RUnlock()
	if d.key != "" {
		if err := s.memory.MayGrow(); err != nil {
			return s.fail("save", d.path, err)
		}
		e := spool.Entry{Key: d.key, Path: d.path, Spelling: d.spelling, Session: fs.opts.Session, Time: time.Now().UTC().Truncate(time.Microsecond), Data: d.data}
		if isPrivate(d.n, mode) {
			e.Mode = mode
		}
		if now != nil {
			e.File = now.slot.File()
		}
		slot, err := s.spool.Write(e)
		if err != nil {
			return s.fail("save", d.path, err)
		}
		now = &spooled{slot: slot, key: d.key, path: d.path, changes: d.changes, older: now}
	}
	if why == synced && !now.synced {
		if err := now.slot.Sync(); err != nil {
			status := s.fail("save", d.path, err)
			fs.mu.Lock()
			defer fs.mu.Unlock()
			now.path = "" // the kernel may take the lost pages for written: the next fsync writes them again
			s.publishLocked(d, now)
			return status
		}
		fs.mu.Lock()
		now.synced = true
		fs.mu.Unlock()
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	s.publishLocked(d, now)
	return fuse.OK
}

// publishLocked makes now what the spool has of a stage. The entries that it replaces are
// settled: all older ones if now is synced, else the previous one if it is no more durable.
func (s *store) publishLocked(d *toSpool, now *spooled) {
	if before := now.older; before != nil && !now.synced && !before.synced {
		now.older = before.older
		s.settleSlot(before.slot)
	}
	if now.synced {
		s.settleSpooled(now.older)
		now.older = nil
	}
	d.st.spooled = now
	if d.n.LatestLocked().IsRemovedLocked() { // meanwhile
		s.unspoolStage(d.st)
	}
}

// spooledKeyLocked is the key of the commit that makes what a stage was as of changes a
// memory: that of its entry, the first time; else "". used says that it was proposed before, and
// refused.
func (st *stage) spooledKeyLocked(changes uint64) (key string, used bool) {
	if st == nil || st.spooled == nil || st.spooled.changes != changes {
		return "", false
	}
	key = st.spooled.key
	st.spooled.key = ""
	return key, st.spooled.used
}

// refusedKeyLocked gives the key back to its entry, under which no commit was made.
func (st *stage) refusedKeyLocked(changes uint64, key string) {
	if key != "" && st.spooled != nil && st.spooled.changes == changes {
		st.spooled.key, st.spooled.used = key, true
	}
}

// failLocked gives a stage of n up, since what was written to it cannot be saved. A file that is in
// no version is again what the spool has of it, which was acknowledged.
func (fs *fileSystem) failLocked(n *tree.Entry, st *stage, errno syscall.Errno) {
	fs.poisonLocked(n, st, errno)
	if st.spooled == nil || stageOf(n) != st || !n.IsUnloggedLocked() {
		return
	}
	e, err := st.spooled.slot.Read()
	if err != nil { // the end of the mount finds it, if it can be read at that time
		fs.log.Error("read what is spooled", "store", storeOf(n).slug(), "path", st.spooled.path, "err", err)
		return
	}
	before := &stage{written: written{base: n.HeadLocked(), data: e.Data, loaded: true, dirty: true, wrote: len(e.Data) > 0, spooled: st.spooled}}
	before.changes, before.rewrote = st.spooled.changes, st.spooled.changes
	st.spooled = nil
	setStageLocked(n, before)
	fs.accountStageLocked(n, before)
	if fs.classOfLocked(n) == temporary {
		fs.lingerLocked(n)
	}
}

// unspoolLocked notes that no part of n's stage should survive the mount; no n at all has none.
func (s *store) unspoolLocked(n *tree.Entry) {
	if n != nil && stageOf(n) != nil {
		s.unspoolStage(stageOf(n))
	}
}

func (s *store) unspoolStage(st *stage) {
	s.settleSpooled(st.spooled)
	st.spooled = nil
}

func (s *store) settleSpooled(e *spooled) {
	if e != nil {
		s.settleSpooled(e.older) // first: an older entry is not the file
		s.settleSlot(e.slot)
	}
}

func (s *store) settleSlot(slot *spool.Slot) {
	s.settled = append(s.settled, slot)
	s.settling.Store(true)
}

// dropSettled takes settled entries out of the spool, and removed directories that no longer hide
// anything out of the log. A request that settles something ends with it, and a commit of others
// that settles something lets it run in the background. Callers hold no lock and no claim.
func (s *store) dropSettled() {
	if !s.settling.Load() && !s.tree.HasEmptied() {
		return
	}
	s.fs.mu.Lock()
	settled, emptied := s.settled, s.tree.EmptiedLocked()
	s.settled = nil
	s.settling.Store(false)
	s.fs.mu.Unlock()
	for _, slot := range settled {
		if err := slot.Drop(); err != nil {
			s.fs.log.Warn("spool", "store", s.slug(), "err", err)
		}
	}
	s.removeEmptied(emptied)
}
