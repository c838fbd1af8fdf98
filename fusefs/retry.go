package fusefs

import (
	"context"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/fusefs/kernelcache"
)

// foundLocked is the file that a request of a thread means which names n, or nil. When
// another session has taken n's place, or has removed it, the kernel, told ESTALE,
// looks the name up again and repeats the request. If one more change came in
// between, n is what the name meant when the request began: who reads gets that.
// So does who only appends, or what has n's name now. Else the status says how
// the request ends.
func (fs *fileSystem) foundLocked(n *node, thread uint32, flags uint32) (*node, fuse.Status) {
	r := fs.retries[thread]
	delete(fs.retries, thread)
	path, there := n.targetLocked()
	switch again := r != nil && r.meantLocked(n); {
	case !n.succeededLocked() && (there || n.removed):
		return n, fuse.OK
	case again && (there && path == n.was || !writes(flags) || !n.succeededLocked() && onlyAppends(flags)):
		return n, fuse.OK
	case again && onlyAppends(flags):
		if other := n.insteadLocked(); other != nil {
			return other, fuse.OK
		}
		n.standAloneLocked() // what it was has another name by now: under this one it is made anew
		return n, fuse.OK
	}
	return nil, fs.lookAgainLocked(n, thread, flags, r)
}

// insteadLocked is the file that has n's name since another session has moved what took n's
// place elsewhere, or nil.
func (n *node) insteadLocked() *node {
	if !n.succeededLocked() {
		return nil
	}
	return n.store.madeLocked(n.was)
}

// pushedInsteadLocked is insteadLocked while a push into that is under way, else nil.
func (n *node) pushedInsteadLocked() *node {
	if other := n.insteadLocked(); other != nil && other.had().cache.Pushing() {
		return other
	}
	return nil
}

// lookAgainLocked answers a thread whose request is to begin anew with the name: with
// ESTALE, which no program sees, since the kernel tries once more. A request that
// was that second try, and means to change the file, has lost its race.
func (fs *fileSystem) lookAgainLocked(n *node, thread, flags uint32, before *retry) fuse.Status {
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
func (r *retry) meantLocked(n *node) bool {
	const recent = 10 * time.Second
	return r.looked && n.had().cache.Looked > r.began && r.began.Since() < recent
}

// maxRetries bounds the threads that are remembered to have been sent to look a
// name up again.
const maxRetries = 4096

// tellName returns when the kernel knows what has n's name now: whoever closes
// a file and then asks for its name finds what he wrote, or what won. Callers
// hold no lock, and no request that changes the directory is theirs.
func (fs *fileSystem) tellName(ctx context.Context, n *node) {
	fs.mu.RLock()
	m := n.nowLocked()
	number := m.had().named
	fs.mu.RUnlock()
	if m != n && number != 0 {
		_ = fs.notify.Await(ctx, number-1, number)
	}
}
