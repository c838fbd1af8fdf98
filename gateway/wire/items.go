package wire

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"mneme/versionlog"
)

// Limits of the items of a stream, in bytes.
const (
	maxText   = 4 << 20  // of a text
	maxRecord = 64 << 20 // of a record, or of a store
	maxTexts  = 4096     // texts that both sides know by a number
)

// ItemWriter writes the items of a stream. It is for one goroutine.
type ItemWriter struct {
	*StreamWriter
	path  string            // of the version before
	texts map[string]uint64 // by their numbers, from 1
	item  []byte            // for reuse
}

// NewItemWriter returns a writer of items.
func NewItemWriter(w *StreamWriter) *ItemWriter {
	return &ItemWriter{StreamWriter: w, texts: map[string]uint64{}}
}

// The order of operations in a version.
var ops = []versionlog.Op{versionlog.OpCreated, versionlog.OpModified, versionlog.OpRenamed, versionlog.OpDeleted}

// Flags of a version.
const (
	hasDigest = 1 << iota
	hasFrom
	hasSpelling
)

// Version writes a version: its flags, operation, path (how many bytes it shares with the
// path before, and the rest), ids, and what else there is of it. Numbers are varints.
func (w *ItemWriter) Version(v *versionlog.Version) error {
	b := w.item[:0]
	flags := byte(0)
	if !v.Digest.IsZero() {
		flags |= hasDigest
	}
	if v.From != "" {
		flags |= hasFrom
	}
	if v.Spelling != "" {
		flags |= hasSpelling
	}
	op := 0
	for op < len(ops) && ops[op] != v.Op {
		op++
	}
	if op == len(ops) {
		return fmt.Errorf("version %s: there is no operation %q", v.ID, v.Op)
	}
	b = append(b, flags, byte(op))
	shared := 0
	for shared < len(v.Path) && shared < len(w.path) && v.Path[shared] == w.path[shared] {
		shared++
	}
	b = binary.AppendUvarint(b, uint64(shared))
	b = appendText(b, v.Path[shared:])
	w.path = v.Path
	b = appendID(b, v.ID, versionlog.ParseVersionID)
	b = appendID(b, v.MemoryID, versionlog.ParseMemoryID)
	b = appendID(b, v.Parent, versionlog.ParseVersionID)
	b = binary.AppendUvarint(b, v.Seq)
	b = binary.AppendVarint(b, v.Size)
	b = binary.AppendVarint(b, v.Time.UnixMicro())
	if flags&hasDigest != 0 {
		b = append(b, v.Digest[:]...)
	}
	if flags&hasFrom != 0 {
		b = appendText(b, v.From)
	}
	if flags&hasSpelling != 0 {
		b = appendText(b, v.Spelling)
	}
	for _, text := range []string{string(v.Actor.Kind), v.Actor.ID, v.Session, v.Message} {
		b = w.appendKnown(b, text)
	}
	w.item = b
	_, err := w.Write(b)
	return err
}

// appendKnown adds the number of a text that was written before, or 0 and the text.
func (w *ItemWriter) appendKnown(b []byte, text string) []byte {
	if n, known := w.texts[text]; known {
		return binary.AppendUvarint(b, n)
	}
	if len(w.texts) < maxTexts {
		w.texts[text] = uint64(len(w.texts) + 1)
	}
	return appendText(append(b, 0), text)
}

func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

// appendID adds 1 and the 16 bytes of an id, or 0 and the text if it is not an id.
func appendID(b []byte, id string, parse func(string) ([16]byte, error)) []byte {
	if bytes, err := parse(id); err == nil {
		return append(append(b, 1), bytes[:]...)
	}
	return appendText(append(b, 0), id)
}

// Bytes writes an item of bytes: their length, and they themselves.
func (w *ItemWriter) Bytes(data []byte) error {
	if _, err := w.Write(binary.AppendUvarint(nil, uint64(len(data)))); err != nil {
		return err
	}
	_, err := w.Write(data)
	return err
}

// Byte writes one byte.
func (w *ItemWriter) Byte(b byte) error {
	_, err := w.Write([]byte{b})
	return err
}

// ItemReader reads the items of a stream. Its methods return io.EOF at the end of the stream,
// *CutError, or the error of the server.
type ItemReader struct {
	from  *bufio.Reader
	path  string
	texts []string
}

// NewItemReader returns a reader of items.
func NewItemReader(r *StreamReader) *ItemReader {
	return &ItemReader{from: bufio.NewReaderSize(r, 32<<10)}
}

// Inside makes a cut of an end that is none.
func Inside(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return &CutError{errors.New("an item ends in its middle")}
	}
	return err
}

// Version reads a version.
func (r *ItemReader) Version() (v versionlog.Version, err error) {
	flags, err := r.from.ReadByte()
	if err != nil {
		return v, err
	}
	v, err = r.version(flags)
	return v, Inside(err)
}

func (r *ItemReader) version(flags byte) (v versionlog.Version, err error) {
	op, err := r.from.ReadByte()
	if err == nil && int(op) >= len(ops) {
		err = &CutError{fmt.Errorf("there is no operation %d", op)}
	}
	if err != nil {
		return v, err
	}
	v.Op = ops[op]
	shared, err := binary.ReadUvarint(r.from)
	if err == nil && shared > uint64(len(r.path)) {
		err = &CutError{fmt.Errorf("%d bytes shared with a path of %d", shared, len(r.path))}
	}
	if err != nil {
		return v, err
	}
	rest, err := r.text()
	if err != nil {
		return v, err
	}
	v.Path = r.path[:shared] + rest
	if len(v.Path) > maxText {
		return v, &CutError{fmt.Errorf("a path of %d bytes", len(v.Path))}
	}
	r.path = v.Path
	if err := r.numbers(&v); err != nil {
		return v, err
	}
	if flags&hasDigest != 0 {
		if _, err := io.ReadFull(r.from, v.Digest[:]); err != nil {
			return v, err
		}
	}
	if flags&hasFrom != 0 {
		if v.From, err = r.text(); err != nil {
			return v, err
		}
	}
	if flags&hasSpelling != 0 {
		if v.Spelling, err = r.text(); err != nil {
			return v, err
		}
	}
	for _, to := range []*string{(*string)(&v.Actor.Kind), &v.Actor.ID, &v.Session, &v.Message} {
		if *to, err = r.known(); err != nil {
			return v, err
		}
	}
	return v, nil
}

func (r *ItemReader) numbers(v *versionlog.Version) (err error) {
	if v.ID, err = r.id(versionlog.FormatVersionID); err != nil {
		return err
	}
	if v.MemoryID, err = r.id(versionlog.FormatMemoryID); err != nil {
		return err
	}
	if v.Parent, err = r.id(versionlog.FormatVersionID); err != nil {
		return err
	}
	if v.Seq, err = binary.ReadUvarint(r.from); err != nil {
		return err
	}
	if v.Size, err = binary.ReadVarint(r.from); err != nil {
		return err
	}
	at, err := binary.ReadVarint(r.from)
	v.Time = time.UnixMicro(at).UTC()
	return err
}

func (r *ItemReader) id(format func([16]byte) string) (string, error) {
	is, err := r.from.ReadByte()
	if err != nil || is == 0 {
		if err == nil {
			return r.text()
		}
		return "", err
	}
	var b [16]byte
	_, err = io.ReadFull(r.from, b[:])
	return format(b), err
}

func (r *ItemReader) known() (string, error) {
	n, err := binary.ReadUvarint(r.from)
	switch {
	case err != nil:
		return "", err
	case n > uint64(len(r.texts)):
		return "", &CutError{fmt.Errorf("there is no text %d", n)}
	case n > 0:
		return r.texts[n-1], nil
	}
	text, err := r.text()
	if err == nil && len(r.texts) < maxTexts {
		r.texts = append(r.texts, text)
	}
	return text, err
}

func (r *ItemReader) text() (string, error) {
	data, err := r.bytes(maxText)
	return string(data), err
}

// Bytes reads an item of bytes, which may be as many as most.
func (r *ItemReader) Bytes(most int) ([]byte, error) { return r.bytes(most) }

// Record reads an item of bytes that is a record or a store.
func (r *ItemReader) Record() ([]byte, error) { return r.bytes(maxRecord) }

// bytes makes room as the bytes come: a length alone is no reason to.
func (r *ItemReader) bytes(most int) ([]byte, error) {
	n, err := binary.ReadUvarint(r.from)
	if err != nil {
		return nil, err
	}
	if n > uint64(most) {
		return nil, &BadError{fmt.Errorf("an item of %d bytes, at most %d", n, most)}
	}
	data := make([]byte, 0, min(n, maxFrame))
	for uint64(len(data)) < n {
		some := min(n-uint64(len(data)), maxFrame)
		at := len(data)
		data = append(data, make([]byte, some)...)
		if _, err := io.ReadFull(r.from, data[at:]); err != nil {
			return nil, Inside(err)
		}
	}
	return data, nil
}

// Byte reads one byte.
func (r *ItemReader) Byte() (byte, error) { return r.from.ReadByte() }

// End returns nil where the stream ends here.
func (r *ItemReader) End() error {
	_, err := r.from.ReadByte()
	switch err {
	case io.EOF:
		return nil
	case nil:
		return &CutError{errors.New("something follows its last item")}
	}
	return err
}
