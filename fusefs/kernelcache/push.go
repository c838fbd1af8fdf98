package kernelcache

import (
	"sync"

	"mneme/memory"
)

// maxPush is how many bytes a file may have that is pushed.
const maxPush = 1 << 20

// pusher puts the bytes of files into the kernel's page cache: a read then costs no request. The
// kernel must know the file before: what was fetched before its directory was listed is pushed
// when the listing ends.
type pusher struct {
	mount  sync.Locker // guards the inodes
	source Source
	kernel Kernel // nil: nothing is pushed
}

// push gives the kernel data, the content of a version, if that is what a reader of a file gets,
// and reports whether the kernel has taken it.
func (p *pusher) push(n Node, head *memory.Head, data []byte) (taken bool) {
	if p.kernel == nil || len(data) == 0 || len(data) > maxPush {
		return false
	}
	c := n.Cache()
	p.mount.Lock()
	fit := p.source.PushableLocked(n, head) && c.beginPush()
	p.mount.Unlock()
	if !fit {
		return false
	}
	taken = p.kernel.Store(n.Number(), data)
	p.mount.Lock()
	defer p.mount.Unlock()
	c.endPush()
	return taken
}
