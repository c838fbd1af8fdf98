package differential

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/option"
	"github.com/anthropics/anthropic-sdk-go/v2/packages/param"
)

// operations are the 14 of the API; those come more often that have more cases.
var operations = func() (all []operation) {
	for _, one := range []struct {
		operation
		times int
	}{
		{operation{"stores.create", (*run).createStore}, 1}, {operation{"stores.list", (*run).listStores}, 1}, {operation{"stores.get", (*run).getStore}, 1},
		{operation{"stores.update", (*run).updateStore}, 2}, {operation{"stores.archive", (*run).archiveStore}, 1}, {operation{"stores.delete", (*run).deleteStore}, 1},
		{operation{"memories.create", (*run).createMemory}, 30}, {operation{"memories.list", (*run).listMemories}, 12}, {operation{"memories.get", (*run).getMemory}, 8},
		{operation{"memories.update", (*run).updateMemory}, 30}, {operation{"memories.delete", (*run).deleteMemory}, 10},
		{operation{"versions.list", (*run).listVersions}, 12}, {operation{"versions.get", (*run).getVersion}, 8}, {operation{"versions.redact", (*run).redactVersion}, 5},
	} {
		for range one.times {
			all = append(all, one.operation)
		}
	}
	return all
}()

type operation struct {
	name string
	do   func(*run)
}

func (r *run) sameStore(got *anthropic.BetaManagedAgentsMemoryStore, want *store) {
	r.Helper()
	if got.ID != want.id || got.Name != want.name || got.Description != want.description || got.Type != "memory_store" || !maps.Equal(got.Metadata, want.metadata) ||
		got.ArchivedAt.IsZero() == want.archived || !got.CreatedAt.Equal(want.created) || got.UpdatedAt.Before(got.CreatedAt) {
		r.wrong("%s\nwant %+v", got.RawJSON(), want)
	}
}

// sameMemory holds a memory against that of the model; full is whether its content must be there.
func (r *run) sameMemory(raw string, got *anthropic.BetaManagedAgentsMemory, s *store, want *memory, full bool) {
	r.Helper()
	content := ""
	if full {
		content = want.content
	}
	if got.ID != want.id || got.Type != "memory" || got.MemoryStoreID != s.id || got.Path != want.path || got.ContentSha256 != sum(want.content) || got.ContentSizeBytes != int64(len(want.content)) ||
		got.MemoryVersionID != want.head.id || got.Content != content || full == strings.Contains(raw, `"content":null`) || got.CreatedAt.After(got.UpdatedAt) || !got.UpdatedAt.Equal(want.head.created) {
		r.wrong("%.600s\nwant %+v, head %+v, full %v", raw, want, want.head, full)
	}
}

// sameVersion holds a version against that of the model.
func (r *run) sameVersion(got *anthropic.BetaManagedAgentsMemoryVersion, s *store, want *version, full bool) {
	r.Helper()
	w := *want
	digest, size := sum(w.content), int64(len(w.content))
	if w.redacted {
		w.path = ""
	}
	isEmpty := w.redacted || w.operation == "deleted"
	if isEmpty {
		digest, size, w.content = "", 0, ""
	}
	if !full {
		w.content = ""
	}
	raw := got.RawJSON()
	if got.ID != w.id || got.Type != "memory_version" || got.MemoryID != w.memoryID || got.MemoryStoreID != s.id || string(got.Operation) != w.operation || got.Path != w.path ||
		got.ContentSha256 != digest || got.ContentSizeBytes != size || got.Content != w.content || !got.CreatedAt.Equal(w.created) || got.CreatedBy.APIKeyID != r.model.keyID ||
		got.RedactedAt.IsZero() == w.redacted || w.redacted && got.RedactedBy.APIKeyID != r.model.keyID ||
		strings.Contains(raw, `"path":null`) != w.redacted || strings.Contains(raw, `"content_sha256":null`) != isEmpty || strings.Contains(raw, `"content":null`) != (isEmpty || !full) {
		r.wrong("%.600s\nwant %+v, full %v", raw, want, full)
	}
}

func (r *run) createStore() {
	p := anthropic.BetaMemoryStoreNewParams{Name: pick(r, []string{"Demo", "Demo", "日記", "a b", strings.Repeat("n", 255)}), Metadata: map[string]string{}}
	var want *refusal
	for range r.random.IntN(3) {
		p.Metadata[pick(r, names)] = pick(r, texts)
	}
	if r.chance(50) {
		p.Description = anthropic.String(pick(r, texts))
	}
	switch {
	case r.chance(5):
		p.Name, want = pick(r, []string{"", "a\nb", strings.Repeat("n", 256)}), invalid
	case r.chance(5):
		p.Description, want = anthropic.String(strings.Repeat("é", 1025)), invalid
	case r.chance(5):
		p.Metadata[strings.Repeat("k", 65)], want = "", invalid
	}
	got, err := r.client.New(r.ctx, p)
	if !r.is(err, want, p.Name) {
		return
	}
	s := &store{id: got.ID, name: p.Name, description: p.Description.Value, metadata: p.Metadata, created: got.CreatedAt, memories: map[string]*memory{}}
	r.sameStore(got, s)
	r.model.stores = append(r.model.stores, s)
}

// time sets a filter by time, and returns it: the SDK sends seconds, another client all that a time has.
func (r *run) time(field *param.Opt[time.Time], opts *[]option.RequestOption, name string, at time.Time) time.Time {
	if r.chance(20) {
		*field = anthropic.Time(at)
		return at.Truncate(time.Second)
	}
	*opts = append(*opts, option.WithQuery(name, at.Format(time.RFC3339Nano)))
	return at
}

func (r *run) listStores() {
	limit, ok := r.aLimit(false)
	p := anthropic.BetaMemoryStoreListParams{Limit: anthropic.Int(limit)}
	archived := r.chance(50)
	if archived {
		p.IncludeArchived = anthropic.Bool(true)
	}
	var from, to time.Time
	var opts []option.RequestOption
	if len(r.model.stores) > 0 && r.chance(30) {
		from = r.time(&p.CreatedAtGte, &opts, "created_at[gte]", pick(r, r.model.stores).created)
	}
	if len(r.model.stores) > 0 && r.chance(30) {
		to = r.time(&p.CreatedAtLte, &opts, "created_at[lte]", pick(r, r.model.stores).created)
	}
	var want *refusal
	if !ok {
		want = invalid
	}
	byID := map[string]*store{}
	for _, s := range r.model.stores {
		if !s.deleted && (archived || !s.archived) && (from.IsZero() || !s.created.Before(from)) && (to.IsZero() || !s.created.After(to)) {
			byID[s.id] = s
		}
	}
	pages := r.client.ListAutoPaging(r.ctx, p, opts...)
	for pages.Next() {
		got := pages.Current()
		s := byID[got.ID]
		if delete(byID, got.ID); s == nil {
			r.wrong("%s is in the list", got.RawJSON())
			return
		}
		r.sameStore(&got, s)
	}
	if r.is(pages.Err(), want, limit) && len(byID) > 0 {
		r.wrong("the list lacks %v", byID)
	}
}

func (r *run) getStore() {
	s := r.aStore()
	got, err := r.client.Get(r.ctx, s.id, anthropic.BetaMemoryStoreGetParams{})
	if r.is(err, s.gone(), s.id) {
		r.sameStore(got, s)
	}
}

// gone is how a request ends whose store is not there.
func (s *store) gone() *refusal {
	if s.deleted {
		return notFound
	}
	return nil
}

func (r *run) updateStore() {
	s := r.aStore()
	if s.archived && r.chance(80) {
		return
	}
	var p anthropic.BetaMemoryStoreUpdateParams
	var opts []option.RequestOption
	after := *s
	after.metadata = maps.Clone(s.metadata)
	changes := false
	if r.chance(40) {
		after.name, changes = pick(r, []string{"Demo", "Other", "Noël"}), true
		p.Name = anthropic.String(after.name)
	}
	if r.chance(40) {
		after.description, changes = pick(r, texts), true
		p.Description = anthropic.String(after.description)
	}
	if r.chance(40) && !s.deleted {
		changes = true
		key, value := pick(r, []string{"a", "b", "c"}), pick(r, texts)
		p.Metadata = map[string]string{key: value}
		after.metadata[key] = value
		if r.chance(50) && len(s.metadata) > 0 {
			gone := pick(r, []string{"a", "b", "c"})
			opts = append(opts, option.WithJSONSet("metadata."+gone, nil))
			delete(after.metadata, gone)
		}
	}
	want := s.gone()
	if want == nil && s.archived && changes {
		want = invalid
	}
	got, err := r.client.Update(r.ctx, s.id, p, opts...)
	if r.is(err, want, s.id) {
		*s = after
		r.sameStore(got, s)
	}
}

func (r *run) archiveStore() {
	s := r.aStore()
	if r.chance(70) {
		return
	}
	got, err := r.client.Archive(r.ctx, s.id, anthropic.BetaMemoryStoreArchiveParams{})
	if r.is(err, s.gone(), s.id) {
		s.archived = true
		r.sameStore(got, s)
	}
}

func (r *run) deleteStore() {
	s := r.aStore()
	if r.chance(70) {
		return
	}
	got, err := r.client.Delete(r.ctx, s.id, anthropic.BetaMemoryStoreDeleteParams{})
	if r.is(err, s.gone(), s.id) {
		if s.deleted = true; got.ID != s.id || got.Type != "memory_store_deleted" {
			r.wrong("%s", got.RawJSON())
		}
	}
}

// made notes a version that an answer tells of.
func (s *store) made(m *memory, got *anthropic.BetaManagedAgentsMemory, operation string) {
	m.head = &version{id: got.MemoryVersionID, memoryID: m.id, operation: operation, path: m.path, content: m.content, created: got.UpdatedAt}
	s.versions = append(s.versions, m.head)
}

func (r *run) createMemory() {
	s := r.aStore()
	path, content := r.aPath(), r.aText()
	view, given := r.aView()
	p := anthropic.BetaMemoryStoreMemoryNewParams{Path: path, Content: anthropic.String(content)}
	if given {
		p.View = view
	}
	clean, want := s.create(path, content)
	if s.archived && len(s.blocking(clean, "")) > 0 { // both are true
		return
	}
	got, err := r.client.Memories.New(r.ctx, s.id, p)
	if !r.is(err, want, path) {
		r.conflicting(err, want, s.blocking(clean, ""))
		return
	}
	if s.memories[got.ID] != nil || slices.ContainsFunc(s.versions, func(v *version) bool { return v.id == got.MemoryVersionID || v.memoryID == got.ID }) {
		r.wrong("%s has an id that was there", got.RawJSON())
	}
	m := &memory{id: got.ID, path: clean, content: content}
	s.memories[m.id] = m
	s.made(m, got, "created")
	r.sameMemory(got.RawJSON(), got, s, m, view == "full")
}

func (r *run) getMemory() {
	s := r.aStore()
	m, id := r.aMemory(s)
	view, given := r.aView()
	p := anthropic.BetaMemoryStoreMemoryGetParams{MemoryStoreID: s.id}
	if given {
		p.View = view
	}
	want := s.gone()
	if m == nil {
		want = notFound
	}
	got, err := r.client.Memories.Get(r.ctx, id, p)
	if r.is(err, want, id) {
		r.sameMemory(got.RawJSON(), got, s, m, view != "basic")
	}
}

func (r *run) updateMemory() {
	s := r.aStore()
	m, id := r.aMemory(s)
	p := anthropic.BetaMemoryStoreMemoryUpdateParams{MemoryStoreID: s.id}
	var u update
	view, given := r.aView()
	if given {
		p.View = view
	}
	if r.chance(65) {
		content := r.aText()
		if m != nil && r.chance(15) {
			content = m.content
		}
		u.content = &content
		p.Content = anthropic.String(content)
	}
	if r.chance(35) {
		path := r.aPath()
		switch {
		case m != nil && r.chance(20):
			path = m.path
		case m != nil && r.chance(10):
			path = m.path + "/below"
		case m != nil && r.chance(10) && strings.Count(m.path, "/") > 1:
			path = m.path[:strings.LastIndexByte(m.path, '/')]
		}
		u.path = &path
		p.Path = anthropic.String(path)
	}
	if r.chance(50) {
		expect := sum(r.aText())
		if m != nil && r.chance(75) {
			expect = sum(m.content)
		}
		u.expect = &expect
		p.Precondition = anthropic.BetaManagedAgentsPreconditionParam{Type: "content_sha256", ContentSha256: anthropic.String(expect)}
	}
	path, content, noop, want := s.judge(m, u)
	if want == invalid && (m == nil || s.deleted || s.archived && u.path != nil) { // both are true
		return
	}
	got, err := r.client.Memories.Update(r.ctx, id, p)
	if !r.is(err, want, id, p.Path.Value) {
		if want == pathConflict {
			clean, _ := canonical(*u.path)
			r.conflicting(err, want, s.blocking(clean, id))
		}
		return
	}
	if !noop {
		m.path, m.content = path, content
		if slices.ContainsFunc(s.versions, func(v *version) bool { return v.id == got.MemoryVersionID }) {
			r.wrong("%s is no new version", got.RawJSON())
		}
		s.made(m, got, "modified")
	}
	r.sameMemory(got.RawJSON(), got, s, m, view == "full")
}

// conflicting holds what an error says of the memory in the way.
func (r *run) conflicting(err error, want *refusal, blocking []*memory) {
	r.Helper()
	if want != pathConflict || err == nil {
		return
	}
	var e *anthropic.Error
	if !errors.As(err, &e) {
		return
	}
	for _, m := range blocking {
		if strings.Contains(e.RawJSON(), `"conflicting_memory_id":"`+m.id+`"`) {
			return
		}
	}
	r.wrong("%s names none of those in the way", e.RawJSON())
}

func (r *run) deleteMemory() {
	s := r.aStore()
	m, id := r.aMemory(s)
	p := anthropic.BetaMemoryStoreMemoryDeleteParams{MemoryStoreID: s.id}
	want := s.gone()
	if m == nil {
		want = notFound
	}
	if r.chance(50) {
		expect := sum(r.aText())
		if m != nil && r.chance(60) {
			expect = sum(m.content)
		}
		p.ExpectedContentSha256 = anthropic.String(expect)
		if want == nil && expect != sum(m.content) {
			want = precondition
		}
	}
	got, err := r.client.Memories.Delete(r.ctx, id, p)
	if !r.is(err, want, id) {
		return
	}
	if got.ID != id || got.Type != "memory_deleted" {
		r.wrong("%s", got.RawJSON())
	}
	delete(s.memories, id)
	newest, err := r.client.MemoryVersions.List(r.ctx, s.id, anthropic.BetaMemoryStoreMemoryVersionListParams{Limit: anthropic.Int(1)})
	if r.is(err, nil) {
		v := newest.Data[0]
		made := &version{id: v.ID, memoryID: id, operation: "deleted", path: m.path, created: v.CreatedAt}
		s.versions = append(s.versions, made)
		r.sameVersion(&v, s, made, false)
	}
}

func (r *run) listMemories() {
	s := r.aStore()
	view, given := r.aView()
	limit, ok := r.aLimit(view == "full")
	p := anthropic.BetaMemoryStoreMemoryListParams{Limit: anthropic.Int(limit)}
	if given {
		p.View = view
	}
	prefix, depth := "/", 0
	switch {
	case r.chance(10):
		p.PathPrefix, ok = anthropic.String(pick(r, []string{"a/", "/a", "/../", "//", "/a/./", "/\x00/"})), false
	case r.chance(60):
		prefix = "/" + pick(r, names) + "/"
		if m, _ := r.aMemory(s); m != nil && r.chance(80) {
			names := strings.Split(m.path, "/")
			prefix = strings.Join(names[:1+r.random.IntN(len(names))], "/") + "/"
		}
		p.PathPrefix = anthropic.String(prefix)
	}
	if r.chance(50) {
		depth = pick(r, []int{0, 1, 1, 1})
		p.Depth = anthropic.Int(int64(depth))
		if r.chance(5) {
			p.Depth, ok = anthropic.Int(pick(r, []int64{2, -1, 100})), false
		}
	}
	want := s.gone()
	if !ok {
		if want = invalid; s.deleted { // both are true
			return
		}
	}
	all := s.list(prefix, depth)
	n := 0
	pages := r.client.Memories.ListAutoPaging(r.ctx, s.id, p)
	for ; pages.Next(); n++ {
		got := pages.Current()
		if n >= len(all) || got.Path != all[n].path || (got.Type == "memory_prefix") != (all[n].memory == nil) {
			r.wrong("%q, depth %d: %d is %s, want %+v", prefix, depth, n, got.RawJSON(), all)
			return
		}
		if all[n].memory != nil {
			one := got.AsMemory()
			r.sameMemory(got.RawJSON(), &one, s, all[n].memory, view == "full")
		}
	}
	if r.is(pages.Err(), want, prefix, limit) && n != len(all) {
		r.wrong("%q, depth %d: %d things, want %+v", prefix, depth, n, all)
	}
}

func (r *run) listVersions() {
	s := r.aStore()
	view, given := r.aView()
	limit, ok := r.aLimit(view == "full")
	p := anthropic.BetaMemoryStoreMemoryVersionListParams{Limit: anthropic.Int(limit)}
	if given {
		p.View = view
	}
	var f filter
	var opts []option.RequestOption
	if r.chance(50) {
		_, f.memoryID = r.aMemory(s)
		p.MemoryID = anthropic.String(f.memoryID)
	}
	if r.chance(40) {
		f.operation = pick(r, []string{"created", "modified", "deleted"})
		p.Operation = anthropic.BetaManagedAgentsMemoryVersionOperation(f.operation)
	}
	if r.chance(20) {
		f.keyID = pick(r, []string{r.model.keyID, "apikey_other"})
		p.APIKeyID = anthropic.String(f.keyID)
	}
	if len(s.versions) > 0 && r.chance(30) {
		f.from = r.time(&p.CreatedAtGte, &opts, "created_at[gte]", pick(r, s.versions).created)
	}
	if len(s.versions) > 0 && r.chance(30) {
		f.to = r.time(&p.CreatedAtLte, &opts, "created_at[lte]", pick(r, s.versions).created)
	}
	want := s.gone()
	if !ok {
		if want = invalid; s.deleted { // both are true
			return
		}
	}
	all := s.history(f, r.model.keyID)
	n := 0
	pages := r.client.MemoryVersions.ListAutoPaging(r.ctx, s.id, p, opts...)
	for ; pages.Next(); n++ {
		got := pages.Current()
		if n >= len(all) {
			r.wrong("%+v: one too many: %s", f, got.RawJSON())
			return
		}
		r.sameVersion(&got, s, all[n], view == "full")
	}
	if r.is(pages.Err(), want, f.memoryID, limit) && n != len(all) {
		r.wrong("%+v: %d versions, want %d", f, n, len(all))
	}
}

func (r *run) getVersion() {
	s := r.aStore()
	v, id := r.aVersion(s)
	view, given := r.aView()
	p := anthropic.BetaMemoryStoreMemoryVersionGetParams{MemoryStoreID: s.id}
	if given {
		p.View = view
	}
	want := s.gone()
	if v == nil {
		want = notFound
	}
	got, err := r.client.MemoryVersions.Get(r.ctx, id, p)
	if r.is(err, want, id) {
		r.sameVersion(got, s, v, view != "basic")
	}
}

func (r *run) redactVersion() {
	s := r.aStore()
	v, id := r.aVersion(s)
	want := s.redact(v)
	got, err := r.client.MemoryVersions.Redact(r.ctx, id, anthropic.BetaMemoryStoreMemoryVersionRedactParams{MemoryStoreID: s.id})
	if r.is(err, want, id) {
		v.redacted = true
		r.sameVersion(got, s, v, false)
	}
}
