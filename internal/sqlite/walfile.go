package sqlite

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
)

// WriteAheadSuffix makes the name of the write-ahead log of that of the database.
const WriteAheadSuffix = "-wal"

// The layout of a write-ahead log: https://www.sqlite.org/fileformat2.html#walformat
const (
	walHeader   = 32
	frameHeader = 24
	walMagic    = 0x377f0682 // the lowest bit says that checksums are of big-endian words
)

// WriteAhead is the form of a write-ahead log on disk. SQLite reads it up to the first
// frame that does not fit, and treats the rest as remains of an earlier log in the file.
type WriteAhead struct {
	Size      int64 // of the file in bytes; 0 where there is none
	BadHeader bool  // the first 32 bytes are damaged, or cut off
	End       int64 // where SQLite stops to read, in bytes
	Behind    int   // frames behind that belong to the same log
}

// InspectWriteAhead reads the write-ahead log of the database at path.
func InspectWriteAhead(path string) (w WriteAhead, err error) {
	f, err := os.Open(path + WriteAheadSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return w, nil
	}
	if err != nil {
		return w, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return w, err
	}
	w.Size = info.Size()
	return w, w.read(bufio.NewReaderSize(f, 1<<16))
}

func (w *WriteAhead) read(r io.Reader) error {
	header := make([]byte, walHeader)
	if _, err := io.ReadFull(r, header); err != nil {
		w.BadHeader = w.Size > 0
		return ignoreEnd(err)
	}
	word := func(b []byte, i int) uint32 { return binary.BigEndian.Uint32(b[4*i:]) }
	sum := checksum{order: binary.LittleEndian}
	if word(header, 0)&1 != 0 {
		sum.order = binary.BigEndian
	}
	sum.add(header[:24])
	w.BadHeader = word(header, 0)&^1 != walMagic || sum.s0 != word(header, 6) || sum.s1 != word(header, 7)
	pageSize := word(header, 2)
	if pageSize < 512 || pageSize > 65536 || pageSize&(pageSize-1) != 0 {
		w.BadHeader = true
		return nil
	}
	good := !w.BadHeader
	if good {
		w.End = walHeader
	}
	frame := make([]byte, frameHeader+int(pageSize))
	for {
		if _, err := io.ReadFull(r, frame); err != nil {
			return ignoreEnd(err)
		}
		same := word(frame, 2) == word(header, 4) && word(frame, 3) == word(header, 5)
		if good && same {
			sum.add(frame[:8])
			sum.add(frame[frameHeader:])
			same = sum.s0 == word(frame, 4) && sum.s1 == word(frame, 5)
			if same {
				w.End += int64(len(frame))
				continue
			}
			same = true // but damaged
		}
		good = false
		if same {
			w.Behind++
		}
	}
}

func ignoreEnd(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}

// checksum is the running checksum of a write-ahead log.
type checksum struct {
	order  binary.ByteOrder
	s0, s1 uint32
}

func (c *checksum) add(b []byte) {
	for ; len(b) >= 8; b = b[8:] {
		c.s0 += c.order.Uint32(b) + c.s1
		c.s1 += c.order.Uint32(b[4:]) + c.s0
	}
}
