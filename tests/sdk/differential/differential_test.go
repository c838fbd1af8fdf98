// Package differential has the SDK do at random what the memory-stores API offers, and holds every
// answer of the server against a plain model of the published rules.
package differential

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/option"

	"mneme/backend"
	memorylib "mneme/memory"
	"mneme/server"
	"mneme/server/access"
	"mneme/versionlog"
)

// run is one run of random operations.
type run struct {
	*testing.T
	ctx    context.Context
	random *rand.Rand
	client anthropic.BetaMemoryStoreService
	model  model
	step   string // what is done now
}

// TestDifferential makes operations at random. MNEME_SEED is another seed, MNEME_RUNS how many operations.
func TestDifferential(t *testing.T) {
	seed, steps := 1, 300
	if os.Getenv("MNEME_TORTURE") != "" {
		steps = 10_000
	}
	for name, to := range map[string]*int{"MNEME_SEED": &seed, "MNEME_RUNS": &steps} {
		if text := os.Getenv(name); text != "" {
			var err error
			if *to, err = strconv.Atoi(text); err != nil {
				t.Fatal(err)
			}
		}
	}
	r := newRun(t, uint64(seed))
	t.Logf("MNEME_SEED=%d MNEME_RUNS=%d", seed, steps)
	counts := map[string]int{}
	for i := range steps {
		one := operations[r.random.IntN(len(operations))]
		counts[one.name]++
		r.step = fmt.Sprintf("seed %d, operation %d, %s", seed, i, one.name)
		one.do(r)
		if t.Failed() {
			return
		}
	}
	t.Log(counts)
}

func newRun(t *testing.T, seed uint64) *run {
	ctx := t.Context()
	lib, err := backend.Open(ctx, "file://"+filepath.Join(t.TempDir(), "lib"), &backend.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lib.Close() })
	by := &memorylib.Author{Actor: versionlog.Actor{Kind: versionlog.ActorUser, ID: "root"}}
	keys, err := access.OpenRegistry(ctx, lib.Library, &access.RegistryOptions{Author: by})
	if err != nil {
		t.Fatal(err)
	}
	key, secret, err := keys.CreateKey(ctx, access.Key{Label: "differential", Everywhere: access.Admin})
	keys.Close()
	if err != nil {
		t.Fatal(err)
	}
	served, err := server.New(ctx, lib.Library, &server.Options{Author: by})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(served.Close)
	listener := httptest.NewServer(served.Handler())
	t.Cleanup(listener.Close)
	client := anthropic.NewClient(option.WithBaseURL(listener.URL), option.WithAPIKey(secret), option.WithMaxRetries(0))
	return &run{T: t, ctx: ctx, random: rand.New(rand.NewPCG(seed, 0)), client: client.Beta.MemoryStores, model: model{keyID: key.ID}}
}

// wrong reports an answer that the model does not give.
func (r *run) wrong(format string, args ...any) {
	r.Helper()
	r.Errorf("%s: %s", r.step, fmt.Sprintf(format, args...))
}

// is holds the end of a request against the refusal of the model, and reports whether both succeeded.
func (r *run) is(err error, want *refusal, of ...any) bool {
	r.Helper()
	var e *anthropic.Error
	switch {
	case err == nil && want == nil:
		return true
	case err != nil && !errors.As(err, &e):
		r.Fatalf("%s %q: %v", r.step, of, err)
	case err == nil:
		r.wrong("%q: it succeeds, want %d %s", of, want.status, want.kind)
	case want == nil:
		r.wrong("%q: %v", of, err)
	case e.StatusCode != want.status || string(e.Type()) != want.kind || e.RequestID == "":
		r.wrong("%q: %v, want %d %s", of, err, want.status, want.kind)
	}
	return false
}

func pick[T any](r *run, all []T) T { return all[r.random.IntN(len(all))] }

func (r *run) chance(percent int) bool { return r.random.IntN(100) < percent }

// aStore is one of the stores, rarely one that was deleted, and rarely one that never was.
func (r *run) aStore() *store {
	if len(r.model.stores) == 0 || r.chance(2) {
		return &store{id: "memstore_never", deleted: true}
	}
	var live []*store
	for _, s := range r.model.stores {
		if !s.deleted {
			live = append(live, s)
		}
	}
	if len(live) == 0 || r.chance(3) {
		return pick(r, r.model.stores)
	}
	return live[len(live)-1-r.random.IntN(min(len(live), 3))] // the newest have more to do
}

// aMemory is one of a store: live in most cases. It may be nil, and then has an id all the same.
func (r *run) aMemory(s *store) (m *memory, id string) {
	if len(s.memories) > 0 && !r.chance(7) {
		ids := make([]string, 0, len(s.memories))
		for id := range s.memories {
			ids = append(ids, id)
		}
		slices.Sort(ids)
		id := pick(r, ids)
		return s.memories[id], id
	}
	if len(s.versions) > 0 && r.chance(50) {
		id := pick(r, s.versions).memoryID
		return s.memories[id], id
	}
	return nil, "mem_never"
}

func (r *run) aVersion(s *store) (v *version, id string) {
	if len(s.versions) == 0 || r.chance(5) {
		return nil, "memver_never"
	}
	v = s.versions[max(0, len(s.versions)-1-r.random.IntN(min(len(s.versions), 40)))]
	return v, v.id
}

var (
	names = []string{"a", "b", "A", "c.md", "x y", "caf\u00e9", "cafe\u0301", "日記", "ä%2fb", "..a", "-", `q\r`, "p?q#r&s=t", "~"}
	bad   = []string{"", "a", "/", "/a/", "//a", "/a//b", "/a/../b", "/.", "/..", "/a\x00b", "/a\nb", "/\u202eb", "/\u2028", "/\u200bb", strings.Repeat("/x", 21), "/" + strings.Repeat(strings.Repeat("y", 200)+"/", 5) + strings.Repeat("y", 200)}
	texts = []string{"", "one", "two", "three\n", "日本語", "\U0001f600 <&>\u2028", "line\r\nline\r\n", "tab\tand \x01 control"}
)

func (r *run) aPath() string {
	if r.chance(6) {
		return pick(r, bad)
	}
	path := ""
	for range 1 + r.random.IntN(3) {
		path += "/" + pick(r, names)
	}
	return path
}

func (r *run) aText() string {
	switch {
	case r.chance(1):
		return strings.Repeat("x", maxContent)
	case r.chance(1):
		return strings.Repeat("x", maxContent+1)
	case r.chance(50):
		return fmt.Sprintf("text %d", r.random.IntN(1000))
	}
	return pick(r, texts)
}

func (r *run) aView() (view anthropic.BetaManagedAgentsMemoryView, given bool) {
	v := pick(r, []anthropic.BetaManagedAgentsMemoryView{"", "basic", "full"})
	return v, v != ""
}

// aLimit is how many things a page has, and whether that is taken.
func (r *run) aLimit(full bool) (limit int64, ok bool) {
	limit = pick(r, []int64{1, 2, 3, 7, 20, 20, 100, 0, 101, -1})
	most := int64(100)
	if full {
		most = 20
	}
	return limit, limit >= 1 && limit <= most
}
