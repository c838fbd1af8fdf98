package api

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"

	"mneme/cas"
	"mneme/internal/strictjson"
	"mneme/memory"
	"mneme/server/reply"
	"mneme/versionlog"
)

func createMemory(ctx context.Context, c *call) (any, error) {
	st, err := c.open(ctx)
	if err != nil {
		return nil, err
	}
	full, err := c.isFull(false)
	if err != nil {
		return nil, err
	}
	o, err := c.object()
	if err != nil {
		return nil, err
	}
	path, err := o.String("path")
	if err != nil {
		return nil, err
	}
	if !o.Has("content") {
		return nil, reply.Invalidf("content must be given; it may be empty")
	}
	content, _, err := o.OptString("content")
	if err != nil {
		return nil, err
	}
	if err := o.Done(); err != nil {
		return nil, err
	}
	if path, err = memory.ParsePath(path); err != nil {
		return nil, err
	}
	once, err := c.once()
	if err != nil {
		return nil, err
	}
	v, _, err := once.commit(ctx, st, memory.Change{Action: versionlog.Put, Path: path, Content: []byte(content), Expect: versionlog.ExpectAbsent()})
	if err != nil {
		return nil, asPathConflict(err, path)
	}
	return newMemory(ctx, st, v, full)
}

// head is the memory of the path, where it is live.
func (c *call) head(ctx context.Context, st *memory.Store) (versionlog.Version, error) {
	v, err := st.Newest(ctx, c.PathValue("memory"))
	return v, cmp.Or(err, absent(&v))
}

// absent is versionlog.ErrNotFound unless the newest version of a memory is a file that is there.
func absent(newest *versionlog.Version) error {
	if !newest.Live() || newest.IsDir() || newest.Redacted() {
		return versionlog.ErrNotFound
	}
	return nil
}

func getMemory(ctx context.Context, c *call) (any, error) {
	full, err := c.isFull(true)
	if err != nil {
		return nil, err
	}
	st, err := c.open(ctx)
	if err != nil {
		return nil, err
	}
	if !full {
		v, err := c.head(ctx, st)
		if err != nil {
			return nil, err
		}
		return memoryOf(st, v), nil
	}
	v, data, err := st.ReadNewest(ctx, c.PathValue("memory"))
	if err = cmp.Or(err, absent(&v)); err != nil {
		return nil, err
	}
	return fullMemory(st, v, data), nil
}

// update is what an update asks for.
type update struct {
	content, path *string
	expect        func(*versionlog.Version) bool // of the head; nil: anything
	once          once
}

func (c *call) update() (*update, error) {
	o, err := c.object()
	if err != nil {
		return nil, err
	}
	u := &update{}
	if content, given, err := o.OptString("content"); err != nil {
		return nil, err
	} else if given {
		u.content = &content
	}
	if path, given, err := o.OptString("path"); err != nil {
		return nil, err
	} else if given {
		if path, err = memory.ParsePath(path); err != nil {
			return nil, err
		}
		u.path = &path
	}
	if o.Has("precondition") { // null is none: an update must not go without the condition that was meant
		p, err := o.Object("precondition")
		if err != nil {
			return nil, err
		}
		if u.expect, err = precondition(p); err != nil {
			return nil, err
		}
	}
	if u.content == nil && u.path == nil {
		return nil, reply.Invalidf("at least one of content and path must be given")
	}
	return u, o.Done()
}

// precondition reads what a precondition says of the head.
func precondition(o *strictjson.Object) (func(*versionlog.Version) bool, error) {
	kind, err := o.String("type")
	if err != nil {
		return nil, err
	}
	var holds func(*versionlog.Version) bool
	switch kind {
	case "content_sha256":
		text, err := o.String("content_sha256")
		if err != nil {
			return nil, err
		}
		sum, err := cas.ParseDigest(text)
		if err != nil {
			return nil, reply.Invalidf("content_sha256: it must have 64 hexadecimal digits in lower case")
		}
		holds = func(v *versionlog.Version) bool { return v.Digest == sum }
	case "version":
		id, err := o.String("memory_version_id")
		if err != nil {
			return nil, err
		}
		holds = func(v *versionlog.Version) bool { return v.ID == id }
	default:
		return nil, reply.Invalidf("precondition: its type must be content_sha256 or version")
	}
	return holds, o.Done()
}

// updateMemory judges an update by the newest version, and asks the log to take it only if
// that still is the newest.
func updateMemory(ctx context.Context, c *call) (any, error) {
	st, err := c.open(ctx)
	if err != nil {
		return nil, err
	}
	full, err := c.isFull(false)
	if err != nil {
		return nil, err
	}
	u, err := c.update()
	if err != nil {
		return nil, err
	}
	if u.once, err = c.once(); err != nil {
		return nil, err
	}
	if v, ok, err := u.once.earlier(ctx, st); ok || err != nil {
		if err != nil {
			return nil, err
		}
		return newMemory(ctx, st, v, full)
	}
	for {
		head, err := c.head(ctx, st)
		if err != nil {
			return nil, err
		}
		if u.isCase(&head) { // also where the precondition does not hold: a request that is made again
			return newMemory(ctx, st, head, full)
		}
		v, again, err := u.replace(ctx, st, &head)
		switch {
		case again:
		case err != nil:
			return nil, err
		default:
			return newMemory(ctx, st, v, full)
		}
	}
}

// replace makes the update of a head whose precondition holds. again reports that another writer was faster,
// and that the update must be judged by the new head.
func (u *update) replace(ctx context.Context, st *memory.Store, head *versionlog.Version) (v versionlog.Version, again bool, err error) {
	if u.expect != nil && !u.expect(head) {
		return v, false, &versionlog.ConflictError{StoreID: st.Info().ID, Conflicts: []versionlog.Conflict{{Path: head.Path, Head: head}}}
	}
	if err := u.replacesText(ctx, st, head); err != nil {
		return v, false, err
	}
	v, made, err := u.make(ctx, st, head)
	if err == nil && !made { // the other writer made the same
		return v, true, nil
	}
	if now, lost := versionlog.ConflictAt(err, head.Path); lost && (now == nil || now.ID != head.ID) {
		return v, true, nil
	}
	if err != nil && u.path != nil {
		err = asPathConflict(err, *u.path)
	}
	return v, false, err
}

// replacesText refuses a content for a memory that is not text. The client was told that its content
// is null, which the SDKs' worker takes for an empty one: it would write that, or what was made of
// it, on condition of a digest that holds.
func (u *update) replacesText(ctx context.Context, st *memory.Store, head *versionlog.Version) error {
	if u.content == nil || st.Info().Limits.Content != versionlog.ContentAny {
		return nil
	}
	data, err := st.Content(ctx, *head)
	if err != nil || utf8.Valid(data) {
		return err
	}
	return reply.Invalidf("content: %s is not text now, and no text replaces what this operation cannot show; put content_base64 by POST /v1/mneme/stores/{id}/batch, or delete the memory first", head.Path)
}

// isCase reports whether a memory is what the update makes of it.
func (u *update) isCase(v *versionlog.Version) bool {
	return (u.path == nil || *u.path == v.Path) && (u.content == nil || int64(len(*u.content)) == v.Size && cas.Sum([]byte(*u.content)) == v.Digest)
}

// make makes the update to a version, if that is the head.
func (u *update) make(ctx context.Context, st *memory.Store, head *versionlog.Version) (v versionlog.Version, made bool, err error) {
	change := memory.Change{Action: versionlog.Put, Path: head.Path, Expect: versionlog.ExpectVersion(head.ID)}
	if u.path != nil && *u.path != head.Path {
		change.Action, change.To = versionlog.Rename, *u.path
	}
	if u.content != nil {
		change.Content = []byte(*u.content)
	}
	return u.once.commit(ctx, st, change)
}

func deleteMemory(ctx context.Context, c *call) (any, error) {
	st, err := c.open(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.empty(); err != nil { // a condition is in the query
		return nil, err
	}
	var sum *cas.Digest
	if q := c.URL.Query(); q.Has(expectedSum) {
		d, err := cas.ParseDigest(q.Get(expectedSum))
		if err != nil {
			return nil, reply.Invalidf("%s: it must have 64 hexadecimal digits in lower case", expectedSum)
		}
		sum = &d
	}
	once, err := c.once()
	if err != nil {
		return nil, err
	}
	if v, ok, err := once.earlier(ctx, st); ok || err != nil {
		if err != nil {
			return nil, err
		}
		return deletedJSON{v.MemoryID, "memory_deleted"}, nil
	}
	for {
		head, err := c.head(ctx, st)
		if err != nil {
			return nil, err
		}
		if sum != nil && head.Digest != *sum {
			return nil, &versionlog.ConflictError{StoreID: st.Info().ID, Conflicts: []versionlog.Conflict{{Path: head.Path, Head: &head}}}
		}
		_, _, err = once.commit(ctx, st, memory.Change{Action: versionlog.Remove, Path: head.Path, Expect: versionlog.ExpectVersion(head.ID)})
		if errors.Is(err, versionlog.ErrConflict) {
			continue
		}
		if err != nil {
			return nil, err
		}
		return deletedJSON{head.MemoryID, "memory_deleted"}, nil
	}
}

func listMemories(ctx context.Context, c *call) (any, error) {
	q := c.URL.Query()
	full, err := c.isFull(false)
	if err != nil {
		return nil, err
	}
	limit, err := c.limit(full)
	if err != nil {
		return nil, err
	}
	prefix, err := prefixOf(q.Get("path_prefix"))
	if err != nil {
		return nil, err
	}
	depth, err := strconv.Atoi("0" + q.Get("depth"))
	if err != nil || depth > 1 {
		return nil, reply.Invalidf("depth: it must be 0 or 1")
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
	for v, err := range st.List(ctx, prefix, depth == 1, after) {
		if err != nil {
			return nil, err
		}
		if p.full() {
			break
		}
		if v.IsDir() {
			p.add(v.Path, prefixJSON{"memory_prefix", v.Path})
			continue
		}
		m, err := newMemory(ctx, st, v, full)
		if err != nil {
			return nil, err
		}
		p.add(v.Path, m)
	}
	return p.page, nil
}

// prefixOf checks the prefix of a list: "" is the whole store.
func prefixOf(text string) (string, error) {
	if text == "" || text == "/" {
		return "/", nil
	}
	name, isDir := strings.CutSuffix(text, "/")
	if !isDir {
		return "", reply.Invalidf("path_prefix: it must end with a slash")
	}
	path, err := memory.ParsePath(name)
	if err != nil {
		return "", err
	}
	return path + "/", nil
}
