package fusefs

import "mneme/versionlog"

// In a quiet mount, whose files nobody writes, bytes that were fetched ahead are
// put into the kernel's page cache before anybody asks for them: a read then
// costs no request. The kernel must know the file first, so that what was
// fetched before its directory was listed is pushed when the listing ends.

// push gives the kernel the content of n, which is that of version, and reports
// whether it has taken it. Callers hold no lock.
func (fs *fileSystem) push(n *node, version *versionlog.Version, data []byte) bool {
	const most = 1 << 20
	if !fs.quiet || fs.server == nil || len(data) == 0 || len(data) > most {
		return false
	}
	fs.mu.RLock()
	fit := n.head == version && n.lookups > 0
	fs.mu.RUnlock()
	return fit && fs.server.InodeNotifyStoreCache(n.id, 0, data).Ok()
}

// delivered notes that the kernel has what was fetched of n for a walk.
// Caller holds p.mu.
func (p *prefetcher) delivered(w *walk, n *node) {
	if n.ahead.CompareAndSwap(w, nil) {
		w.pushed.files++
		w.pushed.bytes += n.sizeAhead
		n.dataAhead = fetched{}
	}
}

// listed notes that a directory has been listed to its end: the reader of the
// walk that comes through it is there. What was fetched of it is pushed.
// Callers hold no lock.
func (p *prefetcher) listed(dir *node) {
	type waiting struct {
		n *node
		w *walk
		fetched
	}
	var all []waiting
	p.mu.Lock()
	if len(p.walks) > 0 {
		p.fs.mu.RLock()
		for _, n := range dir.children {
			if w := n.ahead.Load(); w != nil {
				all = append(all, waiting{n, w, n.dataAhead})
			}
		}
		p.fs.mu.RUnlock()
	}
	if len(all) > 0 {
		p.moved(all[0].w)
	}
	p.mu.Unlock()
	for _, f := range all {
		if f.data != nil && p.fs.push(f.n, f.version, f.data) {
			p.mu.Lock()
			p.delivered(f.w, f.n)
			p.mu.Unlock()
		}
	}
}
