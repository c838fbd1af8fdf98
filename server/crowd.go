package server

import (
	"container/list"
	"context"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	"mneme/internal/share"
	"mneme/server/access"
)

// DefaultMaxConnections is how many connections are open at once, where the process may have twice as
// many files; else half of those.
const DefaultMaxConnections = 16 << 10

// strangerBuffer is how many bytes of answers the kernel keeps for a client without a credential.
const strangerBuffer = 32 << 10

// crowd bounds how many connections are open. One that is too many takes the place of another one.
//
//  1. A connection is held from when a request of it had a credential that counts until it has no
//     request. One key holds at most a quarter of all, one of its tokens an eighth.
//  2. Each other one may have to leave: it has no request, or one that is not read yet, has no
//     credential, or is beyond the share of its caller, whether its answer is being read or not.
//  3. The one leaves that has been such a one for the longest time: of the address of the new one, if
//     that has a quarter of all, else of any.
type crowd struct {
	most int
	held share.Shares // by callers

	mu     sync.Mutex // guards the fields below; taken before the lock of held
	open   map[net.Conn]*guest
	loose  list.List             // of guests, that which may have to leave for the longest time first
	nearby map[string]*list.List // the same of each address
}

// guest is a connection of a crowd.
type guest struct {
	conn     net.Conn
	from     string        // its address; "": a socket
	loose    *list.Element // nil: it is held
	nearby   *list.Element
	giveBack func() // releases the room of a held connection
}

func newCrowd(most int) *crowd {
	var files syscall.Rlimit
	if most == 0 {
		most = DefaultMaxConnections
		if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err == nil && files.Cur/2 < DefaultMaxConnections {
			most = int(files.Cur / 2)
		}
	}
	return &crowd{most: most, open: map[net.Conn]*guest{}, nearby: map[string]*list.List{}}
}

// note is http.Server.ConnState.
func (c *crowd) note(conn net.Conn, state http.ConnState) {
	if leaves := c.move(conn, state); leaves != nil {
		leaves = beneath(leaves) // TLS says a farewell, which may take time
		if tcp, ok := leaves.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // else the kernel keeps what the client does not read
		}
		_ = leaves.Close()
	}
}

// move notes the state of a connection, and returns the one that has to leave for it; nil: none.
func (c *crowd) move(conn net.Conn, state http.ConnState) (leaves net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.open[conn]
	if g == nil && state != http.StateNew { // it had to leave
		return nil
	}
	switch state {
	case http.StateNew:
		g = &guest{conn: conn, from: addressOf(conn)}
		c.open[conn] = g
		c.loosenLocked(g)
	case http.StateIdle:
		c.tightenLocked(g)
		c.loosenLocked(g)
	case http.StateClosed, http.StateHijacked:
		c.removeLocked(g)
	}
	if len(c.open) <= c.most {
		return nil
	}
	first := c.loose.Front()
	if near := c.nearby[g.from]; g.from != "" && near.Len() > c.most/4 {
		first = near.Front()
	}
	g = first.Value.(*guest)
	c.removeLocked(g)
	return g.conn
}

// loosenLocked has a connection leave when another one needs its place.
func (c *crowd) loosenLocked(g *guest) {
	if g.giveBack != nil {
		g.giveBack()
		g.giveBack = nil
	}
	g.loose = c.loose.PushBack(g)
	if c.nearby[g.from] == nil {
		c.nearby[g.from] = list.New()
	}
	g.nearby = c.nearby[g.from].PushBack(g)
}

// tightenLocked has a connection stay.
func (c *crowd) tightenLocked(g *guest) {
	if g.loose == nil {
		return
	}
	c.loose.Remove(g.loose)
	near := c.nearby[g.from]
	if near.Remove(g.nearby); near.Len() == 0 {
		delete(c.nearby, g.from)
	}
	g.loose, g.nearby = nil, nil
}

func (c *crowd) removeLocked(g *guest) {
	c.tightenLocked(g)
	if g.giveBack != nil {
		g.giveBack()
	}
	delete(c.open, g.conn)
}

// hold has the connection of a request stay until it is idle, if that is in its caller's share.
func (c *crowd) hold(r *http.Request, caller *access.Caller) {
	conn, _ := r.Context().Value(connKey{}).(net.Conn)
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.open[conn]
	if g == nil || g.loose == nil {
		return
	}
	key, token := caller.Actor.ID, ""
	if caller.Token != "" {
		token = key + "/" + caller.Token
	}
	giveBack, ok := c.held.Take(share.Bound{Of: key, Most: max(1, c.most/4)}, share.Bound{Of: token, Most: max(1, c.most/8)})
	if ok {
		c.tightenLocked(g)
		g.giveBack = giveBack
	}
}

type (
	connKey      struct{}
	connectedKey struct{}
)

// remember is http.Server.ConnContext: requests know their connection, and when it came.
func (c *crowd) remember(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(context.WithValue(ctx, connKey{}, conn), connectedKey{}, time.Now())
}

// narrow makes the kernel buffer little for the client of a request, which may not read its
// answer.
func narrow(r *http.Request) {
	conn, _ := r.Context().Value(connKey{}).(net.Conn)
	if buffered, ok := beneath(conn).(interface{ SetWriteBuffer(int) error }); ok {
		_ = buffered.SetWriteBuffer(strangerBuffer) // one that cannot keeps more
	}
}

// addressOf returns what counts as one address of a connection; "" for a socket.
func addressOf(conn net.Conn) string {
	host, _, err := net.SplitHostPort(conn.RemoteAddr().String())
	if err != nil {
		return ""
	}
	return bucket(host)
}
