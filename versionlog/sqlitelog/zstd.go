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

// maxBlock is the size in bytes of the largest block of a frame (RFC 8878, 3.1.1.2.4).
const maxBlock = 128 << 10

// slowFrom is the size in bytes from which the tables of the default level forget so much
// of the dictionary that little of it is found again. Those of the better one reach back
// over some 4 MiB of it, and take no longer then.
const slowFrom = 512 << 10

// codec encodes and decodes frames of zstd with tables that it keeps for the next ones: to make
// the tables takes longer than to encode a short content. It has contents in its memory, so that
// it is kept only while its user works. The zero codec is ready.
type codec struct {
	against map[shape]*zstd.Encoder // with a dictionary
	alone   map[shape]*zstd.Encoder // without
	decoder *zstd.Decoder
}

// shape is what an encoder cannot change.
type shape struct {
	level  zstd.EncoderLevel
	window int
}

// shapeFor returns the shape of encoders of data against base.
func shapeFor(data, base []byte) shape {
	switch largest := max(len(data), len(base)); {
	case largest < fastBelow:
		return shape{zstd.SpeedFastest, windowFor(2*fastBelow - 1)}
	case largest >= slowFrom:
		return shape{zstd.SpeedBetterCompression, windowFor(len(data) + len(base))}
	}
	return shape{zstd.SpeedDefault, windowFor(len(data) + len(base))}
}

func (s shape) encoder(more ...zstd.EOption) (*zstd.Encoder, error) {
	return zstd.NewWriter(nil, append(more, zstd.WithEncoderLevel(s.level), zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false),
		zstd.WithSingleSegment(true), zstd.WithWindowSize(s.window), zstd.WithLowerEncoderMem(s.level == zstd.SpeedFastest))...)
}

// compress returns a frame of zstd with data, and with base as its dictionary
// unless that is nil. `zstd -d -D base` reads it, too. cas.ErrCorrupt: it does not
// decode to data.
func (c *codec) compress(data, base []byte) ([]byte, error) {
	frame, err := c.encode(data, base)
	if err != nil {
		return nil, fmt.Errorf("compress %d bytes: %w", len(data), err)
	}
	back, err := c.decompress(frame, base)
	if err == nil && !bytes.Equal(back, data) {
		err = fmt.Errorf("%w: the frame has other bytes", cas.ErrCorrupt)
	}
	if err != nil {
		return nil, fmt.Errorf("compress %d bytes: %w", len(data), err)
	}
	return frame, nil
}

func (c *codec) encode(data, base []byte) ([]byte, error) {
	s := shapeFor(data, base)
	switch {
	case len(base) == 0:
		return c.encodeAlone(s, data)
	case len(data) > 0 && len(data) < maxBlock && s.level != zstd.SpeedBetterCompression:
		return c.encodeBlock(s, data, base)
	}
	e, err := s.encoder(zstd.WithEncoderDictRaw(0, base))
	if err != nil {
		return nil, err
	}
	return e.EncodeAll(data, nil), nil
}

// encodeAlone encodes without a dictionary.
func (c *codec) encodeAlone(s shape, data []byte) ([]byte, error) {
	e, err := kept(&c.alone, s)
	if err != nil {
		return nil, err
	}
	return e.EncodeAll(data, nil), nil
}

// encodeBlock encodes one block against another content. It goes by way of a stream: EncodeAll has a
// second set of tables, and an encoder fills all it has with a new dictionary.
func (c *codec) encodeBlock(s shape, data, base []byte) ([]byte, error) {
	dict := zstd.WithEncoderDictRaw(0, base)
	e, err := kept(&c.against, s, dict)
	if err != nil {
		return nil, err
	}
	var frame bytes.Buffer
	if err := e.ResetWithOptions(&frame, dict); err != nil {
		return nil, err
	}
	if _, err := e.Write(data); err != nil {
		return nil, err
	}
	err = e.Close()
	return frame.Bytes(), err
}

// kept returns an encoder of a shape, which is made if there is none.
func kept(all *map[shape]*zstd.Encoder, s shape, more ...zstd.EOption) (*zstd.Encoder, error) {
	if e := (*all)[s]; e != nil {
		return e, nil
	}
	e, err := s.encoder(more...)
	if err != nil {
		return nil, err
	}
	if *all == nil {
		*all = map[shape]*zstd.Encoder{}
	}
	(*all)[s] = e
	return e, nil
}

// windowFor returns the smallest window of zstd that reaches so many bytes back.
func windowFor(n int) int {
	return max(zstd.MinWindowSize, 1<<bits.Len(uint(n)))
}

// decompress returns the bytes of a frame that compress made with the same base.
// cas.ErrCorrupt.
func (c *codec) decompress(frame, base []byte) ([]byte, error) {
	if c.decoder == nil {
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(maxPacked))
		if err != nil {
			return nil, fmt.Errorf("decompress: %w", err)
		}
		c.decoder = d
	}
	dict := zstd.WithDecoderDictDelete()
	if len(base) > 0 {
		dict = zstd.WithDecoderDictRaw(0, base)
	}
	if err := c.decoder.ResetWithOptions(nil, dict); err != nil {
		return nil, fmt.Errorf("decompress: %w", err)
	}
	data, err := c.decoder.DecodeAll(frame, []byte{})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", cas.ErrCorrupt, err)
	}
	return data, nil
}
