package server

import (
	"container/list"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"syscall"
)

// DefaultMaxConnections is how many connections are open at once, where the process may have twice as
// many files; else half of those.
const DefaultMaxConnections = 16 << 10

// crowd bounds how many connections are open. One that is too many takes the place of the one that has
// been without a request for the longest time, its own where all others have one. So nobody keeps others
// out by connections that say nothing, or say it slowly: a connection has a request once its headers
// were read.
type crowd struct {
	most int

	mu   sync.Mutex // guards what follows; a leaf
	open map[net.Conn]*list.Element
	idle list.List // the connections without a request, that without one for the longest time first
}

func newCrowd(most int) *crowd {
	var files syscall.Rlimit
	if most == 0 {
		most = DefaultMaxConnections
		if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err == nil && files.Cur/2 < DefaultMaxConnections {
			most = int(files.Cur / 2)
		}
	}
	return &crowd{most: most, open: map[net.Conn]*list.Element{}}
}

// note is http.Server.ConnState.
func (c *crowd) note(conn net.Conn, state http.ConnState) {
	if leaves := c.move(conn, state); leaves != nil {
		if encrypted, ok := leaves.(*tls.Conn); ok {
			leaves = encrypted.NetConn() // says no farewell, which may take time
		}
		_ = leaves.Close()
	}
}

// move notes the state of a connection, and returns the one that has to leave for it; nil: none.
func (c *crowd) move(conn net.Conn, state http.ConnState) (leaves net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, isOpen := c.open[conn]
	if !isOpen && state != http.StateNew { // it had to leave
		return nil
	}
	if at != nil {
		c.idle.Remove(at)
	}
	switch state {
	case http.StateNew, http.StateIdle:
		c.open[conn] = c.idle.PushBack(conn)
	case http.StateActive:
		c.open[conn] = nil
	case http.StateClosed, http.StateHijacked:
		delete(c.open, conn)
	}
	if len(c.open) <= c.most {
		return nil
	}
	leaves = c.idle.Remove(c.idle.Front()).(net.Conn)
	delete(c.open, leaves)
	return leaves
}
