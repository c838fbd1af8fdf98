package memory

import (
	"encoding/binary"
	"slices"
	"time"
	"unique"

	"mneme/cas"
	"mneme/versionlog"
)

// Head is a version in little memory: 112 bytes and its path, where a Version takes 256 and
// the texts of its ids. It has the fields of the current state that a face needs. The log
// has the message, the parent, the spelling and the path before a rename. A Head does not
// change.
type Head struct {
	path   string
	id     [16]byte // of the version; its sequence number is in it
	memory [16]byte // id of the memory
	digest cas.Digest
	size   int64
	time   int64 // microseconds since 1970, UTC
	by     unique.Handle[by]
	op     byte // index in ops
}

// by has the fields that many heads have in common, and share.
type by struct {
	actor   versionlog.Actor
	session string
	// odd is the version itself, where the other fields of a Head cannot hold it, as of
	// one with ids that no log of this package makes.
	odd *versionlog.Version
}

var ops = []versionlog.Op{versionlog.OpCreated, versionlog.OpModified, versionlog.OpRenamed, versionlog.OpDeleted}

// odd returns the version itself where h cannot hold it, or nil.
func (h *Head) odd() *versionlog.Version { return h.by.Value().odd }

// Version returns the version that h was made of, with its time in UTC, and without
// Parent, From, Spelling and Message; nil for no head.
func (h *Head) Version() *versionlog.Version {
	if h == nil {
		return nil
	}
	if odd := h.odd(); odd != nil {
		v := *odd
		return &v
	}
	return &versionlog.Version{
		ID: h.ID(), MemoryID: h.MemoryID(), Seq: h.Seq(), Op: h.Op(), Path: h.path, Digest: h.digest,
		Size: h.size, Actor: h.Actor(), Session: h.Session(), Time: h.Time(),
	}
}

// ID returns the version's id. It allocates, as MemoryID does.
func (h *Head) ID() string {
	if h.odd() != nil {
		return h.odd().ID
	}
	return versionlog.FormatVersionID(h.id)
}

// MemoryID returns the id of the memory.
func (h *Head) MemoryID() string {
	if h.odd() != nil {
		return h.odd().MemoryID
	}
	return versionlog.FormatMemoryID(h.memory)
}

// Seq returns the sequence number of the version's commit.
func (h *Head) Seq() uint64 {
	if h.odd() != nil {
		return h.odd().Seq
	}
	return seqOf(h.id)
}

// seqOf returns the sequence number in the bytes of a version's id.
func seqOf(id [16]byte) uint64 { return binary.BigEndian.Uint64(id[:8]) >> 16 }

// MemoryTime returns when the memory got its first version, in whole milliseconds; false
// where its id does not say so.
func (h *Head) MemoryTime() (time.Time, bool) {
	if h.odd() != nil {
		at, err := versionlog.MemoryTime(h.MemoryID())
		return at, err == nil
	}
	return time.UnixMilli(int64(binary.BigEndian.Uint64(h.memory[:8]) >> 16)).UTC(), true
}

// Live reports whether the memory exists: h is not its removal.
func (h *Head) Live() bool { return h.Op() != versionlog.OpDeleted }

// Path returns where the memory is.
func (h *Head) Path() string { return h.path }

// Digest returns the SHA-256 of the content.
func (h *Head) Digest() cas.Digest { return h.digest }

// Size returns how long the content is, in bytes.
func (h *Head) Size() int64 { return h.size }

// Time returns when the version was made, in UTC.
func (h *Head) Time() time.Time {
	if h.odd() != nil {
		return h.odd().Time
	}
	return time.UnixMicro(h.time).UTC()
}

// Actor returns who made the version.
func (h *Head) Actor() versionlog.Actor { return h.by.Value().actor }

// Session returns the id of the session that made the version; "" is none.
func (h *Head) Session() string { return h.by.Value().session }

// Op returns the operation of the version on the memory.
func (h *Head) Op() versionlog.Op {
	if h.odd() != nil {
		return h.odd().Op
	}
	return ops[h.op]
}

// Is reports whether h is the version v. Nil is that there is none, so both nil is true.
func (h *Head) Is(v *versionlog.Version) bool {
	if h == nil || v == nil {
		return h == nil && v == nil
	}
	if h.odd() != nil {
		return h.odd().ID == v.ID
	}
	id, err := versionlog.ParseVersionID(v.ID)
	return err == nil && id == h.id
}

// OfMemory reports whether h and v are versions of one memory. Nil is of none.
func (h *Head) OfMemory(v *versionlog.Version) bool {
	if h == nil || v == nil {
		return false
	}
	if h.odd() != nil {
		return h.odd().MemoryID == v.MemoryID
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
	if a.odd() != nil || b.odd() != nil {
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

// NewHead returns v in little memory; nil for nil.
func NewHead(v *versionlog.Version) *Head {
	if v == nil {
		return nil
	}
	h := &Head{path: v.Path, digest: v.Digest, size: v.Size, time: v.Time.UnixMicro()}
	by := by{actor: v.Actor, session: v.Session}
	if !h.setIDs(v) || !h.setOp(v.Op) || !time.UnixMicro(h.time).Equal(v.Time) {
		odd := *v
		odd.Parent, odd.From, odd.Spelling, odd.Message, odd.Time = "", "", "", "", v.Time.UTC()
		by.odd = &odd
	}
	h.by = unique.Make(by)
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
