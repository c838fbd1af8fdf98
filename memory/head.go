package memory

import (
	"encoding/binary"
	"slices"
	"sync"
	"time"

	"mneme/cas"
	"mneme/versionlog"
)

// Head is a version in little memory: 112 bytes and its path, where a Version takes 256
// and the texts of its ids. It has what a face needs of what is there now: for the
// message, the parent, the spelling or the path before a rename, ask the log. A Head does
// not change.
type Head struct {
	path   string
	id     [16]byte // of the version; its sequence number is in it
	memory [16]byte // id of the memory
	digest cas.Digest
	size   int64
	time   int64 // microseconds since 1970, UTC
	by     *by
	op     byte // index in ops
}

// by is what many heads have in common.
type by struct {
	actor   versionlog.Actor
	session string
	// odd is the version itself, where the other fields of a Head cannot hold it, as of
	// one with ids that no log of this package makes. Its by is not shared.
	odd *versionlog.Version
}

var ops = []versionlog.Op{versionlog.OpCreated, versionlog.OpModified, versionlog.OpRenamed, versionlog.OpDeleted}

// Version returns the version that h was made of, with its time in UTC, and without
// Parent, From, Spelling and Message.
func (h *Head) Version() versionlog.Version {
	if h.by.odd != nil {
		return *h.by.odd
	}
	return versionlog.Version{
		ID: h.ID(), MemoryID: h.MemoryID(), Seq: h.Seq(), Op: h.Op(), Path: h.path, Digest: h.digest,
		Size: h.size, Actor: h.by.actor, Session: h.by.session, Time: h.Time(),
	}
}

// ID returns the version's id. It allocates, as MemoryID does.
func (h *Head) ID() string {
	if h.by.odd != nil {
		return h.by.odd.ID
	}
	return versionlog.FormatVersionID(h.id)
}

// MemoryID returns the id of the memory.
func (h *Head) MemoryID() string {
	if h.by.odd != nil {
		return h.by.odd.MemoryID
	}
	return versionlog.FormatMemoryID(h.memory)
}

// Seq returns the sequence number of the version's commit.
func (h *Head) Seq() uint64 {
	if h.by.odd != nil {
		return h.by.odd.Seq
	}
	return seqOf(h.id)
}

// seqOf returns the sequence number in the bytes of a version's id.
func seqOf(id [16]byte) uint64 { return binary.BigEndian.Uint64(id[:8]) >> 16 }

// Path returns where the memory is.
func (h *Head) Path() string { return h.path }

// Digest returns the SHA-256 of the content.
func (h *Head) Digest() cas.Digest { return h.digest }

// Size returns how long the content is, in bytes.
func (h *Head) Size() int64 { return h.size }

// Time returns when the version was made, in UTC.
func (h *Head) Time() time.Time {
	if h.by.odd != nil {
		return h.by.odd.Time
	}
	return time.UnixMicro(h.time).UTC()
}

// Actor returns who made the version.
func (h *Head) Actor() versionlog.Actor { return h.by.actor }

// Session returns the id of the session that made the version; "" is none.
func (h *Head) Session() string { return h.by.session }

// Op returns what the version did to the memory.
func (h *Head) Op() versionlog.Op {
	if h.by.odd != nil {
		return h.by.odd.Op
	}
	return ops[h.op]
}

// Is reports whether h is the version v. Nil is that there is none, so both nil is true.
func (h *Head) Is(v *versionlog.Version) bool {
	if h == nil || v == nil {
		return h == nil && v == nil
	}
	if h.by.odd != nil {
		return h.by.odd.ID == v.ID
	}
	id, err := versionlog.ParseVersionID(v.ID)
	return err == nil && id == h.id
}

// OfMemory reports whether h and v are versions of one memory. Nil is of none.
func (h *Head) OfMemory(v *versionlog.Version) bool {
	if h == nil || v == nil {
		return false
	}
	if h.by.odd != nil {
		return h.by.odd.MemoryID == v.MemoryID
	}
	id, err := versionlog.ParseMemoryID(v.MemoryID)
	return err == nil && id == h.memory
}

// SameVersion reports whether two heads are one version. Nil is that there is none, so
// both nil is true.
func SameVersion(a, b *Head) bool {
	if a == nil || b == nil {
		return a == b
	}
	if a.by.odd != nil || b.by.odd != nil {
		return a.ID() == b.ID()
	}
	return a.id == b.id
}

// SameText reports whether two heads hold the same bytes. Nil holds none, not even an
// empty text: it is the same as nil only.
func SameText(a, b *Head) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.digest == b.digest
}

// Interner keeps once what many heads have in common: who made them, in which session. It
// is bounded. It is safe for use by many goroutines, and its zero value is ready for use.
type Interner struct {
	mu     sync.Mutex
	shared map[by]*by
}

// maxShared is how many authors an Interner knows at most. It forgets all of them then:
// the heads that it has made keep theirs.
const maxShared = 4096

// NewHead returns v in little memory. Heads of one Interner share what they have in
// common.
func (in *Interner) NewHead(v *versionlog.Version) *Head {
	h := &Head{path: v.Path, digest: v.Digest, size: v.Size, time: v.Time.UnixMicro()}
	if !h.setIDs(v) || !h.setOp(v.Op) || !time.UnixMicro(h.time).Equal(v.Time) {
		odd := *v
		odd.Parent, odd.From, odd.Spelling, odd.Message, odd.Time = "", "", "", "", v.Time.UTC()
		h.by = &by{actor: v.Actor, session: v.Session, odd: &odd}
		return h
	}
	h.by = in.share(by{actor: v.Actor, session: v.Session})
	return h
}

// setIDs reports whether v has ids as logs make them, of which h has the bytes then.
func (h *Head) setIDs(v *versionlog.Version) bool {
	var versionErr, memoryErr error
	h.id, versionErr = versionlog.ParseVersionID(v.ID)
	h.memory, memoryErr = versionlog.ParseMemoryID(v.MemoryID)
	return versionErr == nil && memoryErr == nil && seqOf(h.id) == v.Seq
}

// setOp reports whether op is one of the known ones, which h has then.
func (h *Head) setOp(op versionlog.Op) bool {
	i := slices.Index(ops, op)
	h.op = byte(max(0, i))
	return i >= 0
}

// share returns b as other heads have it.
func (in *Interner) share(b by) *by {
	in.mu.Lock()
	defer in.mu.Unlock()
	if known, ok := in.shared[b]; ok {
		return known
	}
	if in.shared == nil || len(in.shared) >= maxShared {
		in.shared = map[by]*by{}
	}
	own := b // b itself would be allocated at each call
	in.shared[b] = &own
	return &own
}
