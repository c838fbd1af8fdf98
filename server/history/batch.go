package history

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
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
	b, err := jsonview.ReadBatch(c.body, strictjson.Limits{Bytes: maxBody, Values: 20_000})
	if err != nil {
		return nil, err
	}
	key, err := reply.IdempotencyKey(c.Request)
	switch {
	case err != nil:
		return nil, err
	case key != "" && b.Key != "":
		return nil, reply.Invalidf("x-idempotency-key: the body has an idempotency_key, too; give one of them")
	}
	once := c.caller.Once(cmp.Or(b.Key, key), string(c.body))
	opts := once.Options()
	opts.Message = b.Message
	commit, err := c.store.Batch(ctx, b.Changes, opts)
	if err == nil {
		err = once.Check(commit)
	}
	if err != nil {
		return nil, ofChanges(err, b.Changes)
	}
	return jsonview.NewCommit(commit), nil
}

// maxNamed is how many changes an error names.
const maxNamed = 10

// numberOf is the number of the change, from 1, that has a path; 0: none.
func numberOf(path string, changes []memory.Change) int {
	return 1 + slices.IndexFunc(changes, func(c memory.Change) bool { return c.Path == path || c.To == path })
}

// ofChanges makes an error of a batch name the changes that cannot be made, by their
// numbers, from 1, and paths, without the current content.
func ofChanges(err error, changes []memory.Change) error {
	err = jsonview.NumberedError(err)
	if overlap, ok := errors.AsType[*versionlog.OverlapError](err); ok {
		text := named(changes, overlap.Path)
		if above := above(changes, overlap.Path); overlap.With.Path == "" && above != "" { // both are in the batch
			text += ", and " + named(changes, above)
		}
		return fmt.Errorf("%s: %w", text, reply.NewPathConflict(err))
	}
	lost, ok := errors.AsType[*versionlog.ConflictError](err)
	if !ok {
		return err
	}
	paths := map[int][]string{} // by the number of the change
	for _, c := range lost.Conflicts {
		n := numberOf(c.Path, changes)
		paths[n] = append(paths[n], c.Path)
	}
	var all []string
	for _, n := range slices.Sorted(maps.Keys(paths)) {
		all = append(all, named(changes, paths[n]...))
	}
	if more := len(all) - maxNamed; more > 0 {
		all = append(all[:maxNamed], fmt.Sprintf("%d more", more))
	}
	return &reply.PreconditionError{Text: strings.Join(all, ", and ") + ": what is there is not what the change presumes", Err: err}
}

// named names a change by its number and those of its paths that matter.
func named(changes []memory.Change, paths ...string) string {
	shown := make([]string, len(paths))
	for i, path := range paths {
		shown[i] = strconv.Quote(path)
	}
	text := strings.Join(shown, " and ")
	if n := numberOf(paths[0], changes); n > 0 { // else a directory above one
		text = fmt.Sprintf("change %d, of %s", n, text)
	}
	return text
}

// above is the path to which a change brings a memory, and which is above another one; "": none is.
func above(changes []memory.Change, path string) string {
	for _, c := range changes {
		if to := cmp.Or(c.To, c.Path); c.Action != versionlog.Remove && strings.HasPrefix(path, to+"/") {
			return to
		}
	}
	return ""
}
