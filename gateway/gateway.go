// Package gateway is a version log and its blobs that are on a server, used over HTTP by the
// protocol of package wire. It holds no credentials of the server's backend. Server and
// client may end, and the network break, at any moment: a request is retried within a limit,
// and a commit whose reply was lost is resolved by its key, so it is made once.
package gateway

import (
	"context"
	"fmt"

	"mneme/gateway/wire"
	"mneme/versionlog"
)

// Open returns the log of the server at a URL, which Parse takes. It asks the server for
// its capabilities, and about the credential. Errors: ErrUnavailable, ErrCredential,
// ErrProtocol.
func Open(ctx context.Context, rawURL string, opts *Options) (*Log, error) {
	if opts == nil {
		opts = &Options{}
	}
	c, err := newClient(rawURL, opts)
	if err != nil {
		return nil, err
	}
	l := &Log{client: c, feeds: map[string]*feed{}, blobs: map[string]*Blobs{}}
	hello, err := l.meet(ctx)
	if err != nil {
		c.close()
		return nil, fmt.Errorf("%s: %w", rawURL, err)
	}
	l.life, l.ended = context.WithCancel(context.Background())
	l.can = l.capabilities(hello)
	if c.token != nil {
		l.work.Go(l.watch)
	}
	return l, nil
}

func (l *Log) capabilities(h *wire.Hello) versionlog.Capabilities {
	can := versionlog.Capabilities{MaxContent: max(0, min(h.MaxContent, wire.MaxContent)), ErasesContents: h.ErasesContents, Next: l.next}
	if h.Purges {
		can.Purge = l.purge
	}
	if h.TellsUnpurged {
		can.Unpurged = l.unpurged
	}
	l.forgets = h.Forgets
	if h.TellsLeft {
		can.Left = l.left
	}
	return can
}
