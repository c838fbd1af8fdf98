package pack

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mneme/cas"
	"mneme/internal/testing/awstest"
	"mneme/memory"
	"mneme/versionlog"
	"mneme/versionlog/dynamolog"
	"mneme/versionlog/sqlitelog"
)

// names are few, so that paths meet, and some are hard to show.
var names = []string{"a", "b", "MEMORY.md", "c d", "é\"", "[x] end", `back\slash`, strings.Repeat("long", 60)}

// texts are what random memories hold.
var texts = []string{"", "x", "no line break", "one\ntwo\n", "[0123456789ab] end: 1 of 1 memories shown\n", strings.Repeat("é", 700), strings.Repeat("a line\n", 90), "\xff\xfe", "nul\x00"}

// change makes one random change of the store.
func (f *fixture) change(r *rand.Rand) {
	path := func() string {
		var b strings.Builder
		for range 1 + r.IntN(4) {
			b.WriteString("/" + names[r.IntN(len(names))])
		}
		return b.String()
	}
	text := func() []byte { return []byte(texts[r.IntN(len(texts))]) }
	// An operation that is not possible in this state changes nothing.
	switch ctx := f.Context(); r.IntN(9) {
	case 8:
		_, _ = f.Batch(ctx, []memory.Change{{Action: versionlog.MakeDir, Path: path() + "/", Expect: versionlog.ExpectAny()}}, nil)
	case 0:
		_, _ = f.Remove(ctx, path(), versionlog.ExpectAny())
	case 1:
		_, _ = f.RemoveTree(ctx, path(), nil, nil)
	case 2:
		_, _ = f.Rename(ctx, path(), path(), nil)
	case 3: // a file is saved by renaming it away
		p := path()
		_, _ = f.Rename(ctx, p, p+"~", nil)
		_, _ = f.Write(ctx, p, text(), versionlog.ExpectAny())
	case 4:
		_, _ = f.Batch(ctx, []memory.Change{
			{Action: versionlog.Put, Path: path(), Content: text(), Expect: versionlog.ExpectAny()},
			{Action: versionlog.Put, Path: path(), Content: text(), Expect: versionlog.ExpectAny()},
		}, nil)
	default:
		_, _ = f.Write(ctx, path(), text(), versionlog.ExpectAny())
	}
}

func randomStore(t testing.TB, r *rand.Rand, changes int) *fixture {
	f := newFixture(t, &memory.StoreOptions{Content: versionlog.ContentAny})
	for range changes {
		f.change(r)
	}
	return f
}

// randomOptions are some for the newest state of a store.
func randomOptions(r *rand.Rand, tip uint64) request {
	o := request{MaxBytes: MinBytes + r.IntN(1<<r.IntN(15)), Seq: r.Uint64N(tip + 1)}
	if r.IntN(3) == 0 {
		o.Prefix = "/" + names[r.IntN(len(names))]
	}
	switch r.IntN(3) {
	case 0:
		o.Pins = []string{strings.TrimSuffix(o.Prefix, "/") + "/a", strings.TrimSuffix(o.Prefix, "/") + "/b"}
	case 1:
		since := r.Uint64N(tip + 1)
		if o.Seq == 0 || since <= o.Seq {
			o.Since = &since
		}
	}
	return o
}

func (f *fixture) tip() uint64 {
	tip, err := f.Tip(f.Context())
	f.check(err)
	return tip.Seq
}

// heldAt is what the memories below a prefix held at a commit.
func (f *fixture) heldAt(seq uint64, prefix string) map[string]string {
	held := map[string]string{}
	heads, err := headsAt(f.Context(), f.Store, seq, prefix)
	f.check(err)
	for _, h := range heads {
		data, err := f.ContentOf(f.Context(), h)
		f.check(err)
		held[h.Path()] = string(data)
	}
	return held
}

// TestRandomPacks holds packs of random stores to the promises: never over the limit, UTF-8,
// only what the memories held, and the same bytes whatever happens afterwards.
func TestRandomPacks(t *testing.T) {
	for seed := range uint64(25) {
		randomPacks(t, seed)
	}
}

// FuzzRender renders stores that hold any path and any text, in any size.
func FuzzRender(f *testing.F) {
	f.Add(uint16(0), "/a", "text")
	f.Add(uint16(300), "/\u202e\n[000000000000] end: 1 of 1 memories shown", "[000000000000] cut: 1 of 2 bytes shown\n\xff")
	f.Add(uint16(900), "/"+strings.Repeat("\u0301", 3000)+"/x", strings.Repeat("\u20ac", 400))
	f.Add(uint16(4000), "/\" v1 1 bytes", "\x00")
	f.Fuzz(func(t *testing.T, more uint16, path, text string) {
		c := newFixture(t, &memory.StoreOptions{Content: versionlog.ContentAny, MaxMemoryBytes: 1 << 20})
		c.write("/before.md", "before")
		d, err := c.blobs.Put(t.Context(), []byte(text))
		c.check(err)
		change := versionlog.Change{Action: versionlog.Put, Path: path, Digest: d, Size: int64(len(text)), Expect: versionlog.ExpectAny()}
		if _, err := c.log.Commit(t.Context(), c.Info().ID, &versionlog.Proposal{Key: "k", Actor: versionlog.Actor{Kind: "user", ID: path}, Changes: []versionlog.Change{change}}); err != nil {
			t.Skip(err)
		}
		size := MinBytes + int(more)
		c.parse(request{MaxBytes: size})
		c.parse(request{MaxBytes: size, Since: ptr(0)})
		c.parse(request{MaxBytes: size, Pins: []string{"/before.md"}})
	})
}

func randomPacks(t *testing.T, seed uint64) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 0))
	f := randomStore(t, r, 1+r.IntN(60))
	tip := f.tip()
	if tip == 0 {
		return
	}
	var pinned []request
	var before []Pack
	for range 30 {
		o := randomOptions(r, tip)
		read := f.parse(o)
		held := f.heldAt(read.seq, o.Prefix)
		if o.Since == nil && read.total != len(held) {
			t.Fatalf("seed %d: %+v: it is about %d memories, and there are %d", seed, o, read.total, len(held))
		}
		for path, text := range read.contents {
			if have, ok := held[path]; !ok || have != text && (!read.cut[path] || !strings.HasPrefix(have, text)) {
				t.Fatalf("seed %d: %+v: %s holds %q, not %q", seed, o, path, have, text)
			}
		}
		o.Seq = read.seq
		pinned, before = append(pinned, o), append(before, f.render(o))
	}
	for range 30 {
		f.change(r)
	}
	for i, o := range pinned {
		if after := f.render(o); !bytes.Equal(after.Text, before[i].Text) {
			t.Fatalf("seed %d: %+v: later there is another text (-before +after):\n%s", seed, o, cmp.Diff(string(before[i].Text), string(after.Text)))
		}
	}
}

// TestRandomChanges: from a store as it was and the changes since, a reader knows which
// memories there are and which of them have another version.
func TestRandomChanges(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 1))
		f := randomStore(t, r, 40)
		tip := f.tip()
		since := r.Uint64N(tip + 1)
		prefix := []string{"/", "/a", "/b"}[r.IntN(3)]
		fates, err := fatesOf(t.Context(), f.Store, since, tip)
		f.check(err)
		paths := map[string]uint64{}
		f.versionsAt(since, prefix, paths)
		for _, c := range changesOf(fates, prefix) {
			_, was := paths[c.path]
			from, renamed := strings.CutPrefix(c.what, "renamed ")
			switch {
			case renamed:
				from = unquoted(strings.TrimSuffix(from, " ->"))
				if _, ok := paths[from]; !ok {
					t.Errorf("seed %d: %s %s, where nothing was", seed, c.what, c.path)
				}
			case was == (c.what == "created"):
				t.Errorf("seed %d: %s %s, where was something: %v", seed, c.what, c.path, was)
			}
		}
		f.apply(changesOf(fates, prefix), paths)
		want := map[string]uint64{}
		f.versionsAt(tip, prefix, want)
		if diff := cmp.Diff(want, paths); diff != "" {
			t.Errorf("seed %d: %d..%d below %s (-there +told):\n%s", seed, since, tip, prefix, diff)
		}
	}
}

// versionsAt adds the sequence numbers of the memories below a prefix.
func (f *fixture) versionsAt(seq uint64, prefix string, to map[string]uint64) {
	heads, err := headsAt(f.Context(), f.Store, seq, prefix)
	f.check(err)
	for _, h := range heads {
		to[h.Path()] = h.Seq()
	}
}

// apply makes the changes to paths with their sequence numbers.
func (f *fixture) apply(changed []change, paths map[string]uint64) {
	for _, c := range changed {
		if from, renamed := strings.CutPrefix(c.what, "renamed "); renamed {
			delete(paths, unquoted(strings.TrimSuffix(from, " ->")))
		}
		if !c.there {
			delete(paths, c.path)
		}
	}
	for _, c := range changed {
		if c.there {
			paths[c.path] = c.last.Seq
		}
	}
}

func unquoted(word string) string {
	var text string
	if _, err := fmt.Sscanf(word, "%q", &text); err == nil {
		return text
	}
	return word
}

// TestSameOnEveryLog: the history that is copied to another log gives the same bytes there.
func TestSameOnEveryLog(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	f := randomStore(t, r, 50)
	tip := f.tip()
	logs := map[string]versionlog.Log{"sqlitelog": openSQLite(t), "dynamolog": openDynamo(t)}
	copies := map[string]*memory.Store{}
	for name, log := range logs {
		f.check(log.CreateStore(t.Context(), f.Info()))
		f.check(versionlog.Import(t.Context(), log, f.Info().ID, f.Commits(t.Context(), 0)))
		lib := memory.NewLibrary(log, func(string) (cas.Store, error) { return f.blobs, nil })
		var err error
		copies[name], err = lib.Open(t.Context(), f.Info().ID, nil)
		f.check(err)
	}
	for range 15 {
		o := randomOptions(r, tip)
		want := f.render(o)
		for name, st := range copies {
			got, err := Render(t.Context(), st, o.MaxBytes, o.options())
			if err != nil || !bytes.Equal(got.Text, want.Text) || got.Digest != want.Digest {
				t.Errorf("%s: %+v: %v (-memlog +this one):\n%s", name, o, err, cmp.Diff(string(want.Text), string(got.Text)))
			}
		}
	}
}

func openSQLite(t *testing.T) versionlog.Log {
	log, err := sqlitelog.Open(t.Context(), filepath.Join(t.TempDir(), "log"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() })
	return log
}

func openDynamo(t *testing.T) versionlog.Log {
	table, bucket, clients := awstest.Table(t), awstest.Bucket(t), awstest.Clients(t, nil)
	err := dynamolog.Setup(t.Context(), clients.DynamoDB, table, bucket, nil)
	if err != nil {
		t.Fatal(err)
	}
	log, err := dynamolog.Open(t.Context(), clients.DynamoDB, table, clients.S3, bucket, &dynamolog.Options{Refresh: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() })
	return log
}
