package sqlitelog

import (
	"bytes"
	"fmt"
	"math/bits"

	"github.com/klauspost/compress/zstd"

	"mneme/cas"
)

// maxPacked is the size in bytes up to which a content is packed, which takes
// several times that of memory.
const maxPacked = 8 << 20

// fastBelow is the size in bytes below which the larger tables of a better level
// cost more time than the frame is long, and win nothing.
const fastBelow = 32 << 10

// slowFrom is the size in bytes from which the tables of the default level forget so much
// of the dictionary that little of it is found again. Those of the better one reach back
// over some 4 MiB of it, and take no longer then.
const slowFrom = 512 << 10

// compress returns a frame of zstd with data, and with base as its dictionary
// unless that is nil. `zstd -d -D base` reads it, too. cas.ErrCorrupt: it does not
// decode to data.
func compress(data, base []byte) ([]byte, error) {
	level := zstd.SpeedDefault
	switch largest := max(len(data), len(base)); {
	case largest < fastBelow:
		level = zstd.SpeedFastest
	case largest >= slowFrom:
		level = zstd.SpeedBetterCompression
	}
	opts := []zstd.EOption{
		zstd.WithEncoderLevel(level), zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false), zstd.WithSingleSegment(true),
		zstd.WithWindowSize(windowFor(len(data) + len(base))),
	}
	if len(base) > 0 {
		opts = append(opts, zstd.WithEncoderDictRaw(0, base))
	}
	e, err := zstd.NewWriter(nil, opts...)
	if err != nil {
		return nil, fmt.Errorf("compress %d bytes: %w", len(data), err)
	}
	frame := e.EncodeAll(data, nil)
	back, err := decompress(frame, base)
	if err == nil && !bytes.Equal(back, data) {
		err = fmt.Errorf("%w: the frame has other bytes", cas.ErrCorrupt)
	}
	if err != nil {
		return nil, fmt.Errorf("compress %d bytes: %w", len(data), err)
	}
	return frame, nil
}

// windowFor returns the smallest window of zstd that reaches so many bytes back.
func windowFor(n int) int {
	return max(zstd.MinWindowSize, 1<<bits.Len(uint(n)))
}

// decompress returns the bytes of a frame that compress made with the same base.
// cas.ErrCorrupt.
func decompress(frame, base []byte) ([]byte, error) {
	opts := []zstd.DOption{zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxPacked)}
	if len(base) > 0 {
		opts = append(opts, zstd.WithDecoderDictRaw(0, base))
	}
	d, err := zstd.NewReader(nil, opts...)
	if err != nil {
		return nil, fmt.Errorf("decompress: %w", err)
	}
	defer d.Close()
	data, err := d.DecodeAll(frame, []byte{})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", cas.ErrCorrupt, err)
	}
	return data, nil
}
