package api

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"mneme/cas"
	"mneme/forget"
	"mneme/memory"
	"mneme/server/reply"
	"mneme/versionlog"
)

func getVersion(ctx context.Context, c *call) (any, error) {
	full, err := c.isFull(true)
	if err != nil {
		return nil, err
	}
	st, err := c.open(ctx)
	if err != nil {
		return nil, err
	}
	v, err := c.version(ctx, st)
	if err != nil {
		return nil, err
	}
	return newVersion(ctx, st, v, full)
}

// version is that of the path.
func (c *call) version(ctx context.Context, st *memory.Store) (versionlog.Version, error) {
	v, err := st.Version(ctx, c.PathValue("version"))
	if err == nil && v.IsDir() {
		err = versionlog.ErrNotFound
	}
	return v, err
}

// versionFilter is what a list of versions is asked for.
type versionFilter struct {
	memoryID, operation string
	actor               versionlog.Actor // Kind "": any
	from, to            time.Time
}

func (f *versionFilter) takes(v *versionlog.Version) bool {
	return !v.IsDir() && (f.memoryID == "" || v.MemoryID == f.memoryID) && (f.operation == "" || operationOf(v.Op) == f.operation) &&
		f.isBy(v) && (f.to.IsZero() || !v.Time.After(f.to)) && (f.from.IsZero() || !v.Time.Before(f.from))
}

// isBy reports whether a version is of the author that is asked for. A session wrote it also where that was
// with a token, in the name of a key.
func (f *versionFilter) isBy(v *versionlog.Version) bool {
	return f.actor.Kind == "" || v.Actor == f.actor || f.actor.Kind == versionlog.ActorSession && v.Session == f.actor.ID
}

func (c *call) versionFilter() (*versionFilter, error) {
	q := c.URL.Query()
	f := &versionFilter{memoryID: q.Get("memory_id"), operation: q.Get("operation")}
	if !slices.Contains([]string{"", "created", "modified", "deleted"}, f.operation) {
		return nil, reply.Invalidf("operation: it must be created, modified or deleted")
	}
	for name, kind := range map[string]versionlog.ActorKind{
		"session_id": versionlog.ActorSession, "api_key_id": versionlog.ActorAPIKey, "service_account_id": versionlog.ActorServiceAccount,
	} {
		if id := q.Get(name); id != "" {
			if f.actor.Kind != "" {
				return nil, reply.Invalidf("only one of session_id, api_key_id and service_account_id may be given")
			}
			f.actor = versionlog.Actor{Kind: kind, ID: id}
		}
	}
	var err error
	f.from, f.to, err = c.times()
	return f, err
}

func listVersions(ctx context.Context, c *call) (any, error) {
	full, err := c.isFull(false)
	if err != nil {
		return nil, err
	}
	limit, err := c.limit(full)
	if err != nil {
		return nil, err
	}
	f, err := c.versionFilter()
	if err != nil {
		return nil, err
	}
	after, err := c.after()
	if err != nil {
		return nil, err
	}
	st, err := c.open(ctx)
	if err != nil {
		return nil, err
	}
	p := c.newPager(limit)
	for v, err := range f.versions(ctx, st, after) {
		if err != nil {
			return nil, err
		}
		if !f.takes(&v) {
			continue
		}
		if p.full() {
			break
		}
		one, err := newVersion(ctx, st, v, full)
		if err != nil {
			return nil, err
		}
		p.add(v.ID, one)
	}
	return p.page, nil
}

// versions yields the versions that the filter may take, newest first, from behind one on:
// ids sort as the history does.
func (f *versionFilter) versions(ctx context.Context, st *memory.Store, after string) iter.Seq2[versionlog.Version, error] {
	return func(yield func(versionlog.Version, error) bool) {
		before := uint64(0)
		if after != "" {
			seq, _, err := versionlog.LocateVersion(after)
			if err != nil {
				yield(versionlog.Version{}, reply.Invalidf("page: it is not what next_page was"))
				return
			}
			before = seq + 1
		}
		if f.memoryID != "" {
			for v, err := range st.HistoryOf(ctx, f.memoryID, before) {
				if errors.Is(err, versionlog.ErrNotFound) {
					return
				}
				if err == nil && after != "" && v.ID >= after {
					continue
				}
				if !yield(v, err) {
					return
				}
			}
			return
		}
		of := versionlog.Filter{From: f.from, To: f.to, ActorID: f.actor.ID}
		if f.actor.Kind == versionlog.ActorSession { // whose actor may be a key
			of.ActorID, of.Session = "", f.actor.ID
		}
		for commit, err := range st.CommitsBefore(ctx, before, of) {
			if err != nil {
				yield(versionlog.Version{}, err)
				return
			}
			for _, v := range slices.Backward(commit.Versions) {
				if after != "" && v.ID >= after {
					continue
				}
				if !yield(v, nil) {
					return
				}
			}
		}
	}
}

// redactReason is the message of a redaction by this API, which takes none.
const redactReason = "redacted over the API"

func redactVersion(ctx context.Context, c *call) (any, error) {
	if err := c.empty(); err != nil {
		return nil, err
	}
	st, err := c.open(ctx)
	if err != nil {
		return nil, err
	}
	v, err := c.version(ctx, st)
	if err != nil {
		return nil, err
	}
	asked := &forget.Request{Versions: []string{v.ID}, Reason: redactReason}
	if v.Live() {
		asked.Contents = []cas.Digest{v.Digest}
	}
	receipt, err := forget.Redact(ctx, c.Machine, st, asked)
	c.caller.HasErased(st.Info().ID)
	if err != nil {
		return nil, err
	}
	if v, err = c.version(ctx, st); err != nil {
		return nil, err
	}
	answer, err := newVersion(ctx, st, v, false)
	answer.Redaction = receipt
	return answer, err
}
