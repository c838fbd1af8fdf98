// Package handover keeps notes in memory that outlive the process which makes them:
// in a file without a name that another process has open, too. When the one is
// killed, at whatever moment, the next finds every batch of notes whose Append had
// returned, in their order, and no part of another.
//
// The file begins with a header of 32 bytes: the magic number and format, 8 bytes,
// and the offset of the first batch, 8 bytes. A batch is its length and its CRC-32C,
// 4 bytes each, and its notes, of which each is its length, 4 bytes, and its bytes;
// it is padded to 8. All numbers are little-endian. The last batch is followed by zeros, or
// by a batch that its writer did not end. Processes of one version of mneme and the next
// share it, so a change is another format.
package handover

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

const (
	magic      = "mnemeho\x01" // the last byte is the format
	headerSize = 32
	batchHead  = 8
	align      = 4096 // what the kernel can give back
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Journal is a file of notes. Its methods must not be called at once.
type Journal struct {
	file       *os.File
	start, end int64
	rewritten  int64 // how long the batches were when they were last rewritten
}

// New makes an empty journal.
func New() (*Journal, error) {
	fd, err := unix.MemfdCreate("mneme-handover", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	j := &Journal{file: os.NewFile(uintptr(fd), "handover"), start: headerSize, end: headerSize}
	if err := j.writeHeader(); err != nil {
		return nil, errors.Join(err, j.file.Close())
	}
	return j, nil
}

// Open opens a journal that another process has made, and may still be writing. The
// file is the journal's from then on. The error says when its format is another.
// Notes has to be called before anything is kept in it.
func Open(file *os.File) (*Journal, error) {
	j := &Journal{file: file}
	return j, j.measure()
}

// measure finds out where the batches are now.
func (j *Journal) measure() error {
	var header [headerSize]byte
	if _, err := j.file.ReadAt(header[:], 0); err != nil {
		return fmt.Errorf("read the header of the handover's notes: %w", err)
	}
	if string(header[:len(magic)]) != magic {
		return fmt.Errorf("the handover's notes begin with %q, want %q: the mount was made by another version of mneme; unmount it, and mount again", header[:len(magic)], magic)
	}
	size, err := j.file.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	j.start, j.end = int64(binary.LittleEndian.Uint64(header[8:])), size
	if j.start < headerSize || j.start > size {
		return fmt.Errorf("the handover's notes begin at %d of %d bytes", j.start, size)
	}
	return nil
}

// File is the file, for another process.
func (j *Journal) File() *os.File { return j.file }

func (j *Journal) writeHeader() error {
	header := make([]byte, headerSize)
	copy(header, magic)
	binary.LittleEndian.PutUint64(header[8:], uint64(j.start))
	_, err := j.file.WriteAt(header, 0) // within a page, which a signal does not cut in two
	return err
}

// Batch is notes that are kept together or not at all.
type Batch struct{ data []byte }

// Add appends a note, whose parts are joined.
func (b *Batch) Add(parts ...[]byte) {
	if len(b.data) == 0 {
		b.data = append(b.data, make([]byte, batchHead)...)
	}
	length := 0
	for _, part := range parts {
		length += len(part)
	}
	b.data = binary.LittleEndian.AppendUint32(b.data, uint32(length))
	for _, part := range parts {
		b.data = append(b.data, part...)
	}
}

// Empty reports whether nothing was added.
func (b *Batch) Empty() bool { return len(b.data) == 0 }

// Reset makes the batch empty, and clears the memory of its notes.
func (b *Batch) Reset() {
	clear(b.data)
	const most = 1 << 20 // is kept for the next notes
	if cap(b.data) > most {
		b.data = nil
	}
	b.data = b.data[:0]
}

// seal fills in the head, and returns the batch as it is written.
func (b *Batch) seal() []byte {
	body := b.data[batchHead:]
	binary.LittleEndian.PutUint32(b.data, uint32(len(body)))
	binary.LittleEndian.PutUint32(b.data[4:], crc32.Checksum(body, castagnoli))
	for len(b.data)%8 != 0 {
		b.data = append(b.data, 0)
	}
	return b.data
}

// Append keeps a batch, and empties it.
func (j *Journal) Append(b *Batch) error {
	if b.Empty() {
		return nil
	}
	n, err := j.file.WriteAt(b.seal(), j.end)
	if err != nil {
		return fmt.Errorf("note for who may have to go on: %w", err)
	}
	j.end += int64(n)
	b.Reset()
	return nil
}

// Long reports whether the journal is so much longer than when it was last rewritten
// that it had better be rewritten again.
func (j *Journal) Long() bool {
	const least = 4 << 20
	return j.end-j.start > least+2*j.rewritten
}

// Rewrite replaces all batches by one, and empties that. Nothing else is left in the file.
func (j *Journal) Rewrite(b *Batch) error {
	at := (j.end + align - 1) / align * align
	n, err := j.file.WriteAt(b.seal(), at)
	if err != nil {
		return fmt.Errorf("rewrite the notes for who may have to go on: %w", err)
	}
	j.start = at
	if err := j.writeHeader(); err != nil {
		return err
	}
	j.end, j.rewritten = at+int64(n), int64(n)
	b.Reset()
	// Earlier batches take no memory any longer, also if the process that rewrote the journal
	// last was killed before this call.
	_ = unix.Fallocate(int(j.file.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, headerSize, at-headerSize)
	if err := j.file.Truncate(j.end); err != nil { // of a batch that its writer did not end
		return fmt.Errorf("cut the notes for who may have to go on: %w", err)
	}
	return nil
}

// Notes returns all notes so far. Later notes are appended after the last of them: no other
// process may write any longer.
func (j *Journal) Notes() ([][]byte, error) {
	if err := j.measure(); err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.NewSectionReader(j.file, j.start, j.end-j.start))
	if err != nil {
		return nil, fmt.Errorf("read the handover's notes: %w", err)
	}
	notes, length := parse(data)
	j.end = j.start + int64(length)
	return notes, nil
}

// parse returns the notes of all whole batches, and how long these are.
func parse(data []byte) (notes [][]byte, length int) {
	for rest := data; len(rest) >= batchHead; rest = data[length:] {
		size := int(binary.LittleEndian.Uint32(rest))
		if size == 0 || size > len(rest)-batchHead {
			break
		}
		body := rest[batchHead : batchHead+size]
		if binary.LittleEndian.Uint32(rest[4:]) != crc32.Checksum(body, castagnoli) {
			break
		}
		batch, ok := split(body)
		if !ok {
			break
		}
		notes = append(notes, batch...)
		length = min(length+(batchHead+size+7)/8*8, len(data))
	}
	return notes, length
}

// split returns the notes of a batch.
func split(body []byte) (notes [][]byte, ok bool) {
	for len(body) > 0 {
		if len(body) < 4 {
			return nil, false
		}
		size := int(binary.LittleEndian.Uint32(body))
		if size > len(body)-4 {
			return nil, false
		}
		notes = append(notes, bytes.Clone(body[4:4+size]))
		body = body[4+size:]
	}
	return notes, true
}

// Spoil makes the journal one that cannot be opened.
func (j *Journal) Spoil() { _ = j.file.Truncate(0) }
