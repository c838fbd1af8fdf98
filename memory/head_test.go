package memory_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"
	"unsafe"

	"mneme/cas"
	"mneme/memory"
	"mneme/versionlog"
)

// TestHeadIsSmall bounds what each of 100,000 memories costs a mount: 112 bytes is a size
// class of Go, the next is 128.
func TestHeadIsSmall(t *testing.T) {
	if size := unsafe.Sizeof(memory.Head{}); size > 112 {
		t.Errorf("a head has %d bytes, want at most 112", size)
	}
	f := newFixture(t, nil)
	v := f.Put("/a", "text", versionlog.ExpectAbsent())
	if n := testing.AllocsPerRun(100, func() { memory.NewHead(&v) }); n != 1 {
		t.Errorf("the head of a version that a log has made takes %v allocations, want 1", n)
	}
}

func TestHeadRoundTrip(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		v := randomVersion(random)
		wantHead(t, memory.NewHead(&v), v)
	}
}

// TestHeadOfOddVersion has versions that no log makes.
func TestHeadOfOddVersion(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for name, change := range map[string]func(v *versionlog.Version){
		"the zero value":            func(v *versionlog.Version) { *v = versionlog.Version{} },
		"the id of another kind":    func(v *versionlog.Version) { v.ID = v.MemoryID },
		"an id from elsewhere":      func(v *versionlog.Version) { v.ID = "memver_1" },
		"a memory from elsewhere":   func(v *versionlog.Version) { v.MemoryID = "mem_1" },
		"no id":                     func(v *versionlog.Version) { v.ID = "" },
		"another sequence number":   func(v *versionlog.Version) { v.Seq++ },
		"a large sequence number":   func(v *versionlog.Version) { v.Seq += 1 << 48 },
		"an unknown operation":      func(v *versionlog.Version) { v.Op = "redacted" },
		"nanoseconds":               func(v *versionlog.Version) { v.Time = v.Time.Add(1) },
		"a time before its numbers": func(v *versionlog.Version) { v.Time = time.Unix(math.MinInt64/2, 0).UTC() },
		"no time":                   func(v *versionlog.Version) { v.Time = time.Time{} },
		"a time elsewhere":          func(v *versionlog.Version) { v.Time = v.Time.In(time.FixedZone("", 3600)) },
	} {
		t.Run(name, func(t *testing.T) {
			v := randomVersion(random)
			change(&v)
			wantHead(t, memory.NewHead(&v), v)
		})
	}
}

func TestSameHeads(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	first := randomVersion(random)
	next := randomVersion(random)
	next.MemoryID, next.Digest = first.MemoryID, first.Digest
	other := randomVersion(random)
	odd := first
	odd.ID = "memver_1"
	oddNext := odd
	oddNext.ID, oddNext.Digest = "memver_2", other.Digest
	versions := []*versionlog.Version{nil, &first, &next, &other, &odd, &oddNext}
	for i, v := range versions {
		for j, w := range versions {
			var a, b *memory.Head
			if v != nil {
				a = memory.NewHead(v)
			}
			if w != nil {
				b = memory.NewHead(w)
			}
			sameVersion := i == j
			sameMemory := v != nil && w != nil && v.MemoryID == w.MemoryID
			sameText := i == j || v != nil && w != nil && v.Digest == w.Digest
			if got := memory.SameVersion(a, b); got != sameVersion {
				t.Errorf("versions %d and %d are the same: %v, want %v", i, j, got, sameVersion)
			}
			if got := a.Is(w); got != sameVersion {
				t.Errorf("head %d is version %d: %v, want %v", i, j, got, sameVersion)
			}
			if got := memory.SameText(a, b); got != sameText {
				t.Errorf("versions %d and %d have the same text: %v, want %v", i, j, got, sameText)
			}
			if got := a.OfMemory(w); got != sameMemory {
				t.Errorf("versions %d and %d are of one memory: %v, want %v", i, j, got, sameMemory)
			}
		}
	}
}

func FuzzHead(f *testing.F) {
	random := rand.New(rand.NewPCG(8, 9))
	for range 4 {
		v := randomVersion(random)
		f.Add(v.ID, v.MemoryID, v.Seq, string(v.Op), v.Path, v.Digest[:], v.Size, string(v.Actor.Kind), v.Actor.ID, v.Session, v.Time.Unix(), int64(v.Time.Nanosecond()))
	}
	f.Add("", "", uint64(0), "", "", []byte{}, int64(-1), "", "", "", int64(math.MinInt64), int64(-1))
	f.Fuzz(func(t *testing.T, id, mem string, seq uint64, op, path string, digest []byte, size int64, kind, actor, session string, seconds, nanoseconds int64) {
		v := versionlog.Version{
			ID: id, MemoryID: mem, Seq: seq, Op: versionlog.Op(op), Path: path, Size: size, Session: session,
			Actor: versionlog.Actor{Kind: versionlog.ActorKind(kind), ID: actor}, Time: time.Unix(seconds, nanoseconds).UTC(),
		}
		copy(v.Digest[:], digest)
		wantHead(t, memory.NewHead(&v), v)
	})
}

func BenchmarkNewHead(b *testing.B) {
	v := randomVersion(rand.New(rand.NewPCG(1, 2)))
	b.ReportAllocs()
	for b.Loop() {
		memory.NewHead(&v)
	}
}

func BenchmarkHeadIs(b *testing.B) {
	v := randomVersion(rand.New(rand.NewPCG(1, 2)))
	h := memory.NewHead(&v)
	b.ReportAllocs()
	for b.Loop() {
		h.Is(&v)
	}
}

func BenchmarkHeadVersion(b *testing.B) {
	v := randomVersion(rand.New(rand.NewPCG(1, 2)))
	h := memory.NewHead(&v)
	b.ReportAllocs()
	for b.Loop() {
		h.Version()
	}
}

// wantHead checks that a head has everything of v that it keeps.
func wantHead(t *testing.T, h *memory.Head, v versionlog.Version) {
	t.Helper()
	want := v
	memoryTime, memoryTimeErr := versionlog.MemoryTime(v.MemoryID)
	want.Parent, want.From, want.Spelling, want.Message, want.Time = "", "", "", "", v.Time.UTC()
	if got := *h.Version(); got != want {
		t.Errorf("the head is of\n%+v\nwant\n%+v", got, want)
	}
	if at, ok := h.MemoryTime(); ok != (memoryTimeErr == nil) || !at.Equal(memoryTime) {
		t.Errorf("the memory of %s is of %v, want %v", v.MemoryID, at, memoryTime)
	}
	one := versionlog.Version{
		ID: h.ID(), MemoryID: h.MemoryID(), Seq: h.Seq(), Op: h.Op(), Path: h.Path(), Digest: h.Digest(),
		Size: h.Size(), Actor: h.Actor(), Session: h.Session(), Time: h.Time(),
	}
	if one != want {
		t.Errorf("one by one, the head is of\n%+v\nwant\n%+v", one, want)
	}
	if !h.Is(&v) || !h.OfMemory(&v) || !memory.SameVersion(h, h) || !memory.SameText(h, h) {
		t.Errorf("the head is not the version that it was made of: %+v", v)
	}
}

// randomVersion is one that a log could have made.
func randomVersion(random *rand.Rand) versionlog.Version {
	seq := random.Uint64() >> 16
	ops := []versionlog.Op{versionlog.OpCreated, versionlog.OpModified, versionlog.OpRenamed, versionlog.OpDeleted}
	var id, mem, parent [16]byte
	for _, b := range []*[16]byte{&id, &mem, &parent} {
		binary.BigEndian.PutUint64(b[:8], random.Uint64())
		binary.BigEndian.PutUint64(b[8:], random.Uint64())
	}
	binary.BigEndian.PutUint64(id[:8], seq<<16|random.Uint64N(versionlog.MaxChanges))
	return versionlog.Version{
		ID: versionlog.FormatVersionID(id), MemoryID: versionlog.FormatMemoryID(mem), Seq: seq,
		Parent: versionlog.FormatVersionID(parent), From: "/from", Spelling: "/spelling", Message: "message",
		Op: ops[random.IntN(len(ops))], Path: fmt.Sprintf("/dir/%x", random.Uint64()),
		Digest: cas.Sum(binary.BigEndian.AppendUint64(nil, random.Uint64())), Size: int64(random.Uint64() >> 1),
		Actor:   versionlog.Actor{Kind: versionlog.ActorSession, ID: fmt.Sprintf("agent%d", random.IntN(100))},
		Session: fmt.Sprintf("session%d", random.IntN(100)),
		Time:    time.UnixMicro(random.Int64N(1 << 55)).UTC(),
	}
}
