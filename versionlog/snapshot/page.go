package snapshot

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"slices"
	"strings"
	"sync"

	"mneme/cas"
	"mneme/versionlog"

	"github.com/klauspost/compress/zstd"
)

// The limits of a page in bytes, beyond which it is not read.
const (
	maxRaw    = 4 << 20
	maxStored = maxRaw + 1<<16 // what does not compress becomes a little larger
	maxLine   = 2 << 20        // so that a page never needs more than maxRaw
)

// page is what a manifest says of a page.
type page struct {
	First  string            `json:"first"`  // the key of its first line
	Count  int               `json:"count"`  // of lines
	SHA256 versionlog.Digest `json:"sha256"` // of the object
	Size   int               `json:"size"`   // of the object
	Raw    int               `json:"raw"`    // length of the lines
}

// UnmarshalJSON refuses a page that is not within the limits, at once: a few bytes of a
// manifest are no reason to make room for another page.
func (p *page) UnmarshalJSON(data []byte) error {
	type members page
	if err := json.Unmarshal(data, (*members)(p)); err != nil {
		return err
	}
	if p.Size < 1 || p.Size > maxStored || p.Raw > maxRaw || p.Count < 1 || p.Count > p.Raw {
		return fmt.Errorf("page %q: %d bytes of %d lines in %d bytes are not within the limits", p.First, p.Raw, p.Count, p.Size)
	}
	return nil
}

func (p *page) name() string { return "pages/" + p.SHA256.String() }

// encoder compresses pages. The frames need no checksum, since a hash stands for them.
var encoder = sync.OnceValue(func() *zstd.Encoder {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderCRC(false), zstd.WithWindowSize(512<<10), zstd.WithLowerEncoderMem(true))
	if err != nil {
		panic(err) // the options are wrong
	}
	return e
})

// decoder decompresses pages, into no more memory than it is given.
var decoder = sync.OnceValue(func() *zstd.Decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(maxRaw), zstd.WithDecodeAllCapLimit(true), zstd.WithDecoderLowmem(true))
	if err != nil {
		panic(err)
	}
	return d
})

// lines returns the lines of a page as they were written.
func (s *Snapshot) lines(ctx context.Context, p *page) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	data, err := s.source.Get(ctx, p.name(), p.Size)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, versionlog.ErrNotFound) {
		// Not wrapped: it is not what was looked for that does not exist.
		return nil, fmt.Errorf("snapshot: page %s: %w: %v", p.SHA256, versionlog.ErrCorrupt, err)
	}
	if err != nil {
		return nil, fmt.Errorf("snapshot: page %s: %w", p.SHA256, err)
	}
	if len(data) != p.Size || cas.Sum(data) != p.SHA256 {
		return nil, fmt.Errorf("snapshot: page %s: %w: it does not match its hash", p.SHA256, versionlog.ErrCorrupt)
	}
	raw, err := p.decompress(data)
	if err != nil {
		return nil, fmt.Errorf("snapshot: page %s: %w: %w", p.SHA256, versionlog.ErrCorrupt, err)
	}
	return raw, nil
}

func (p *page) decompress(data []byte) ([]byte, error) {
	raw, err := decoder().DecodeAll(data, make([]byte, 0, p.Raw))
	if err == nil && (len(raw) != p.Raw || raw[len(raw)-1] != '\n') {
		err = fmt.Errorf("it has %d bytes, not lines of %d", len(raw), p.Raw)
	}
	return raw, err
}

// entry is what a line holds.
type entry interface {
	key() string // by which the lines of a list are ordered
}

// decode reads a line.
type decode[T entry] func(line []byte) (T, error)

// split reads the lines of page i of a list and makes sure that they are as many as they
// should be, in their order, and between the first of this page and that of the next.
func split[T entry](l *list, i int, raw []byte, decode decode[T]) ([]T, error) {
	p := &l.Pages[i]
	entries := make([]T, 0, p.Count)
	before := ""
	for line := range bytes.Lines(raw) {
		one, err := decode(line[:len(line)-1])
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", len(entries), err)
		}
		key, n := one.key(), len(entries)
		if n == 0 && key != p.First || n > 0 && key <= before || i+1 < len(l.Pages) && key >= l.Pages[i+1].First {
			return nil, fmt.Errorf("line %d is not where it should be", n)
		}
		entries, before = append(entries, one), key
	}
	if len(entries) != p.Count {
		return nil, fmt.Errorf("it has %d lines, not %d", len(entries), p.Count)
	}
	return entries, nil
}

// read returns what page i of a list holds.
func read[T entry](ctx context.Context, s *Snapshot, l *list, i int, decode decode[T]) ([]T, error) {
	raw, err := s.lines(ctx, &l.Pages[i])
	if err != nil {
		return nil, err
	}
	entries, err := split(l, i, raw, decode)
	if err != nil {
		return nil, fmt.Errorf("snapshot: page %s: %w: %w", l.Pages[i].SHA256, versionlog.ErrCorrupt, err)
	}
	return entries, nil
}

// find returns the page of a list in which a key is, if it is in the list.
func (l *list) find(key string) int {
	i, found := slices.BinarySearchFunc(l.Pages, key, func(p page, key string) int { return strings.Compare(p.First, key) })
	if !found {
		i--
	}
	return max(i, 0)
}

// notBefore returns the entries that are not before a key.
func notBefore[T entry](entries []T, key string) []T {
	i, _ := slices.BinarySearchFunc(entries, key, func(one T, key string) int { return strings.Compare(one.key(), key) })
	return entries[i:]
}

// entries yields what a list holds from a key on, page by page as get returns them.
func entries[T entry](l *list, key string, get func(i int) ([]T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for i := l.find(key); i < len(l.Pages); i++ {
			page, err := get(i)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, one := range notBefore(page, key) {
				if !yield(one, nil) {
					return
				}
			}
		}
	}
}

// all yields what a list of s holds from a key on.
func all[T entry](ctx context.Context, s *Snapshot, l *list, key string, decode decode[T]) iter.Seq2[T, error] {
	return entries(l, key, func(i int) ([]T, error) { return read(ctx, s, l, i, decode) })
}
