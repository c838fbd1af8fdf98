package snapshot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
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

// get returns the lines of a page as they were written.
func (p *page) get(ctx context.Context, source Source) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	data, err := source.Get(ctx, p.name(), p.Size)
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
