// Package kernelcache keeps what the kernel has of a mount true, and gives it what a program
// is about to read. The kernel keeps names, attributes and pages without a timeout, so that it
// has to be told when they change (Notices). A program that walks a tree reads files in the
// order of listings, so that they are fetched before it asks (Prefetcher) and put into the
// kernel's page cache. Inode is what is known of the kernel's side of one file or directory.
package kernelcache

import "time"

// Kernel is the connection to the kernel. The kernel takes locks of the inodes concerned, which
// a request that is being answered may hold: no method is called by the goroutine of a request.
// After the end of the connection the methods do nothing.
type Kernel interface {
	// Forget gives the kernel notices about one inode, and returns when it has taken them in.
	// It reports whether the kernel does not know the inode that a notice without a name is about.
	Forget(notices []Notice) (unknown bool)
	// Store puts data into the page cache of an inode, from its start, and reports whether the
	// kernel has taken it.
	Store(inode uint64, data []byte) (taken bool)
}

// Notice makes the kernel forget something of an inode: a name of a directory, if Name is set, which
// it then looks up again; else the attributes and, with Pages, the content, which is the listing of
// a directory.
type Notice struct {
	Inode uint64
	Name  string
	Pages bool
}

// Instant is a time on the monotonic clock of this process, in nanoseconds; 0 is never.
type Instant int64

var began = time.Now()

// Now returns the current time. It is never 0.
func Now() Instant { return Instant(time.Since(began)) + 1 }

// Since returns how long ago t was.
func (t Instant) Since() time.Duration { return time.Duration(Now() - t) }
