package api

import (
	"context"
	"strings"

	"mneme/memory"
	"mneme/server/access"
	"mneme/server/reply"
	"mneme/versionlog"
)

// idempotencyKey is the header by which a client names a request that it may make again.
const idempotencyKey = "X-Idempotency-Key"

const maxOnce = 255 // bytes of the header

// once is a request that makes one version.
type once struct{ access.Once }

// once reads the header.
func (c *call) once() (once, error) {
	names := c.Header.Values(idempotencyKey)
	if len(names) == 0 {
		return once{}, nil
	}
	name := names[0]
	switch {
	case len(names) > 1:
		return once{}, reply.Invalidf("x-idempotency-key: it is there %d times", len(names))
	case name == "" || len(name) > maxOnce || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' }):
		return once{}, reply.Invalidf("x-idempotency-key: it must have 1 to %d visible characters of ASCII, and no space", maxOnce)
	}
	return once{c.caller.Once(name, c.Method, c.URL.RequestURI(), string(c.body))}, nil
}

// earlier returns the version that the request made when it came before; ok is false where it
// did not.
func (o once) earlier(ctx context.Context, st *memory.Store) (v versionlog.Version, ok bool, err error) {
	if o.Key == "" {
		return v, false, nil
	}
	c, err := st.Earlier(ctx, o.Key)
	if err != nil || c == nil {
		return v, false, err
	}
	return o.made(c)
}

// made returns the version of the commit that the request has made; ok is false where it has made
// none.
func (o once) made(c *versionlog.Commit) (v versionlog.Version, ok bool, err error) {
	if err := o.Check(c); err != nil || len(c.Versions) == 0 {
		return v, false, err
	}
	if c.Versions[0].Redacted() {
		return v, false, access.ErrOnceRedacted
	}
	return c.Versions[0], true, nil
}

// commit makes a change and returns the version that it made; ok is false where the change was the
// case already.
func (o once) commit(ctx context.Context, st *memory.Store, change memory.Change) (v versionlog.Version, ok bool, err error) {
	c, err := st.Batch(ctx, []memory.Change{change}, o.Options())
	if err != nil {
		return v, false, err
	}
	return o.made(c)
}
