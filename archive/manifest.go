// Package archive writes a store into one tar, and reads it back: the records of its
// history as they are, and the contents that they need, each once. The same history is
// always the same bytes, wherever it is kept. docs/FORMAT.md describes the format.
package archive

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"

	"mneme/cas"
	"mneme/errkind"
	"mneme/memory"
	"mneme/versionlog"
)

// Format is the format of the archives that are written, and the newest that is read.
const Format = 1

// The names of the entries.
const (
	manifestName = "manifest.json"
	recordsName  = "records.jsonl"
	headsName    = "heads.jsonl"
	blobsDir     = "blobs/"
)

// The bounds of an archive.
const (
	maxManifest = 16 << 20
	maxRecord   = 64 << 20 // one line
	maxTrailer  = 64 << 10 // zeroes behind the end, as some programs write them
)

var (
	// ErrDamaged says that an archive is not what was written: it is cut off, or changed.
	ErrDamaged = errkind.New(errkind.Corrupt, "the archive is damaged")
	// ErrNotArchive says that bytes are no archive of a store.
	ErrNotArchive = errkind.New(errkind.Invalid, "not an archive of a store")
)

// Kind says what an archive holds.
type Kind string

// The kinds of archives.
const (
	History Kind = "history" // all commits and contents up to one commit
	Heads   Kind = "heads"   // what was live after one commit, without history
)

// Manifest is what an archive begins with.
type Manifest struct {
	Format int
	Kind   Kind
	Store  versionlog.Store // after commit Seq; Replica is not told
	Seq    uint64           // of the last commit
	Digest cas.Digest       // of that commit; zero where Seq is 0
	Listed Part             // records, or heads
	Blobs  Part
	Lost   []cas.Digest // contents that the store had lost, in order
	Root   cas.Digest   // of the manifest and of all that follows it
}

// Part is how much there is of something.
type Part struct {
	Count int64 `json:"count"`
	Bytes int64 `json:"bytes"`
}

// wireManifest is a Manifest as it stands in an archive.
type wireManifest struct {
	Format int                  `json:"format"`
	Kind   Kind                 `json:"kind"`
	Store  versionlog.StoreJSON `json:"store"`
	Seq    uint64               `json:"seq"`
	Digest cas.Digest           `json:"digest,omitzero"`
	Listed Part                 `json:"listed"`
	Blobs  Part                 `json:"blobs"`
	Lost   []cas.Digest         `json:"lost,omitempty"`
	Root   cas.Digest           `json:"root,omitzero"` // left out of the bytes that it is the digest of
}

// encode returns the manifest as it stands in an archive.
func (m *Manifest) encode() ([]byte, error) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(wireManifest{
		Format: m.Format, Kind: m.Kind, Seq: m.Seq, Digest: m.Digest, Listed: m.Listed, Blobs: m.Blobs, Lost: m.Lost, Root: m.Root,
		Store: *versionlog.NewStoreJSON(m.Store),
	})
	return text.Bytes(), err
}

// decodeManifest reads what encode writes, and nothing else.
func decodeManifest(data []byte) (*Manifest, error) {
	var format struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(data, &format); err != nil {
		return nil, fmt.Errorf("%w: its manifest is no JSON object: %w", ErrNotArchive, err)
	}
	if format.Format > Format {
		return nil, fmt.Errorf("the archive has format %d, this mneme reads up to %d: %w; use a newer mneme", format.Format, Format, versionlog.ErrFormat)
	}
	var w wireManifest
	if err := json.Unmarshal(data, &w); err != nil {
		return nil, fmt.Errorf("%w: its manifest: %w", ErrNotArchive, err)
	}
	m := &Manifest{
		Format: w.Format, Kind: w.Kind, Seq: w.Seq, Digest: w.Digest, Listed: w.Listed, Blobs: w.Blobs, Lost: w.Lost, Root: w.Root,
		Store: w.Store.Store(),
	}
	again, err := m.encode()
	if err != nil || !bytes.Equal(again, data) {
		return nil, fmt.Errorf("%w: its manifest is not in the form in which mneme writes it", ErrDamaged)
	}
	return m, m.check()
}

// check reports what of a manifest cannot be.
func (m *Manifest) check() error {
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("%w: its manifest: %s", ErrDamaged, fmt.Sprintf(format, args...))
	}
	switch {
	case m.Format < 1:
		return wrong("format %d", m.Format)
	case m.Kind != History && m.Kind != Heads:
		return wrong("an archive of the kind %.40q; want %q or %q", m.Kind, History, Heads)
	case min(m.Listed.Count, m.Listed.Bytes, m.Blobs.Count, m.Blobs.Bytes) < 0:
		return wrong("a number below 0")
	case m.Digest.IsZero() != (m.Seq == 0):
		return wrong("it does not say of which commit it is")
	case m.Kind == History && uint64(m.Listed.Count) != m.Seq:
		return wrong("%d records; want %d, one of each commit", m.Listed.Count, m.Seq)
	case m.Store.Epoch < 1:
		return wrong("a store of epoch 0")
	}
	for i := 1; i < len(m.Lost); i++ {
		if bytes.Compare(m.Lost[i-1][:], m.Lost[i][:]) >= 0 {
			return wrong("lost contents that are not in order")
		}
	}
	if err := memory.CheckForeign(m.Store); err != nil {
		return wrong("%v", err)
	}
	return nil
}

// rootHash adds up what an archive holds: the manifest without its root, and a line of
// each entry behind it.
type rootHash struct{ hash.Hash }

func newRootHash(m *Manifest) (rootHash, error) {
	bare := *m
	bare.Root = cas.Digest{}
	text, err := bare.encode()
	h := rootHash{sha256.New()}
	h.Write(text)
	return h, err
}

func (h rootHash) entry(name string, size int64, sum []byte) {
	fmt.Fprintf(h, "%s %d %s\n", name, size, hex.EncodeToString(sum))
}

func (h rootHash) root() cas.Digest { return cas.Digest(h.Sum(nil)) }

// blobName is the name of the entry of a content.
func blobName(d cas.Digest) string {
	text := d.String()
	return blobsDir + text[:2] + "/" + text
}
