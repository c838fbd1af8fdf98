package memory

import (
	"strings"
	"sync"
	"time"

	"mneme/versionlog"
)

// proposer is a source of changes of a store.
type proposer struct {
	store   string
	actor   versionlog.Actor
	session string
}

// deletions counts the deletions of each proposer within a minute, through any Store of a
// library and Ruled. Deletions that are being committed count, so that concurrent requests
// do not pass a guard together. Its methods may be called from many goroutines at once.
type deletions struct {
	mu sync.Mutex
	of map[proposer]*deleted
}

// deleted has the counts of one proposer.
type deleted struct {
	recent  [parts]part // by second modulo parts
	last    int64       // in seconds since 1970, when something was counted last
	pending int64       // by commits under way
}

// maxDeleters bounds how many proposers are counted at once, except those with commits
// under way.
const maxDeleters = 10_000

// begin notes that a proposer is about to commit changes. It returns how many memories the
// proposer has deleted before, and done, which is called with the versions that were
// committed, none where it failed.
func (d *deletions) begin(by proposer, changes []versionlog.Change) (before int64, done func([]versionlog.Version)) {
	n := int64(0)
	for i := range changes {
		if changes[i].Action == versionlog.Remove && !strings.HasSuffix(changes[i].Path, "/") {
			n++
		}
	}
	if n == 0 {
		return 0, func([]versionlog.Version) {}
	}
	now := int64(uptime() / time.Second)
	d.mu.Lock()
	defer d.mu.Unlock()
	of := d.of[by]
	if of == nil {
		d.makeRoomLocked(now)
		of = &deleted{last: now}
		d.of[by] = of
	}
	before = sum(&of.recent, now) + of.pending
	of.pending += n
	return before, func(versions []versionlog.Version) {
		now := int64(uptime() / time.Second)
		d.mu.Lock()
		defer d.mu.Unlock()
		of.pending -= n
		of.last = now
		note(&of.recent, now, versionlog.DeletionsOf(versions))
	}
}

// makeRoomLocked forgets the proposers that have deleted nothing for a minute, once there are too
// many, or else any one.
func (d *deletions) makeRoomLocked(now int64) {
	if d.of == nil {
		d.of = map[proposer]*deleted{}
	}
	if len(d.of) < maxDeleters {
		return
	}
	for by, of := range d.of {
		if of.pending == 0 && now-of.last >= parts {
			delete(d.of, by)
		}
	}
	if len(d.of) < maxDeleters {
		return
	}
	for by, of := range d.of {
		if of.pending == 0 {
			delete(d.of, by)
			return
		}
	}
}
