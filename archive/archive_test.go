package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"mneme/cas"
	"mneme/cas/memcas"
	"mneme/memory"
	"mneme/session/conflict"
	"mneme/versionlog"
	"mneme/versionlog/memlog"
)

var author = &memory.Author{Actor: versionlog.Actor{Kind: versionlog.ActorUser, ID: "ada"}}

// place is a library in memory.
type place struct {
	t testing.TB
	*memory.Library
	log   *memlog.Log
	blobs map[string]*memcas.Store
	kept  *conflict.Store
	marks string
}

func newPlace(t testing.TB) *place {
	p := &place{t: t, log: memlog.New(nil), blobs: map[string]*memcas.Store{}, kept: conflict.New(t.TempDir()), marks: t.TempDir()}
	p.Library = memory.NewLibrary(p.log, func(id string) (cas.Store, error) {
		if p.blobs[id] == nil {
			p.blobs[id] = memcas.New()
		}
		return p.blobs[id], nil
	})
	return p
}

func (p *place) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// open opens a store for writing.
func (p *place) open(ref string) *memory.Store {
	p.t.Helper()
	s, err := p.FindStore(p.t.Context(), ref)
	p.must(err)
	st, err := p.Open(p.t.Context(), s.ID, author)
	p.must(err)
	return st
}

// fill makes a store with a history of every kind of change.
func (p *place) fill(name string) *memory.Store {
	p.t.Helper()
	ctx := p.t.Context()
	_, err := p.CreateStore(ctx, name, &memory.StoreOptions{Actor: author.Actor, Description: "of " + name, Metadata: map[string]string{"a": "<b>"}})
	p.must(err)
	st := p.open(name)
	for i, text := range []string{"one", "two", "one", ""} {
		p.write(st, "/a.md", text)
		p.write(st, fmt.Sprintf("/dir/%d.md", i), text+name)
	}
	_, err = st.Rename(ctx, "/dir", "/other", &memory.CommitOptions{Message: "a\nb\u2028", Meta: map[string]string{"model": "m"}})
	p.must(err)
	_, err = st.MakeDir(ctx, "/empty", versionlog.ExpectAny(), nil)
	p.must(err)
	_, err = st.Remove(ctx, "/other/2.md", versionlog.ExpectAny())
	p.must(err)
	shrink := int64(50)
	_, err = p.UpdateStore(ctx, st.Info().ID, versionlog.StoreUpdate{GuardShrinkPercent: &shrink}, author.Actor)
	p.must(err)
	p.write(st, "/cafe\u0301.md", "espresso")
	return st
}

func (p *place) write(st *memory.Store, path, text string) {
	p.t.Helper()
	_, err := st.Write(p.t.Context(), path, []byte(text), versionlog.ExpectAny())
	p.must(err)
}

func (p *place) export(ref string, opts *ExportOptions) []byte {
	p.t.Helper()
	var out bytes.Buffer
	_, err := Export(p.t.Context(), p.open(ref), &out, opts)
	p.must(err)
	return out.Bytes()
}

func (p *place) bring(data []byte, opts ImportOptions) (*Imported, error) {
	p.t.Helper()
	a, err := Open(p.t.Context(), bytes.NewReader(data), int64(len(data)), nil)
	p.must(err)
	opts.Author, opts.Marks = author, p.marks
	opts.Conflicts = func(string) *conflict.Store { return p.kept }
	return Import(p.t.Context(), p.Library, a, &opts)
}

func (p *place) wantSame(ref string, want []byte) {
	p.t.Helper()
	if have := p.export(ref, nil); !bytes.Equal(have, want) {
		p.t.Errorf("the archive of %s has %d bytes, and is another one than that of %d bytes which was imported", ref, len(have), len(want))
	}
}

// live lists the paths of a store.
func (p *place) live(ref string) string {
	p.t.Helper()
	var paths []string
	for v, err := range p.open(ref).Tree(p.t.Context(), "/") {
		p.must(err)
		paths = append(paths, v.Path)
	}
	return fmt.Sprint(paths)
}

// TestImportGoesOn: an import that ends anywhere is gone on with by the next, and by that of no
// other archive.
func TestImportGoesOn(t *testing.T) {
	from := newPlace(t)
	from.fill("notes")
	t.Run("history", func(t *testing.T) { testImportGoesOn(t, from, History, 15) })
	t.Run("heads", func(t *testing.T) { testImportGoesOn(t, from, Heads, 4) })
}

func testImportGoesOn(t *testing.T, from *place, kind Kind, least int) {
	data, live := from.export("notes", &ExportOptions{Kind: kind}), from.live("notes")
	from.write(from.open("notes"), "/later.md", string(kind))
	other := from.export("notes", &ExportOptions{Kind: kind})
	a, err := Open(t.Context(), bytes.NewReader(data), int64(len(data)), nil)
	from.must(err)
	steps := 0
	for cut := 1; ; cut++ {
		to := newPlace(t)
		ctx, cancel := context.WithCancel(t.Context())
		at := 0
		_, err := Import(ctx, to.Library, a, &ImportOptions{Author: author, Marks: to.marks, Workers: 1, Progress: func(string, int, int) {
			if at++; at == cut {
				cancel()
			}
		}})
		cancel()
		if err == nil && at < cut {
			break
		}
		steps++
		if stores, err := versionlog.AllStores(t.Context(), to.log); err == nil && len(stores) == 1 {
			st := to.open("notes")
			before, err := st.Tip(t.Context())
			to.must(err)
			_, err = to.bring(other, ImportOptions{})
			if now, _ := st.Tip(t.Context()); !errors.Is(err, ErrTaken) && !errors.Is(err, ErrBeginning) || now != before {
				t.Errorf("another archive goes on at step %d: %v", cut, err)
			}
		}
		_, err = Import(t.Context(), to.Library, a, &ImportOptions{Author: author, Marks: to.marks})
		to.must(err)
		if kind == History {
			to.wantSame("notes", data)
		} else if have := to.live("notes"); have != live {
			t.Errorf("%s is there; want %s", have, live)
		}
		if left, err := os.ReadDir(to.marks); err != nil || len(left) > 0 {
			t.Errorf("marks are left: %v, %v", left, err)
		}
	}
	if steps < least {
		t.Errorf("only %d steps", steps)
	}
}

// TestModes: what becomes of a store that is there.
func TestModes(t *testing.T) {
	from := newPlace(t)
	st := from.fill("notes")
	early := from.export("notes", nil)
	from.write(st, "/a.md", "later")
	late := from.export("notes", nil)
	heads := from.export("notes", &ExportOptions{Kind: Heads})
	wantErr := func(err, want error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Errorf("%v; want %v", err, want)
		}
	}
	keep := func(p *place, into *[]byte) func(context.Context, versionlog.Store) (versionlog.Tip, error) {
		return func(ctx context.Context, s versionlog.Store) (versionlog.Tip, error) {
			*into = p.export(s.ID, nil)
			return p.open(s.ID).Tip(ctx)
		}
	}

	t.Run("a beginning and an end", func(t *testing.T) {
		p := newPlace(t)
		for _, test := range []struct {
			data []byte
			mode Mode
		}{{early, New}, {early, New}, {late, Replace}, {late, New}} {
			if bytes.Equal(test.data, late) && test.mode == Replace { // no import of that has begun
				_, err := p.bring(late, ImportOptions{})
				wantErr(err, ErrBeginning)
				p.wantSame("notes", early)
			}
			_, err := p.bring(test.data, ImportOptions{Mode: test.mode})
			p.must(err)
			p.wantSame("notes", test.data)
		}
		for _, mode := range []Mode{New, Replace} {
			_, err := p.bring(early, ImportOptions{Mode: mode})
			wantErr(err, ErrAhead)
		}
		_, err := p.bring(late, ImportOptions{Slug: "other"})
		wantErr(err, ErrTaken)
		p.wantSame("notes", late)
	})
	t.Run("another end", func(t *testing.T) {
		p := newPlace(t)
		_, err := p.bring(early, ImportOptions{})
		p.must(err)
		p.write(p.open("notes"), "/a.md", "mine")
		mine := p.export("notes", nil)
		_, err = p.bring(late, ImportOptions{})
		wantErr(err, ErrTaken)
		var kept []byte
		_, err = p.bring(late, ImportOptions{Mode: Replace, Keep: keep(p, &kept)})
		wantErr(err, ErrInUse)
		p.wantSame("notes", mine)
		p.must(p.ArchiveStore(t.Context(), st.Info().ID, author.Actor))
		mine = p.export("notes", nil)
		_, err = p.bring(late, ImportOptions{Mode: Replace})
		wantErr(err, ErrTaken)
		_, err = p.bring(late, ImportOptions{Mode: Replace, Keep: func(context.Context, versionlog.Store) (versionlog.Tip, error) {
			return versionlog.Tip{Seq: 1}, nil // kept before something came
		}})
		wantErr(err, ErrInUse)
		p.wantSame("notes", mine)
		a, err := Open(t.Context(), bytes.NewReader(late), int64(len(late)), nil)
		p.must(err)
		id, err := p.kept.Keep(conflict.About{Path: "/x"}, conflict.Texts{Yours: []byte("x")})
		p.must(err)
		p.must(p.kept.Settle(id, "discard", time.Now()))
		ctx, cancel := context.WithCancel(t.Context())
		done, err := Import(ctx, p.Library, a, &ImportOptions{
			Mode: Replace, Keep: keep(p, &kept), Author: author, Marks: p.marks, Conflicts: func(string) *conflict.Store { return p.kept },
			Progress: func(string, int, int) { cancel() },
		})
		wantErr(err, context.Canceled)
		if done == nil || !done.Replaced || !bytes.Equal(kept, mine) {
			t.Errorf("cut off: %+v; what was there is not what was kept", done)
		}
		if ids, err := p.kept.SettledIDs(); err != nil || len(ids) > 0 {
			t.Errorf("settled conflicts of what was replaced are left: %v, %v", ids, err)
		}
		_, err = p.bring(late, ImportOptions{Mode: Replace})
		p.must(err)
		p.wantSame("notes", late)
	})
	t.Run("another store", func(t *testing.T) {
		p := newPlace(t)
		p.fill("notes")
		mine := p.export("notes", nil)
		for _, data := range [][]byte{late, heads} {
			_, err := p.bring(data, ImportOptions{})
			wantErr(err, ErrTaken)
		}
		p.wantSame("notes", mine)
		_, err := p.bring(late, ImportOptions{Slug: "theirs"})
		p.must(err)
		p.wantSame("notes", mine)
		_, err = p.bring(heads, ImportOptions{Slug: "heads"})
		p.must(err)
		if _, data, err := p.open("heads").Read(t.Context(), "/a.md"); string(data) != "later" {
			t.Errorf("%q, %v", data, err)
		}
		if have := p.export("heads", &ExportOptions{Kind: Heads}); !strings.Contains(string(have), `"path":"/empty/"`) {
			t.Error("the empty directory is lost")
		}
	})
	t.Run("merge", func(t *testing.T) {
		p := newPlace(t)
		_, err := p.bring(late, ImportOptions{Mode: Merge})
		wantErr(err, versionlog.ErrNotFound)
		_, err = p.CreateStore(t.Context(), "notes", nil)
		p.must(err)
		mine := p.open("notes")
		p.write(mine, "/a.md", "mine")
		p.write(mine, "/other/0.md", "onenotes")
		p.write(mine, "/other/1.md/below", "in the way")
		for range 2 {
			done, err := p.bring(late, ImportOptions{Mode: Merge})
			p.must(err)
			if done.Created+done.Unchanged+len(done.Conflicts) != 5 || len(done.Conflicts) != 2 {
				t.Errorf("%+v", done)
			}
		}
		for path, want := range map[string]string{"/a.md": "mine", "/other/1.md/below": "in the way", "/other/3.md": "notes", "/caf\u00e9.md": "espresso"} {
			if _, data, err := mine.Read(t.Context(), path); string(data) != want {
				t.Errorf("%s: %q, %v; want %q", path, data, err, want)
			}
		}
		list, err := p.kept.List()
		p.must(err)
		if len(list) != 2 || list[0].Path != "/a.md" || list[0].Theirs == nil || list[1].Path != "/other/1.md" || list[1].Theirs != nil {
			t.Errorf("%+v", list)
		}
		yours, err := p.kept.Read(list[0].ID, conflict.YoursFile)
		if string(yours) != "later" {
			t.Errorf("%q, %v is kept", yours, err)
		}
	})
	t.Run("merge without room", func(t *testing.T) {
		p := newPlace(t)
		_, err := p.CreateStore(t.Context(), "notes", nil)
		p.must(err)
		p.write(p.open("notes"), "/a.md", "mine")
		before := p.export("notes", nil)
		full := conflict.About{Path: "/x", Session: "other", Theirs: &conflict.Side{Size: conflict.MaxBytesOfStore}}
		id, err := p.kept.Keep(full, conflict.Texts{Yours: []byte("x")})
		p.must(err)
		_, err = p.bring(late, ImportOptions{Mode: Merge})
		wantErr(err, conflict.ErrFull)
		p.wantSame("notes", before)
		p.must(p.kept.Remove(id))
		_, err = p.bring(late, ImportOptions{Mode: Merge})
		p.must(err)
		list, err := p.kept.List()
		p.must(err)
		for _, about := range list { // what is left of the room is filled to the byte
			full.Theirs.Size -= about.Size
			if about.Theirs != nil {
				full.Theirs.Size -= about.Theirs.Size
			}
		}
		full.Theirs.Size -= int64(len("x"))
		_, err = p.kept.Keep(full, conflict.Texts{Yours: []byte("x")})
		p.must(err)
		_, err = p.bring(late, ImportOptions{Mode: Merge}) // what differs is kept already
		p.must(err)
	})
	t.Run("secrets", func(t *testing.T) {
		key := "AK" + "IA" + "Q7XK2M5PLW3RT6ZB" // which no service has issued
		from := newPlace(t)
		_, err := from.CreateStore(t.Context(), "keys", &memory.StoreOptions{Policy: versionlog.Policy{Secrets: versionlog.SecretsOff}})
		from.must(err)
		for n := range mergeChanges + 1 { // more than one commit
			from.write(from.open("keys"), fmt.Sprintf("/%02d", n), fmt.Sprint(n))
		}
		from.write(from.open("keys"), "/z.pem", key)
		data := from.export("keys", nil)
		for rule, want := range map[versionlog.SecretsRule]int{versionlog.SecretsOff: 0, versionlog.SecretsWarn: 1, versionlog.SecretsRefuse: 1} {
			p := newPlace(t)
			_, err := p.CreateStore(t.Context(), "keys", &memory.StoreOptions{Policy: versionlog.Policy{Secrets: rule}})
			p.must(err)
			before := p.export("keys", nil)
			warned := 0
			opts := ImportOptions{Mode: Merge, Warn: func(memory.SecretsFound) { warned++ }}
			if rule == versionlog.SecretsRefuse {
				_, err := p.bring(data, opts)
				wantErr(err, memory.ErrSecrets)
				p.wantSame("keys", before)
				opts.Confirmed = true
			}
			_, err = p.bring(data, opts)
			p.must(err)
			if warned != want {
				t.Errorf("%q: %d warnings; want %d", rule, warned, want)
			}
		}
		refuse := string(versionlog.SecretsRefuse)
		_, err = from.UpdateStore(t.Context(), from.open("keys").Info().ID, versionlog.StoreUpdate{Secrets: &refuse}, author.Actor)
		from.must(err)
		p := newPlace(t)
		_, err = p.bring(from.export("keys", &ExportOptions{Kind: Heads}), ImportOptions{})
		wantErr(err, memory.ErrSecrets)
		if _, err := p.FindStore(t.Context(), "keys"); !errors.Is(err, versionlog.ErrNotFound) {
			t.Errorf("a store was made: %v", err)
		}
	})
	t.Run("merge into smaller", func(t *testing.T) {
		p := newPlace(t)
		_, err := p.CreateStore(t.Context(), "notes", &memory.StoreOptions{MaxMemoryBytes: 6})
		p.must(err)
		before := p.export("notes", nil)
		_, err = p.bring(heads, ImportOptions{Mode: Merge})
		wantErr(err, memory.ErrTooBig)
		p.wantSame("notes", before)
	})
}

// TestLost: contents that the store has lost are named, and so is the archive that lacks
// them.
func TestLost(t *testing.T) {
	from := newPlace(t)
	st := from.fill("notes")
	d := cas.Sum([]byte("two"))
	from.must(from.blobs[st.Info().ID].Delete(t.Context(), d))
	if _, err := Export(t.Context(), st, &bytes.Buffer{}, nil); !errors.Is(err, cas.ErrNotFound) || !strings.Contains(err.Error(), "/a.md") {
		t.Errorf("%v", err)
	}
	var lost []string
	opts := &ExportOptions{KeepGoing: true, Lost: func(v versionlog.Version) { lost = append(lost, v.Path) }}
	data := from.export("notes", opts)
	if len(lost) != 1 || lost[0] != "/a.md" {
		t.Errorf("%q are lost", lost)
	}
	to := newPlace(t)
	if _, err := to.bring(data, ImportOptions{}); !errors.Is(err, ErrIncomplete) {
		t.Errorf("%v", err)
	}
	_, err := to.bring(data, ImportOptions{KeepGoing: true})
	to.must(err)
	if !bytes.Equal(to.export("notes", opts), data) {
		t.Error("it is exported as another archive")
	}
}
