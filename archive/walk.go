package archive

import (
	"archive/tar"
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
	return w.tar, checkHeader(header)
}

// at is where the walk is: right behind the header of an entry, its bytes begin there.
func (w *walk) at() (int64, error) { return w.section.Seek(0, io.SeekCurrent) }

// checkHeader wants a plain file of which nothing is told in other ways.
func checkHeader(h *tar.Header) error {
	if h.Typeflag != tar.TypeReg || h.Linkname != "" {
		return fmt.Errorf("%w: its entry %s is not a plain file", ErrDamaged, quote.Name(h.Name))
	}
	for key := range h.PAXRecords {
		if key != "size" { // of what is larger than 8 GiB
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
	end := (at + 511) / 512 * 512
	switch rest := w.size - end; {
	case rest < 1024:
		return fmt.Errorf("%w: it is cut off at its end", ErrDamaged)
	case rest > maxTrailer:
		return fmt.Errorf("%w: %d bytes follow its end", ErrDamaged, rest-1024)
	}
	trailer, err := io.ReadAll(w.section)
	if err != nil {
		return err
	}
	for _, b := range trailer {
		if b != 0 {
			return fmt.Errorf("%w: something follows its last entry", ErrDamaged)
		}
	}
	return nil
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

// take is add for a version from elsewhere, whose path nobody has checked.
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
