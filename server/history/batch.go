package history

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"mneme/internal/strictjson"
	"mneme/jsonview"
	"mneme/memory"
	"mneme/server/reply"
	"mneme/versionlog"
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
		changes[i].Path, err = memory.ParsePath(changes[i].Path)
		if err == nil && changes[i].To != "" {
			changes[i].To, err = memory.ParsePath(changes[i].To)
		}
		if err != nil {
			return nil, fmt.Errorf("change %d: %w", i+1, err)
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
		return nil, ofChanges(err, changes)
	}
	return jsonview.NewCommit(commit), nil
}

// maxNamed is how many changes an error names.
const maxNamed = 10

// ofChanges has an error of a batch say which of its changes cannot be made, by their numbers, from 1, and
// paths, and nothing of what is there.
func ofChanges(err error, changes []memory.Change) error {
	of := func(path string) string {
		i := slices.IndexFunc(changes, func(c memory.Change) bool { return c.Path == path || c.To == path })
		if i < 0 { // a directory above one
			return fmt.Sprintf("%q", path)
		}
		return fmt.Sprintf("change %d, of %q", i+1, path)
	}
	if overlap, ok := errors.AsType[*versionlog.OverlapError](err); ok {
		return fmt.Errorf("%s: %w", of(overlap.Path), reply.NewPathConflict(err))
	}
	lost, ok := errors.AsType[*versionlog.ConflictError](err)
	if !ok {
		return err
	}
	var named []string
	for _, c := range lost.Conflicts[:min(len(lost.Conflicts), maxNamed)] {
		named = append(named, of(c.Path))
	}
	if more := len(lost.Conflicts) - len(named); more > 0 {
		named = append(named, fmt.Sprintf("%d more", more))
	}
	return &reply.PreconditionError{Text: strings.Join(named, ", and ") + ": what is there is not what the change presumes", Err: err}
}
