package sqlite

import (
	"bytes"
	"encoding/binary"
	"os"
)

// Stamp represents the content of a database with a write-ahead log: as long as it is the
// same, nothing was committed, in this process or another. It is the header of the log's
// index, which every commit replaces before it returns
// (https://www.sqlite.org/walformat.html#the_wal_index_header): a count of commits, the
// length of the log, its salts and the checksum of its last frame.
type Stamp [48]byte

// Follows reports whether exactly one commit lies between an earlier stamp and s.
func (s *Stamp) Follows(earlier *Stamp) bool { return s.Since(earlier) == 1 }

// Since returns how many commits lie between an earlier stamp and s.
func (s *Stamp) Since(earlier *Stamp) int { return int(s.commits() - earlier.commits()) }

// commits counts them, from any number and with wrapping.
func (s *Stamp) commits() uint32 { return binary.NativeEndian.Uint32(s[8:]) }

// Frames is how many frames the write-ahead log has, also those that the database has got.
func (s *Stamp) Frames() uint32 { return binary.NativeEndian.Uint32(s[16:]) }

// initialised reports whether the header is filled in.
func (s *Stamp) initialised() bool { return s[12] == 1 }

// Stamp returns the stamp of the database's current content. It costs one read of 96 bytes
// from memory, of a file. No stamp exists before the first connection of With, while a
// process is writing it, or if the index is not a file.
func (db *DB) Stamp() (s Stamp, ok bool) {
	index := db.index.Load()
	if index == nil {
		return s, false
	}
	var header [2 * len(s)]byte // the same twice, unless it is being written
	if n, err := index.ReadAt(header[:], 0); err != nil || n < len(header) {
		return s, false
	}
	copy(s[:], header[:])
	return s, s.initialised() && bytes.Equal(s[:], header[len(s):])
}

// openIndex opens the index of the write-ahead log that a connection uses, which
// stays open: else another process may put a new one in its place.
func (db *DB) openIndex(c *Conn) {
	index, err := os.Open(c.lib.Filename("main").String() + indexSuffix)
	if err != nil {
		return
	}
	if !db.index.CompareAndSwap(nil, index) {
		_ = index.Close()
	}
}
