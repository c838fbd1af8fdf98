package snapshot

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"mneme/cas"
	"mneme/versionlog"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden snapshot anew")

const goldenDir = "testdata/snapshot-v1"

// goldenCommits are two commits with every field, and fixed ids and times.
func goldenCommits() []*versionlog.Commit {
	actor := versionlog.Actor{Kind: versionlog.ActorSession, ID: "agent-7"}
	one := &versionlog.Commit{
		StoreID: "memstore_01kjk0vk00e7yxkz7pw4m6zq2r", Seq: 1, Time: time.Date(2026, 3, 1, 12, 0, 0, 123_456_000, time.UTC),
		Actor: actor, Session: "session-1", Message: "tidy <up> & \"quote\"\nünï\u2028", Key: "01kjk0vk00aaaaaaaaaaaaaaaa", Digest: cas.Sum([]byte("first")),
		Versions: []versionlog.Version{
			{ID: "memver_00000000010000000000000001", MemoryID: "mem_a", Op: versionlog.OpCreated, Path: "/a/new.md", Digest: cas.Sum([]byte("new")), Size: 3},
			{ID: "memver_00000000010080000000000002", MemoryID: "mem_b", Op: versionlog.OpCreated, Path: "/b é.md", Digest: cas.Sum(nil)},
			{ID: "memver_000000000100g0000000000003", MemoryID: "mem_c", Op: versionlog.OpCreated, Path: "/gone", Digest: cas.Sum([]byte("x")), Size: 1},
		},
	}
	two := &versionlog.Commit{
		StoreID: one.StoreID, Seq: 2, Time: one.Time.Add(time.Second), Actor: actor, Key: "01kjk0vk00bbbbbbbbbbbbbbbb",
		Prev: one.Digest, Digest: cas.Sum([]byte("second")),
		Versions: []versionlog.Version{
			{ID: "memver_00000000020000000000000004", MemoryID: "mem_a", Parent: one.Versions[0].ID, Op: versionlog.OpRenamed, Path: "/to", From: "/a/new.md", Digest: cas.Sum([]byte("new")), Size: 3},
			{ID: "memver_00000000020080000000000005", MemoryID: "mem_c", Parent: one.Versions[2].ID, Op: versionlog.OpDeleted, Path: "/gone"},
			{ID: "memver_000000000200g0000000000006", MemoryID: "mem_d", Op: versionlog.OpCreated, Path: "/é/", Spelling: "/e\u0301/"},
		},
	}
	for _, c := range []*versionlog.Commit{one, two} {
		for i := range c.Versions {
			v := &c.Versions[i]
			v.Seq, v.Time, v.Actor, v.Session, v.Message = c.Seq, c.Time, c.Actor, c.Session, c.Message
		}
	}
	return []*versionlog.Commit{one, two}
}

// TestGolden: a snapshot of format 1 is read as it was written, and one of the same commits
// has the same lines. How they are compressed may change.
func TestGolden(t *testing.T) {
	commits := goldenCommits()
	written := newObjects()
	if err := Empty(commits[0].StoreID, "creation-1").Fold(t.Context(), written, 2, yielding(commits)); err != nil {
		t.Fatal(err)
	}
	if *update {
		writeGolden(t, written)
	}
	golden, err := Open(t.Context(), FromFS(os.DirFS(goldenDir)))
	if err != nil {
		t.Fatal(err)
	}
	if err := golden.Check(t.Context()); err != nil {
		t.Error(err)
	}
	want := []versionlog.Version{commits[0].Versions[1], commits[1].Versions[0], commits[1].Versions[2]}
	if diff := cmp.Diff(want, collect(t, golden.State().Heads(t.Context(), "/", ""))); diff != "" {
		t.Errorf("heads: want -, got +:\n%s", diff)
	}
	if diff := cmp.Diff([]Key{{commits[0].Key, 1}, {commits[1].Key, 2}}, collect(t, golden.Keys(t.Context()))); diff != "" {
		t.Errorf("keys: want -, got +:\n%s", diff)
	}
	if seqs, err := golden.Versions(t.Context(), "mem_c"); err != nil || !slices.Equal(seqs, []uint64{1, 2}) {
		t.Errorf("mem_c has versions of %v, %v", seqs, err)
	}
	s := written.open(t)
	if diff := cmp.Diff(golden.Point, s.Point); diff != "" {
		t.Errorf("golden -, written anew +:\n%s", diff)
	}
	if diff := cmp.Diff(allLines(t, golden), allLines(t, s)); diff != "" {
		t.Errorf("golden -, written anew +:\n%s", diff)
	}
}

func writeGolden(t *testing.T, o *objects) {
	if err := os.RemoveAll(goldenDir); err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(o.listed(t))) {
		path := filepath.Join(goldenDir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, o.data[name], 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// allLines returns the lines of all pages.
func allLines(t *testing.T, s *Snapshot) (all []string) {
	for _, l := range []list{s.heads, s.memories, s.keys} {
		for i := range l.Pages {
			raw, err := l.Pages[i].get(t.Context(), s.source)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, string(raw))
		}
	}
	return all
}

// fill gives every field a value that is not its zero value.
func fill(t *testing.T, v reflect.Value) {
	if v.Type() == reflect.TypeFor[time.Time]() {
		v.Set(reflect.ValueOf(time.Date(2026, 3, 1, 12, 0, 0, 123_456_000, time.UTC)))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i))
		}
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(3)
	case reflect.Uint8, reflect.Uint64:
		v.SetUint(3)
	case reflect.Array:
		for i := range v.Len() {
			fill(t, v.Index(i))
		}
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(t, key)
		fill(t, value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	default:
		t.Fatalf("no value for a %v", v.Type())
	}
}

// TestEveryField: a head keeps all that a version has, and the manifest all that a tip has.
func TestEveryField(t *testing.T) {
	var v versionlog.Version
	var at Point
	fill(t, reflect.ValueOf(&v).Elem())
	fill(t, reflect.ValueOf(&at).Elem())
	o := newObjects()
	if err := Write(t.Context(), o, at, yielding([]versionlog.Version{v})); err != nil {
		t.Fatal(err)
	}
	s := o.open(t)
	if diff := cmp.Diff(at, s.Point); diff != "" {
		t.Errorf("the tip: want -, got +:\n%s", diff)
	}
	if diff := cmp.Diff([]versionlog.Version{v}, collect(t, s.State().Heads(t.Context(), "x", ""))); diff != "" {
		t.Errorf("the head: want -, got +:\n%s", diff)
	}
}

// TestFoldKeepsUnknown: what a newer mneme has added to a line stays when a snapshot is
// folded, unless the line changes.
func TestFoldKeepsUnknown(t *testing.T) {
	raw := `{"path":"/a","added":{"by":"a newer mneme"}}` + "\n" + `{"path":"/b","added":1}` + "\n"
	page := encoder().EncodeAll([]byte(raw), nil)
	o := forge(page, raw)
	digest := o.open(t).Tip.Digest
	c := &versionlog.Commit{StoreID: "memstore_1", Seq: 2, Prev: digest, Digest: cas.Sum(nil), Versions: []versionlog.Version{{Path: "/b", Op: versionlog.OpDeleted, MemoryID: "m"}}}
	if err := o.open(t).Fold(t.Context(), o, 2, yielding([]*versionlog.Commit{c})); err != nil {
		t.Fatal(err)
	}
	if got, want := allLines(t, o.open(t))[0], `{"path":"/a","added":{"by":"a newer mneme"}}`+"\n"; got != want {
		t.Errorf("the line became %q, want %q", got, want)
	}
}

// FuzzOpen opens and reads objects of any bytes, whose hashes are right.
func FuzzOpen(f *testing.F) {
	const ab = `{"path":"/a"}` + "\n" + `{"path":"/b"}` + "\n"
	f.Add([]byte(`{"store_id":"memstore_1","tip":{"seq":0},"heads":{"count":2,"pages":[{"first":"/a","count":2,"size":39,"raw":28}]}}`), encoder().EncodeAll([]byte(ab), nil))
	f.Add([]byte(`{"memories":{"count":1,"pages":[{"first":"m#00000000000000000000","count":1,"size":1,"raw":30}]}}`), []byte(`{"memory_id":"m","seqs":[1,2]}`+"\n"))
	f.Add([]byte(`{"keys":{"count":1,"pages":[{"first":"00000000000000000001","count":1,"size":1,"raw":30}]}}`), []byte(`{"key":"k","seq":1}`+"\n"))
	f.Fuzz(func(t *testing.T, body, data []byte) {
		if len(data) > maxRaw {
			return
		}
		var m manifest
		if json.Unmarshal(body, &m) == nil { // then the hash of its pages is made right
			for _, l := range []*list{&m.Heads, &m.Memories, &m.Keys} {
				for i := range l.Pages {
					l.Pages[i].SHA256, l.Pages[i].Size = cas.Sum(data), len(data)
				}
			}
			body, _ = json.Marshal(m)
		}
		o := newObjects()
		o.data[manifestName] = append(header(body), body...)
		o.data["pages/"+cas.Sum(data).String()] = data
		readAll(t, o)
		o.data[manifestName] = data
		readAll(t, o)
		// These bytes would decompress to data.
		packed := encoder().EncodeAll(data, nil)
		p := page{Size: len(packed), Raw: max(len(data), 1)}
		if raw, err := p.decompress(packed); err == nil && string(raw) != string(data) {
			t.Errorf("%q became %q", data, raw)
		}
		readAll(t, forge(packed, string(data)))
	})
}

// readAll reads what can be read of a snapshot and folds it; errors are expected.
func readAll(t *testing.T, o *objects) {
	s, err := Open(t.Context(), o)
	if err != nil {
		return
	}
	whole := s.Check(t.Context()) == nil
	heads := 0
	for v, err := range s.State().Heads(t.Context(), "/", "") {
		if err != nil {
			break
		}
		heads++
		if _, err := s.State().Head(t.Context(), v.Path); err != nil && whole {
			t.Errorf("%q is in a list and not found: %v", v.Path, err)
		}
	}
	for range s.State().Children(t.Context(), "/") {
	}
	if heads > s.heads.Count {
		t.Errorf("%d heads of %d", heads, s.heads.Count)
	}
	c := &versionlog.Commit{StoreID: s.StoreID, Seq: s.Tip.Seq + 1, Prev: s.Tip.Digest, Digest: cas.Sum(nil), Key: "k",
		Versions: []versionlog.Version{{Path: "/a", Op: versionlog.OpModified, MemoryID: "m", Seq: s.Tip.Seq + 1}}}
	to := newObjects()
	if err := s.Fold(t.Context(), to, c.Seq, yielding([]*versionlog.Commit{c})); err == nil && whole {
		maps.Copy(o.data, to.data)
		if err := o.open(t).Check(t.Context()); err != nil {
			t.Errorf("%v, after one that is whole was folded", fmt.Errorf("%w", err))
		}
	}
}
