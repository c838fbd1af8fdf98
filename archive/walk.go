package archive

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"mneme/internal/quote"
	"mneme/memory"
	"mneme/versionlog"
)

// walk goes through the entries of a tar, of which it is known what each has to be.
type walk struct {
	section *io.SectionReader
	tar     *tar.Reader
	size    int64
	ended   int64 // where the bytes of the last entry ended
}

// next goes on to an entry of a name and a size.
func (w *walk) next(name string, size int64) (io.Reader, error) {
	header, err := w.tar.Next()
	switch {
	case errors.Is(err, io.EOF):
		return nil, fmt.Errorf("%w: it ends before %s", ErrDamaged, name)
	case err != nil:
		return nil, cutOff(err)
	case header.Name != name:
		return nil, fmt.Errorf("%w: it has the entry %s where %s belongs", ErrDamaged, quote.Name(header.Name), name)
	case header.Size != size:
		return nil, fmt.Errorf("%w: %s has %d bytes; want %d", ErrDamaged, name, header.Size, size)
	}
	return w.tar, w.checkEntry(header)
}

// checkEntry makes sure that an entry, whose header the walk is right behind, is told by that alone,
// and that no bit is another between it and the entry before.
func (w *walk) checkEntry(h *tar.Header) error {
	if err := checkHeader(h); err != nil {
		return err
	}
	at, err := w.at()
	if err != nil {
		return err
	}
	header := blocks(w.ended)
	extended := at - header - 3*block // where there is an extension, which is a header and a block itself
	if extended != 0 && at-header != block {
		return fmt.Errorf("%w: %d bytes follow byte %d, where the header of %s belongs", ErrDamaged, at-header, header, quote.Name(h.Name))
	}
	raw := make([]byte, at-w.ended)
	if _, err := w.section.ReadAt(raw, w.ended); err != nil {
		return cutOff(err)
	}
	filling, headers := raw[:header-w.ended], raw[header-w.ended:]
	if err := checkZero(filling, w.ended); err != nil {
		return err
	}
	if extended == 0 {
		text := headers[block : 2*block]
		end := bytes.IndexByte(text, '\n') + 1
		if err := checkZero(text[end:], header+block+int64(end)); err != nil {
			return err
		}
		if err := checkSum(headers[:block]); err != nil {
			return fmt.Errorf("%w in the extension of %s", err, quote.Name(h.Name))
		}
	}
	if err := checkSum(headers[len(headers)-block:]); err != nil {
		return fmt.Errorf("%w in the header of %s", err, quote.Name(h.Name))
	}
	w.ended = at + h.Size
	return nil
}

// block is of how many bytes a tar is made.
const block = 512

// blocks is where the block ends that holds the byte before at.
func blocks(at int64) int64 { return (at + block - 1) / block * block }

// checkSum makes sure that the checksum of a header, of which package tar takes many forms, has the
// one that mneme writes.
func checkSum(header []byte) error {
	const at, end = 148, 156
	sum := int(' ') * (end - at) // which stand for itself
	for i, b := range header {
		if i < at || i >= end {
			sum += int(b)
		}
	}
	if want := fmt.Sprintf("%06o\x00 ", sum); string(header[at:end]) != want {
		return fmt.Errorf("%w: the checksum is %q; want %q,", ErrDamaged, header[at:end], want)
	}
	return nil
}

// checkZero makes sure that there are only zeroes from a byte of the archive on.
func checkZero(filling []byte, from int64) error {
	for i, b := range filling {
		if b != 0 {
			return fmt.Errorf("%w: byte %d is %#02x; want 0: only zeroes stand between its entries and behind them", ErrDamaged, from+int64(i), b)
		}
	}
	return nil
}

// at is where the walk is: right behind the header of an entry, its bytes begin there.
func (w *walk) at() (int64, error) { return w.section.Seek(0, io.SeekCurrent) }

// checkHeader wants a plain file of which nothing is told in other ways.
func checkHeader(h *tar.Header) error {
	if h.Typeflag != tar.TypeReg || h.Linkname != "" {
		return fmt.Errorf("%w: its entry %s is not a plain file", ErrDamaged, quote.Name(h.Name))
	}
	for key := range h.PAXRecords {
		if key != "size" { // of an entry of more than 8 GiB
			return fmt.Errorf("%w: its entry %s has the extension %s", ErrDamaged, quote.Name(h.Name), quote.Name(key))
		}
	}
	return nil
}

// end makes sure that nothing follows the last entry but the end of a tar.
func (w *walk) end() error {
	at, err := w.at()
	if err != nil {
		return err
	}
	switch rest := w.size - blocks(at); {
	case rest < 2*block:
		return fmt.Errorf("%w: it is cut off at its end", ErrDamaged)
	case rest > maxTrailer:
		return fmt.Errorf("%w: %d bytes follow its end", ErrDamaged, rest-2*block)
	}
	trailer, err := io.ReadAll(w.section)
	if err != nil {
		return err
	}
	return checkZero(trailer, at)
}

// cutOff says what an error of reading a tar means.
func cutOff(err error) error {
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%w: it is cut off", ErrDamaged)
	case errors.Is(err, tar.ErrHeader), errors.Is(err, tar.ErrFieldTooLong):
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return err
}

// compression names the program that has compressed a file; "" is none that is known.
func compression(file io.ReaderAt) string {
	var head [6]byte
	n, _ := file.ReadAt(head[:], 0)
	for magic, name := range map[string]string{"\x1f\x8b": "gzip", "\x28\xb5\x2f\xfd": "zstd", "\xfd7zXZ": "xz", "BZh": "bzip2"} {
		if strings.HasPrefix(string(head[:n]), magic) {
			return name
		}
	}
	return ""
}

// take is add for a version from elsewhere, whose path is not checked yet.
func (w wanted) take(v *versionlog.Version) error {
	if v.Redacted() {
		return nil
	}
	for _, path := range []string{v.Path, v.From} {
		name := strings.TrimSuffix(path, "/")
		if path == v.From && path == "" {
			continue
		}
		canonical, err := memory.ParsePath(name)
		if err != nil {
			return err
		}
		if canonical != name {
			return fmt.Errorf("the path %s is not in normal form", quote.Name(path))
		}
	}
	return w.add(v)
}

// liesBelow reports whether a path lies below one of some memories.
func liesBelow(path string, memories map[string]bool) bool {
	for i := 1; i < len(path); i++ {
		if path[i] == '/' && memories[path[:i]] {
			return true
		}
	}
	return false
}
