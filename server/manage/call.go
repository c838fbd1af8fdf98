package manage

import (
	"context"
	"net/http"
	"time"

	"mneme/internal/strictjson"
	"mneme/server/access"
)

// Route is one operation.
type Route struct {
	Method, Path string
	IsAdmin      bool // only for keys with the right admin in every store
	do           func(context.Context, *call) (any, error)
}

// call is one request, as far as it was checked.
type call struct {
	*http.Request
	registry *access.Registry
	now      func() time.Time
	caller   *access.Caller
	body     []byte
}

// object returns the body, an object; an empty body is an empty one.
func (c *call) object() (*strictjson.Object, error) {
	body := c.body
	if len(body) == 0 {
		body = []byte("{}")
	}
	return strictjson.Parse(body, &strictjson.Limits{Depth: 4, Values: 1000})
}

// bare has an operation refuse a body with a field.
func bare(do func(context.Context, *call) (any, error)) func(context.Context, *call) (any, error) {
	return func(ctx context.Context, c *call) (any, error) {
		o, err := c.object()
		if err == nil {
			err = o.Done()
		}
		if err != nil {
			return nil, err
		}
		return do(ctx, c)
	}
}
