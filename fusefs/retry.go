package fusefs

import (
	"context"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/fusefs/kernelcache"
	"mneme/fusefs/tree"
)

// openTargetLocked is the file that a thread's request means when it names n, or nil. When
// another session has taken n's place, or has removed it, the kernel is told ESTALE, looks the
// name up again and repeats the request. If one more change came in between, n is the file that
// the name meant when the request began: a request that reads gets n. A request that only appends
// gets n, or the file that has n's name now. Otherwise the status says how the request ends.
func (fs *fileSystem) openTargetLocked(n *tree.Entry, thread uint32, flags uint32) (*tree.Entry, fuse.Status) {
	r := fs.retries[thread]
	delete(fs.retries, thread)
	path, there := n.TargetLocked()
	switch again := r != nil && r.meantLocked(n); {
	case !n.IsSupersededLocked() && (there || n.IsRemovedLocked()):
		return n, fuse.OK
	case again && (there && path == n.LastPathLocked() || !writes(flags) || !n.IsSupersededLocked() && onlyAppends(flags)):
		return n, fuse.OK
	case again && onlyAppends(flags):
		if other := insteadLocked(n); other != nil {
			return other, fuse.OK
		}
		n.StandAloneLocked() // the earlier file has another name now: under this one it is made again
		return n, fuse.OK
	}
	return nil, fs.sendRoundAgainLocked(n, thread, flags, r)
}

// insteadLocked is the file that has n's name since another session has moved what took n's
// place elsewhere, or nil.
func insteadLocked(n *tree.Entry) *tree.Entry {
	if !n.IsSupersededLocked() {
		return nil
	}
	return storeOf(n).tree.FindMemoryLocked(n.LastPathLocked())
}

// pushedInsteadLocked is insteadLocked while a push into that is under way, else nil.
func pushedInsteadLocked(n *tree.Entry) *tree.Entry {
	if other := insteadLocked(n); other != nil && inodeOf(other).cache.Pushing() {
		return other
	}
	return nil
}

// sendRoundAgainLocked answers a thread whose request must begin again with the name: with
// ESTALE, which no program sees, since the kernel tries once more. A request that was that second
// try, and means to change the file, has lost its race.
func (fs *fileSystem) sendRoundAgainLocked(n *tree.Entry, thread, flags uint32, before *retry) fuse.Status {
	delete(fs.retries, thread)
	if before != nil && before.meantLocked(n) && writes(flags) {
		return fuse.Status(fs.opts.ConflictErrno)
	}
	if len(fs.retries) >= maxRetries {
		clear(fs.retries)
	}
	fs.retries[thread] = &retry{began: kernelcache.Now()}
	return fuse.Status(syscall.ESTALE)
}

// retry is a request whose thread was sent to look its name up again. It may
// never come back: a signal can end the call.
type retry struct {
	began  kernelcache.Instant
	looked bool // the thread has looked names up since
}

// meantLocked reports whether n is what the request's name meant after it had begun.
func (r *retry) meantLocked(n *tree.Entry) bool {
	const recent = 10 * time.Second
	return r.looked && inodeOf(n).cache.Looked > r.began && r.began.Since() < recent
}

// maxRetries bounds the threads that are remembered to have been sent to look a
// name up again.
const maxRetries = 4096

// tellName returns when the kernel knows which file has n's name now: a program that closes a
// file and then asks for its name finds the text that it wrote, or the text that won. Callers
// hold no lock, and no request that changes the directory is theirs.
func (fs *fileSystem) tellName(ctx context.Context, n *tree.Entry) {
	fs.mu.RLock()
	m := n.LatestLocked()
	number := inodeOf(m).cache.NameNotice()
	fs.mu.RUnlock()
	if m != n && number != 0 {
		_ = fs.notify.Await(ctx, number-1, number)
	}
}
