package tools

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"mneme/cas"
	"mneme/cas/memcas"
	"mneme/internal/testing/logfault"
	"mneme/memory"
	"mneme/session"
	"mneme/session/conflict"
	"mneme/versionlog"
	"mneme/versionlog/memlog"
)

// rig is a Memory of one session or more, and another session of the same stores.
type rig struct {
	*testing.T
	*Memory
	log      *logfault.Log
	blobs    *blobs
	lib      *memory.Library
	stores   []*memory.Store // as the other session has them, in the order of their slugs
	sessions []*session.Session
}

// rigOptions say what a rig is made of; nil and the zero value are the default.
type rigOptions struct {
	tools   Options
	session session.Options
	stores  []string // slugs, in byte order; nil: notes
	ro      []string // those that are only read
	create  storeOptions
}

type storeOptions = memory.StoreOptions

// blobs are contents in memory, some of which are not handed out.
type blobs struct {
	*memcas.Store
	blocked map[cas.Digest]bool // set while no test reads
}

// Get returns a content, or waits until its context ends.
func (b *blobs) Get(ctx context.Context, d cas.Digest) ([]byte, error) {
	if b.blocked[d] {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return b.Store.Get(ctx, d)
}

func newRig(t *testing.T, o *rigOptions) *rig {
	t.Helper()
	if o == nil {
		o = &rigOptions{}
	}
	if o.stores == nil {
		o.stores = []string{"notes"}
	}
	r := &rig{T: t, log: logfault.New(memlog.New(nil), &logfault.Options{Session: "mine"})}
	r.blobs = &blobs{Store: memcas.New()}
	r.lib = memory.NewLibrary(r.log, func(string) (cas.Store, error) { return r.blobs, nil })
	for _, slug := range o.stores {
		info, err := r.lib.CreateStore(t.Context(), slug, &o.create)
		r.must(err)
		r.stores = append(r.stores, r.openAs(info.ID, "other"))
	}
	r.Memory = r.tool("mine", o)
	return r
}

// tool returns a Memory of a session.
func (r *rig) tool(id string, o *rigOptions) *Memory {
	r.Helper()
	var places []Place
	for i, slug := range o.stores {
		p := Place{Store: r.openAs(r.stores[i].Info().ID, id)}
		if !strings.Contains(strings.Join(o.ro, " "), slug) {
			opts := o.session
			opts.ID, opts.Name, opts.Merge = id, PathName(slug, len(o.stores) > 1), o.tools.Merge
			opts.Conflicts = conflict.New(r.TempDir())
			p.Session = session.New(p.Store, &opts)
			r.Cleanup(p.Session.Close)
			r.sessions = append(r.sessions, p.Session)
		}
		places = append(places, p)
	}
	m := New(places, &o.tools)
	return m
}

func (r *rig) openAs(store, id string) *memory.Store {
	r.Helper()
	st, err := r.lib.Open(context.Background(), store, memory.SessionAuthor(id))
	r.must(err)
	return st
}

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// call does one call; fields are those of its input, names and values in turn.
func (r *rig) call(command string, fields ...any) Result {
	return call(r.Memory, command, fields...)
}

func call(m *Memory, command string, fields ...any) Result {
	input := map[string]any{"command": command}
	for i := 0; i < len(fields); i += 2 {
		input[fields[i].(string)] = fields[i+1]
	}
	data, err := json.Marshal(input)
	if err != nil {
		panic(err)
	}
	return m.Call(context.Background(), data)
}

// do is call for a command that must succeed with a text that begins with want.
func (r *rig) do(want, command string, fields ...any) Result {
	r.Helper()
	result := r.call(command, fields...)
	if result.Error != nil || !strings.HasPrefix(result.Text, want) {
		r.Errorf("%s %v: %q, %+v; want %q", command, fields, result.Text, result.Error, want)
	}
	return result
}

// fail is call for a command that must fail with a text that begins with want.
func (r *rig) fail(want, command string, fields ...any) Result {
	r.Helper()
	result := r.call(command, fields...)
	if result.Error == nil || !strings.HasPrefix(result.Text, want) {
		r.Errorf("%s %v: %q, %+v; want the error %q", command, fields, result.Text, result.Error, want)
	}
	return result
}

// theirs writes a memory of the first store as the other session.
func (r *rig) theirs(path, text string) versionlog.Version {
	r.Helper()
	v, err := r.stores[0].Write(r.Context(), path, []byte(text), versionlog.ExpectAny())
	r.must(err)
	return v
}

// holds fails the test unless a memory of the first store holds a text.
func (r *rig) holds(path, want string) {
	r.Helper()
	_, data, err := r.stores[0].Read(r.Context(), path)
	if err != nil || string(data) != want {
		r.Errorf("%s holds %q, %v; want %q", path, data, err, want)
	}
}

// kept fails the test unless these texts are kept of lost writes.
func (r *rig) kept(want ...string) {
	r.Helper()
	list, err := r.sessions[0].Conflicts().List(true)
	r.must(err)
	var texts []string
	for _, about := range list {
		_, kept, err := r.sessions[0].Conflicts().Get(about.ID)
		r.must(err)
		texts = append(texts, string(kept.Yours))
	}
	if strings.Join(texts, "|") != strings.Join(want, "|") {
		r.Errorf("kept are %q, want %q", texts, want)
	}
}
