package history

import (
	"bytes"
	"context"
	"encoding/json"

	"mneme/internal/strictjson"
	"mneme/jsonview"
	"mneme/memory"
	"mneme/server/reply"
)

// batch makes several changes in one commit, or none. A request that comes again under its
// idempotency key is answered by the commit that it made.
func batch(ctx context.Context, c *call) (any, error) {
	if err := strictjson.Check(c.body, &strictjson.Limits{Bytes: maxBody, Depth: 4, Values: 20_000, Plain: true}); err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(c.body))
	decoder.DisallowUnknownFields()
	var b jsonview.Batch
	if err := decoder.Decode(&b); err != nil {
		return nil, reply.Invalidf("the body: %v", err)
	}
	if len(b.Changes) == 0 {
		return nil, reply.Invalidf("changes: there are none")
	}
	changes, err := b.Parse()
	if err != nil {
		return nil, reply.Invalidf("changes: %v", err)
	}
	for i := range changes {
		if changes[i].Path, err = memory.ParsePath(changes[i].Path); err != nil {
			return nil, err
		}
		if changes[i].To == "" {
			continue
		}
		if changes[i].To, err = memory.ParsePath(changes[i].To); err != nil {
			return nil, err
		}
	}
	once := c.caller.Once(b.Key, string(c.body))
	opts := once.Options()
	opts.Message = b.Message
	commit, err := c.store.Batch(ctx, changes, opts)
	if err == nil {
		err = once.Check(commit)
	}
	if err != nil {
		return nil, err
	}
	return jsonview.NewCommit(commit), nil
}
