package fusefs

import (
	"mneme/memory"
)

// Bytes that were fetched ahead are put into the kernel's page cache before
// anybody asks for them: a read then costs no request. The kernel must know the
// file first, so that what was fetched before its directory was listed is pushed
// when the listing ends.
//
// An inode whose files nobody writes has one content for ever, see succeed.go.
// What a program has written the kernel must not lose to a push: an inode that
// was opened for writing once gets none any more, and the first such open waits
// for those under way.

// push gives the kernel the content of n, which is that of version, and reports
// whether it has taken it. Callers hold no lock.
func (fs *fileSystem) push(n *node, version *memory.Head, data []byte) bool {
	const most = 1 << 20
	if fs.storePages == nil || len(data) == 0 || len(data) > most {
		return false
	}
	fs.mu.Lock()
	fit := n.head == version && n.lookups > 0 && !n.written && !n.mustRead()
	if fit {
		n.pushing++
	}
	fs.mu.Unlock()
	if !fit {
		return false
	}
	status := fs.storePages(n.id, 0, data)
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if n.pushing--; n.pushing == 0 && n.written {
		fs.pushed.Broadcast()
	}
	return status.Ok()
}

// startWriting returns when n's pages are those of who is about to write them.
// Caller holds fs.mu, which is released meanwhile.
func (fs *fileSystem) startWriting(n *node) {
	n.written = true
	for n.pushing > 0 {
		fs.pushed.Wait()
	}
}

// listed notes that a directory has been listed to its end: the reader of the
// walk that comes through it is there. What was fetched of it is pushed.
// Callers hold no lock.
func (p *prefetcher) listed(dir *node) {
	var fetches []*fetch
	p.mu.Lock()
	if len(p.walks) > 0 {
		p.fs.mu.RLock()
		for _, n := range dir.children {
			if f := n.ahead.Load(); f != nil {
				fetches = append(fetches, f)
			}
		}
		p.fs.mu.RUnlock()
	}
	if len(fetches) > 0 {
		p.moved(fetches[0].walk)
	}
	p.mu.Unlock()
	for _, f := range fetches {
		if f.there() {
			p.give(f)
		}
	}
}
