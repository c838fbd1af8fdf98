// Package tools has the operations of an agent without a shell on its memory: the six
// commands of the tool memory_20250818, and also listing, search, history, comparison and
// restoring. It knows no protocol but that of the commands: lines of JSON, MCP and HTTP are
// faces over it.
//
// A Memory holds the rules: paths, texts, budgets. Package session protects sessions from
// each other. Nothing here logs, counts or traces the content of a memory, or the text of a
// request: such texts are of type Secret.
package tools

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"mneme/cas"
	"mneme/memory"
	"mneme/session"
	"mneme/versionlog"
)

// Options say how a Memory behaves; nil and the zero value are the default.
type Options struct {
	Texts     Texts             // of results and errors
	Overwrite bool              // create replaces what is there, as a write of the session does
	Merge     bool              // bring changes of other sessions to other lines together, as the sessions do
	ViewChars int               // characters of one view; 0: 16,000; below 0: any number
	MaxInput  int               // bytes of the input of a call; 0: 4 MiB, or four times the largest memory
	Budget    *session.Budget   // of calls to Call and the other verbs, and of the bytes that they take and return; nil: none
	Renewed   bool              // the caller calls Reset: a call that the budget refuses can succeed in the next quest
	Deadline  time.Duration     // of a search; 0: 2 seconds
	Meta      map[string]string // of every commit, besides "tool"; at most 15 pairs
	Logger    *slog.Logger      // nil discards
}

// Place is a store as a Memory has it.
type Place struct {
	Store   *memory.Store
	Session *session.Session // of the store; nil: it is only read
}

// Memory is an agent's view of some stores. Its methods may be called at once from many
// goroutines, and hold no lock while they wait for a store.
type Memory struct {
	opts   Options
	given  []Place  // as New got them
	places []*place // in the order of their slugs
}

// place is a store of a Memory.
type place struct {
	Place
	slug string
	top  string // its path in the tool
	idx  index

	resolved atomic.Pointer[resolvedConflict] // the last one; nil: none
}

// resolution is the request of a call of Resolve.
type resolution struct {
	id        int
	take      session.Take
	text      cas.Digest
	ifVersion string
}

// resolvedConflict is a resolution and its result.
type resolvedConflict struct {
	resolution
	made Made
}

// New returns the memory of some stores, each of them once: one is /memories, of several each
// is /memories/SLUG. The stores and sessions stay the caller's.
func New(places []Place, opts *Options) *Memory {
	m := &Memory{given: slices.Clone(places)}
	if opts != nil {
		m.opts = *opts
	}
	if m.opts.ViewChars == 0 {
		m.opts.ViewChars = 16_000
	}
	if m.opts.Deadline == 0 {
		m.opts.Deadline = 2 * time.Second
	}
	if m.opts.Logger == nil {
		m.opts.Logger = slog.New(slog.DiscardHandler)
	}
	largest := int64(1 << 20)
	for _, p := range places {
		info := p.Store.Info()
		m.places = append(m.places, &place{Place: p, slug: info.Slug, top: topOf(info.Slug, len(places) > 1), idx: index{store: p.Store}})
		largest = max(largest, info.Limits.MaxMemoryBytes)
	}
	if m.opts.MaxInput == 0 {
		m.opts.MaxInput = int(4 * largest) // a byte may take an escape of six, but for most texts it does not
	}
	slices.SortFunc(m.places, func(a, b *place) int { return strings.Compare(a.slug, b.slug) })
	return m
}

// Reset makes the budget whole: a quest begins.
func (m *Memory) Reset() {
	if m.opts.Budget != nil {
		m.opts.Budget.Reset()
	}
}

// Forget lets go of the paths that the memory has loaded, which versions may have had that were erased since.
func (m *Memory) Forget() {
	for _, p := range m.places {
		p.idx.now.Store(nil)
	}
}

// CallsLeft returns how many calls the budget has left; false where there is no bound.
func (m *Memory) CallsLeft() (calls int, bounded bool) {
	calls, _ = m.opts.Budget.Left()
	return calls, calls <= maxCalls
}

// maxCalls is more calls than a budget has that bounds them.
const maxCalls = 1 << 60

// StoreInfo describes a store of a Memory.
type StoreInfo struct {
	Path     string // as the tool has it
	ReadOnly bool
	versionlog.Store
}

// Stores returns the stores, in the order of their slugs.
func (m *Memory) Stores() []StoreInfo {
	all := make([]StoreInfo, len(m.places))
	for i, p := range m.places {
		all[i] = StoreInfo{Path: p.top, ReadOnly: p.Session == nil, Store: p.Store.Info()}
	}
	return all
}

// bySlug returns the place of a store; nil: there is none.
func (m *Memory) bySlug(slug string) *place {
	if i := slices.IndexFunc(m.places, func(p *place) bool { return p.slug == slug }); i >= 0 {
		return m.places[i]
	}
	return nil
}

// room returns how many characters of a view are left behind its head; below 0 is any number.
func (m *Memory) room(head string) int {
	if m.opts.ViewChars < 0 {
		return -1
	}
	return max(1, m.opts.ViewChars-utf8.RuneCountInString(head))
}

// read returns the memory at a path of the store, which the session, if there is one, knows
// then.
func (p *place) read(ctx context.Context, path string) (versionlog.Version, []byte, error) {
	if p.Session != nil {
		return p.Session.Read(ctx, path)
	}
	return p.Store.Read(ctx, path)
}

// writeOptions are those of every commit to a store. command is the model's command. Notes
// to the model about the commit, once it is made, are added to told.
func (m *Memory) writeOptions(p *place, command string, told *string) *session.WriteOptions {
	meta := map[string]string{"tool": "memory", "command": command}
	for key, value := range m.opts.Meta {
		meta[key] = value
	}
	warn := func(f memory.SecretsFound) { *told += m.opts.Texts.say(secretSaved, shown(join(p.top, f.Path)), &f) }
	return &session.WriteOptions{Meta: meta, Warn: warn}
}

// made says, for a result, which version was made.
func (p *place) made(v *versionlog.Version) Made {
	return Made{Path: join(p.top, v.Path), Version: v.ID, Seq: v.Seq, Created: v.Op == versionlog.OpCreated}
}

// madeWith is made with a note to the agent.
func (p *place) madeWith(v *versionlog.Version, note string) Made {
	made := p.made(v)
	made.Note = strings.TrimSpace(note)
	return made
}
