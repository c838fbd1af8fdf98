package session

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"mneme/cas"
	"mneme/memory"
	"mneme/versionlog"
)

// versionAt makes a version for a test of the session's knowledge.
func versionAt(seq uint64, path, text string) versionlog.Version {
	var id [16]byte
	binary.BigEndian.PutUint64(id[:], seq<<16)
	return versionlog.Version{
		ID: versionlog.FormatVersionID(id), MemoryID: versionlog.FormatMemoryID([16]byte{1}), Seq: seq, Op: versionlog.OpModified, Path: path,
		Digest: cas.Sum([]byte(text)), Size: int64(len(text)), Time: time.Unix(int64(seq), 0).UTC(),
	}
}

func headAt(seq uint64, path, text string) *memory.Head {
	v := versionAt(seq, path, text)
	return memory.NewHead(&v)
}

// knownFile is a file with what is known of it, which goes along wherever it is: what Known
// does by path alone.
type knownFile struct {
	memory string
	head   *memory.Head
	k      Knowledge
	at     string
}

// knownModel is what a face knows that has an object for each file.
type knownModel struct {
	random *rand.Rand
	known  Known
	seq    uint64
	files  map[string]*knownFile
	gone   map[string]Knowledge  // of paths without a file
	moved  map[string]*knownFile // what was moved away unread, by the path where it was
	strict bool
	trace  []string
}

func (m *knownModel) head(path string) *memory.Head {
	if f := m.files[path]; f != nil {
		return f.head
	}
	return nil
}

func (m *knownModel) isUnread(f *knownFile) bool {
	return f.k.Stale(f.head) || m.strict && !f.k.IsKnown()
}

// step changes something, in the model and in what is known by path.
func (m *knownModel) step(path, to string) {
	m.seq++
	f := m.files[path]
	what := m.random.IntN(7)
	m.trace = append(m.trace, fmt.Sprint(m.seq, ": ", []string{"read", "write", "remove", "rename", "they write", "they remove", "they rename"}[what], " ", path, " ", to))
	text := fmt.Sprint(m.random.IntN(4))
	switch {
	case what == 4:
		if f == nil {
			f = m.make(path, m.gone[path])
		}
		f.head = f.version(m.seq, path, text)
		m.known.Came(path)
	case what == 1: // with a file or without one
		if f == nil {
			f = m.make(path, Nothing())
		}
		f.head = f.version(m.seq, path, text)
		f.k = f.k.Wrote(f.head)
		m.wasRead(f)
		m.known.Set(path, f.k)
	case f == nil:
	case what == 0:
		f.k = f.k.Read(f.head)
		m.wasRead(f)
		m.known.Update(path, func(k Knowledge) Knowledge { return k.Read(f.head) })
	case what == 2:
		m.leave(f, f.k.Removed())
		m.known.Freed(path, m.seq)
	case what == 5:
		m.leave(f, f.k)
		m.known.Went(path)
	case m.files[to] != nil:
	case what == 3:
		v := versionAt(m.seq, to, "")
		v.Op, v.From, v.Digest, v.MemoryID = versionlog.OpRenamed, path, f.head.Digest(), f.memory
		m.move(f, to, &v)
		m.gone[path] = Nothing()
		if delete(m.moved, path); m.isUnread(f) {
			m.moved[path] = f
		}
		m.known.Renamed(&v)
	case what == 6:
		v := versionAt(m.seq, to, "")
		v.Op, v.From, v.Digest, v.MemoryID = versionlog.OpRenamed, path, f.head.Digest(), f.memory
		before := m.gone[to]
		m.gone[path] = f.k
		if !f.k.IsKnown() {
			delete(m.gone, path)
		}
		if m.move(f, to, &v); !f.k.IsKnown() {
			f.k = before
		}
		m.known.Followed(path, to, true)
		m.known.Came(to)
	}
}

// make makes a file, which is a memory of its own.
func (m *knownModel) make(path string, k Knowledge) *knownFile {
	f := &knownFile{memory: versionlog.FormatMemoryID([16]byte{byte(m.seq >> 8), byte(m.seq)}), k: k, at: path}
	m.files[path] = f
	delete(m.gone, path)
	return f
}

func (f *knownFile) version(seq uint64, path, text string) *memory.Head {
	v := versionAt(seq, path, text)
	v.MemoryID = f.memory
	return memory.NewHead(&v)
}

// wasRead: a memory that was moved unread has been read, wherever it is now.
func (m *knownModel) wasRead(f *knownFile) {
	maps.DeleteFunc(m.moved, func(_ string, moved *knownFile) bool { return moved == f })
}

func (m *knownModel) leave(f *knownFile, k Knowledge) {
	if delete(m.files, f.at); k.IsKnown() {
		m.gone[f.at] = k
	}
	f.at = ""
}

func (m *knownModel) move(f *knownFile, to string, v *versionlog.Version) {
	delete(m.files, f.at)
	delete(m.gone, to)
	m.files[to], f.at, f.head = f, to, memory.NewHead(v)
}

func (m *knownModel) check(t *testing.T, paths []string) {
	t.Helper()
	for _, path := range paths {
		want := m.gone[path]
		if f := m.files[path]; f != nil {
			want = f.k
		}
		if got := m.known.Of(path); inWords(got) != inWords(want) {
			t.Fatalf("of %s is known\n%s, want\n%s\n%s", path, inWords(got), inWords(want), strings.Join(m.trace, "\n"))
		}
		if _, two := m.known.gone[path]; two && m.known.there[path] != (Knowledge{}) {
			t.Fatalf("%s is in two rooms\n%s", path, strings.Join(m.trace, "\n"))
		}
		if m.random.IntN(3) > 0 { // else what is forgotten when it is asked for is always forgotten in time
			continue
		}
		at := ""
		if f := m.moved[path]; f != nil && f.at != "" && m.isUnread(f) {
			at = f.at
		} else {
			delete(m.moved, path)
		}
		if got, _ := m.known.MovedUnread(path, m.head); got != at {
			t.Fatalf("what was at %s has been moved unread to %q, want %q\n%s", path, got, at, strings.Join(m.trace, "\n"))
		}
	}
}

// inWords is what is known, for a comparison.
func inWords(k Knowledge) string {
	text := fmt.Sprint("known ", k.known, " refused ", k.refused, " meant ", k.meant)
	if k.head != nil {
		text += fmt.Sprint(" head ", k.head.Seq())
	}
	for _, one := range k.Changes() {
		text += fmt.Sprint(" to ", one.To.Seq())
	}
	return text
}

// TestKnownFollows: what is known by path is what is known of each file, wherever its own
// session and others move it.
func TestKnownFollows(t *testing.T) {
	paths := []string{"/a", "/b", "/c", "/d"}
	for seed := range uint64(40) {
		m := &knownModel{
			random: rand.New(rand.NewPCG(seed, 0)), strict: seed%2 == 1,
			files: map[string]*knownFile{}, gone: map[string]Knowledge{}, moved: map[string]*knownFile{},
		}
		m.known.strict = m.strict
		for range 300 {
			m.step(paths[m.random.IntN(len(paths))], paths[m.random.IntN(len(paths))])
			m.check(t, paths)
		}
	}
}

// TestMovedUnreadIsOneMemory: knowledge of another memory, at the place where the memory that was
// moved unread is now, does not mean that the moved one has been read.
func TestMovedUnreadIsOneMemory(t *testing.T) {
	k := Known{strict: true}
	moved, other := versionAt(10, "/b", "theirs"), versionAt(11, "/c", "other")
	moved.From, other.MemoryID = "/a", versionlog.FormatMemoryID([16]byte{2})
	k.Renamed(&moved)
	k.Set("/c", Of(memory.NewHead(&other)))
	k.Went("/c")
	k.Followed("/b", "/c", true)
	k.Came("/c")
	if at, _ := k.MovedUnread("/a", func(string) *memory.Head { return headAt(12, "/c", "theirs") }); at != "/c" {
		t.Errorf("what was at /a is unread at %q, want /c", at)
	}
}

// TestRenamedBesideARead: what a session has read at the old path since its rename is known there.
func TestRenamedBesideARead(t *testing.T) {
	var k Known
	moved, anew := versionAt(10, "/b", "mine"), headAt(11, "/a", "theirs")
	moved.From = "/a"
	k.Set("/a", Of(anew))
	k.Renamed(&moved)
	if k.Of("/a").Head() != anew {
		t.Errorf("of /a is known %s, want the version that was read", inWords(k.Of("/a")))
	}
	if !k.Of("/b").Stale(memory.NewHead(&moved)) {
		t.Errorf("of /b is known %s, which nobody has read", inWords(k.Of("/b")))
	}
}

// TestKnownIsBounded: what is made and removed without end, and what is read of it, does not
// take more and more memory.
func TestKnownIsBounded(t *testing.T) {
	var k Known
	for i := range maxGone + 10 {
		path := fmt.Sprint("/", i)
		k.Set(path, Of(headAt(1, path, "text")))
		k.Went(path)
	}
	if len(k.gone) != maxGone || len(k.there) != 0 {
		t.Errorf("%d paths in gone, %d there", len(k.gone), len(k.there))
	}
	if k.Of("/0").Head() == nil {
		t.Error("the oldest were forgotten, not the newest")
	}
	k = Known{}
	for i := range uint64(maxAllChanges) {
		path := fmt.Sprint("/", i%maxAllChanges)
		k.Update(path, func(now Knowledge) Knowledge {
			return now.Read(headAt(2*i+1, path, fmt.Sprint(i))).Read(headAt(2*i+2, path, fmt.Sprint(i, "more")))
		})
	}
	changes, oldest := 0, uint64(1<<62)
	for _, now := range k.All() {
		changes += len(now.Changes())
		for _, one := range now.Changes() {
			oldest = min(oldest, one.To.Seq())
		}
	}
	if changes > maxAllChanges || oldest < maxAllChanges/2 {
		t.Errorf("%d changes, the oldest of %d", changes, oldest)
	}
}

// TestKnownFollowsToAnother: where something else is, another session's rename brings what was
// known of it only if nothing is known there.
func TestKnownFollowsToAnother(t *testing.T) {
	for _, known := range []bool{false, true} {
		var k Known
		a, b := headAt(1, "/a", "a"), headAt(2, "/b", "b")
		k.Set("/a", Of(a))
		want := a
		if known {
			k.Set("/b", Of(b))
			want = b
		}
		if k.Followed("/a", "/b", false); k.Of("/b").Head() != want || k.Of("/a").Head() != a {
			t.Errorf("known %v: of /b %v, of /a %v", known, k.Of("/b").Head(), k.Of("/a").Head())
		}
	}
}

// TestKnownNotes: what is noted does not replace what is known.
func TestKnownNotes(t *testing.T) {
	var k Known
	one, two := headAt(1, "/f", "one"), headAt(2, "/f", "two")
	k.Note("/f", Of(one))
	k.Note("/f", Of(two))
	if k.Of("/f").Head() != one {
		t.Error("a note has replaced what was known")
	}
	k.Freed("/f", 1)
	if now := k.Of("/f"); !now.IsKnown() || now.Head() != nil {
		t.Error("it is not known that nothing is left")
	}
	k.Set("/f", Of(two))
	if k.Freed("/f", 1); k.Of("/f").Head() != two {
		t.Error("what was read since is forgotten")
	}
	k.Set("", Of(one))
	if k.Of("").IsKnown() {
		t.Error("something is known of no path")
	}
}
