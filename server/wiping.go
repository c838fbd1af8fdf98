package server

import "net"

// wipingListener has connections overwrite what is read into. net/http gives the buffers of connections that
// have ended to others, with what clients have sent.
type wipingListener struct{ net.Listener }

// Accept is part of net.Listener. One that is of TLS stays what it is, for net/http has to know it.
func (l wipingListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if _, isSocket := conn.(closeWriter); err != nil || !isSocket || beneath(conn) != conn {
		return conn, err
	}
	return wipingConn{conn}, nil
}

// closeWriter is a connection of which net/http ends one direction, so that a client hears why it was refused.
type closeWriter interface{ CloseWrite() error }

type wipingConn struct{ net.Conn }

// Read overwrites all of p before it waits.
func (c wipingConn) Read(p []byte) (int, error) {
	clear(p)
	return c.Conn.Read(p)
}

// CloseWrite is a closeWriter's.
func (c wipingConn) CloseWrite() error { return c.Conn.(closeWriter).CloseWrite() }

// NetConn is the connection beneath.
func (c wipingConn) NetConn() net.Conn { return c.Conn }

// beneath returns the connection of the system that one stands on.
func beneath(conn net.Conn) net.Conn {
	for {
		on, ok := conn.(interface{ NetConn() net.Conn })
		if !ok {
			return conn
		}
		conn = on.NetConn()
	}
}
