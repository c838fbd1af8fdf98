package wire

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/klauspost/compress/zstd"
)

// A stream is frames: a byte for the kind, the length of the data in four bytes,
// big-endian, and the data. The data of all frames together are the items of the stream. A
// stream without its last frame was cut: the items that came are valid, but incomplete.
const (
	frameData  = 'd' // data
	frameZstd  = 'z' // the length of the data in four bytes, and the data as a frame of zstd
	frameAlive = 'k' // data that mean nothing, or none; at least every AliveTime
	frameEnd   = 'e' // nothing; the last frame
	frameError = 'x' // an Error, in JSON; the last frame
)

// The limits of frames.
const (
	maxFrame      = 128 << 10 // bytes of data
	maxErrorFrame = 256 << 10
	maxAliveFrame = 8 << 10 // which is more than net/http buffers of an answer
	minCompressed = 1 << 10 // what is less is sent as it is
)

// codecs compress frames. They keep what they worked on last.
type codecs struct {
	encoder func() *zstd.Encoder
	decoder func() *zstd.Decoder
}

var codec atomic.Pointer[codecs]

// coders returns the codecs of all streams.
func coders() *codecs {
	if c := codec.Load(); c != nil {
		return c
	}
	codec.CompareAndSwap(nil, &codecs{
		encoder: sync.OnceValue(func() *zstd.Encoder {
			e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderCRC(false), zstd.WithWindowSize(maxFrame), zstd.WithLowerEncoderMem(true))
			if err != nil {
				panic(err) // the options are wrong
			}
			return e
		}),
		decoder: sync.OnceValue(func() *zstd.Decoder {
			d, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(maxFrame), zstd.WithDecodeAllCapLimit(true), zstd.WithDecoderLowmem(true))
			if err != nil {
				panic(err)
			}
			return d
		}),
	})
	return coders()
}

// Forget drops the bytes of frames that the codecs keep.
func Forget() { codec.Store(nil) }

// StreamWriter writes a stream. It is for one goroutine.
type StreamWriter struct {
	to    io.Writer
	flush func() error
	data  []byte // not sent yet
	frame []byte // for reuse
	err   error  // of an earlier write
}

// NewStreamWriter returns a writer of a stream to an answer; flush sends what was written.
func NewStreamWriter(to io.Writer, flush func() error) *StreamWriter {
	return &StreamWriter{to: to, flush: flush}
}

// Write adds data.
func (w *StreamWriter) Write(data []byte) (int, error) {
	n := len(data)
	for w.err == nil && len(w.data)+len(data) >= maxFrame {
		some := maxFrame - len(w.data)
		w.data = append(w.data, data[:some]...)
		data = data[some:]
		w.sendData()
	}
	w.data = append(w.data, data...)
	return n, w.err
}

// Flush sends the buffered bytes.
func (w *StreamWriter) Flush() error {
	w.sendData()
	if w.err == nil {
		w.err = w.flush()
	}
	return w.err
}

// Alive tells the reader that the stream continues.
func (w *StreamWriter) Alive() error {
	w.send(frameAlive, nil)
	return w.Flush()
}

// Wipe is Alive with so much that it overwrites the buffers of the answer, which may have texts of others.
func (w *StreamWriter) Wipe() error {
	w.send(frameAlive, make([]byte, maxAliveFrame))
	return w.Flush()
}

// End ends the stream: with an error, if that is not nil.
func (w *StreamWriter) End(e *Error) error {
	w.sendData()
	if e == nil {
		w.send(frameEnd, nil)
	} else {
		w.send(frameError, e.encode(maxErrorFrame))
	}
	return w.Flush()
}

func (w *StreamWriter) sendData() {
	if len(w.data) == 0 {
		return
	}
	kind, body := byte(frameData), w.data
	if len(w.data) >= minCompressed {
		w.frame = binary.BigEndian.AppendUint32(w.frame[:0], uint32(len(w.data)))
		w.frame = coders().encoder().EncodeAll(w.data, w.frame)
		if len(w.frame) < len(w.data) {
			kind, body = frameZstd, w.frame
		}
	}
	w.send(kind, body)
	w.data = w.data[:0]
}

func (w *StreamWriter) send(kind byte, body []byte) {
	if w.err != nil {
		return
	}
	head := binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(body)))
	if _, w.err = w.to.Write(head); w.err == nil && len(body) > 0 {
		_, w.err = w.to.Write(body)
	}
}

// StreamReader reads the data of a stream. Read returns io.EOF at its end, the error of the
// server, *CutError, or *BadError.
type StreamReader struct {
	// Alive is called when the server says that the stream goes on; its error ends the stream.
	// Nil: the stream is none that waits for anything.
	Alive func() error

	from *bufio.Reader
	data []byte // of the frame at hand
	raw  []byte // for reuse
	held []byte // for reuse
	err  error
}

// NewStreamReader returns a reader.
func NewStreamReader(from io.Reader) *StreamReader {
	return &StreamReader{from: bufio.NewReaderSize(from, 64<<10)}
}

// Read is that of an io.Reader.
func (r *StreamReader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for len(r.data) == 0 {
		if r.err != nil {
			return 0, r.err
		}
		r.err = r.next()
	}
	n := copy(p, r.data)
	r.data = r.data[n:]
	return n, nil
}

func (r *StreamReader) next() error {
	var head [5]byte
	if _, err := io.ReadFull(r.from, head[:]); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return &CutError{err}
	}
	n := int(binary.BigEndian.Uint32(head[1:]))
	most := map[byte]int{frameData: maxFrame, frameZstd: maxFrame + 4, frameError: maxErrorFrame, frameAlive: maxAliveFrame}[head[0]]
	if n > most {
		return &CutError{fmt.Errorf("a frame %q of %d bytes", head[0], n)}
	}
	if cap(r.held) < n {
		r.held = make([]byte, n)
	}
	body := r.held[:n]
	if _, err := io.ReadFull(r.from, body); err != nil {
		return &CutError{err}
	}
	switch head[0] {
	case frameData:
		if n == 0 {
			return &BadError{errors.New("a frame without data")}
		}
		r.data = body
	case frameZstd:
		return r.decompress(body)
	case frameAlive:
		if r.Alive == nil {
			return &BadError{errors.New("it waits where there is nothing to wait for")}
		}
		return r.Alive()
	case frameEnd:
		return r.last(io.EOF)
	case frameError:
		return r.last(DecodeError(body))
	default:
		return &CutError{fmt.Errorf("a frame of the unknown kind %q", head[0])}
	}
	return nil
}

// last reads the end of the answer after the last frame, so that its connection can be used
// again.
func (r *StreamReader) last(err error) error {
	if _, more := r.from.ReadByte(); more == nil {
		return &CutError{errors.New("something follows the end")}
	}
	return err
}

func (r *StreamReader) decompress(body []byte) error {
	if len(body) < 4 {
		return &CutError{io.ErrUnexpectedEOF}
	}
	n := binary.BigEndian.Uint32(body)
	if n == 0 || n > maxFrame {
		return &BadError{fmt.Errorf("a frame of %d bytes of data", n)}
	}
	if r.raw == nil {
		r.raw = make([]byte, 0, maxFrame)
	}
	data, err := coders().decoder().DecodeAll(body[4:], r.raw[:0:n])
	if err == nil && len(data) != int(n) {
		err = fmt.Errorf("it has %d bytes, not %d", len(data), n)
	}
	if err != nil {
		return &CutError{err}
	}
	r.data = data
	return nil
}
