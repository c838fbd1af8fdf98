package versionlog

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"strings"
	"time"
)

// The prefixes of ids. A prefix is followed by 26 characters of Crockford's base32 in lower
// case, 128 bits, whose byte order is the order of their values.
const (
	storePrefix   = "memstore_"
	memoryPrefix  = "mem_"
	versionPrefix = "memver_"
)

// MaxChanges is how many changes one commit may have, whatever the backend:
// a version's place in its commit has 16 bits in its id.
const MaxChanges = 1 << 16

const maxSeq = 1<<48 - 1 // a sequence number has 48 bits in a version's id

// maxEpoch is the last epoch: each of a history begins with a commit.
const maxEpoch = maxSeq

// idLength is how many characters follow the prefix of an id.
const idLength = 26

var idEncoding = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// NewStoreID returns a fresh id for a store.
func NewStoreID() string { return storePrefix + timedID(time.Now()) }

// CheckStoreID says why an id cannot be a store's.
func CheckStoreID(id string) error {
	if _, err := decodeID(id, storePrefix); err != nil {
		return fmt.Errorf("store id %w", err)
	}
	return nil
}

// NewKey returns a fresh idempotency key for a proposal.
func NewKey() string { return timedID(time.Now()) }

// newMemoryID returns the id of a memory whose first version is of that time.
func newMemoryID(at time.Time) string { return memoryPrefix + timedID(at) }

// MemoryTime returns the time of the first version of the memory with that id, in
// whole milliseconds. The error says why an id cannot be a memory's.
func MemoryTime(id string) (time.Time, error) {
	b, err := ParseMemoryID(id)
	if err != nil {
		return time.Time{}, err
	}
	return time.UnixMilli(int64(binary.BigEndian.Uint64(b[:8]) >> 16)).UTC(), nil
}

// RandomID returns n random bytes in the letters of ids; of 5 bytes each 8 letters.
func RandomID(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // crypto/rand.Read never fails since Go 1.24
	return idEncoding.EncodeToString(b)
}

// timedID is 48 bits of milliseconds since 1970 and 80 random bits, so that
// ids made one after another are neighbours in an index.
func timedID(at time.Time) string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], uint64(at.UnixMilli())<<16)
	_, _ = rand.Read(b[6:]) // crypto/rand.Read never fails since Go 1.24
	return idEncoding.EncodeToString(b[:])
}

// newVersionID returns an id that says where its version stands: 48 bits of
// sequence number, 16 bits of place in the commit, 64 random bits. A log finds
// a version by its id without an index of ids.
func newVersionID(seq uint64, ordinal int) string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], seq<<16|uint64(ordinal))
	_, _ = rand.Read(b[8:])
	return FormatVersionID(b)
}

// LocateVersion returns the sequence number and the place in its commit of the
// version with that id, if there is one: the caller compares the whole id with
// what it finds there. The error says why an id cannot be one.
func LocateVersion(id string) (seq uint64, ordinal int, err error) {
	b, err := ParseVersionID(id)
	if err != nil {
		return 0, 0, err
	}
	place := binary.BigEndian.Uint64(b[:8])
	return place >> 16, int(place & 0xffff), nil
}

// ParseVersionID returns the 16 bytes of a version's id, which sort as the id does: the
// first 6 are the sequence number, big-endian. The error says why an id cannot be one.
func ParseVersionID(id string) ([16]byte, error) {
	b, err := decodeID(id, versionPrefix)
	if err != nil {
		return b, fmt.Errorf("version id %w", err)
	}
	return b, nil
}

// FormatVersionID returns the version's id with these 16 bytes.
func FormatVersionID(b [16]byte) string { return encodeID(versionPrefix, b) }

// ParseMemoryID returns the 16 bytes of a memory's id, which sort as the id does. The
// error says why an id cannot be one.
func ParseMemoryID(id string) ([16]byte, error) {
	b, err := decodeID(id, memoryPrefix)
	if err != nil {
		return b, fmt.Errorf("memory id %w", err)
	}
	return b, nil
}

// FormatMemoryID returns the memory's id with these 16 bytes.
func FormatMemoryID(b [16]byte) string { return encodeID(memoryPrefix, b) }

// decodeID returns the 16 bytes of an id with that prefix. The error begins with
// the id.
func decodeID(id, prefix string) (b [16]byte, err error) {
	text, ok := strings.CutPrefix(id, prefix)
	if !ok {
		return b, fmt.Errorf("%q: want %q and 26 characters", id, prefix)
	}
	var src, again [idLength]byte // an array allocates nothing
	if len(text) == idLength {
		copy(src[:], text)
		_, err = idEncoding.Decode(b[:], src[:])
		idEncoding.Encode(again[:], b[:])
	}
	if len(text) != idLength || err != nil || again != src { // decoding skips line ends and spare bits
		return [16]byte{}, fmt.Errorf("%q: want %q and 26 characters of 0-9 a-z without i, l, o, u", id, prefix)
	}
	return b, nil
}

// encodeID returns the id with that prefix of 16 bytes.
func encodeID(prefix string, b [16]byte) string {
	var text [idLength]byte
	idEncoding.Encode(text[:], b[:])
	return prefix + string(text[:])
}
