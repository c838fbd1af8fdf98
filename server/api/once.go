package api

import (
	"context"

	"mneme/memory"
	"mneme/server/access"
	"mneme/server/reply"
	"mneme/versionlog"
)

// once is a request that makes one version.
type once struct{ access.Once }

// once reads the header.
func (c *call) once() (once, error) {
	name, err := reply.IdempotencyKey(c.Request)
	if err != nil {
		return once{}, err
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
