package spool

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"mneme/cas"
)

// A slot's file begins with the record of its entry; what an earlier, longer one
// has left behind it does not count. All numbers are little-endian.
//
//	0   14  "mneme spool 1\n"
//	14   1  state: live or dropped
//	15   1  "\n"
//	16  32  SHA-256 of all that follows
//	48   4  length of the description
//	52   8  length of the bytes
//	60      the description, an Entry as JSON; the bytes
const (
	magic    = "mneme spool 1\n"
	stateAt  = len(magic)
	sumAt    = 16
	bodyAt   = sumAt + sha256.Size
	headSize = bodyAt + 12

	live    = 'L'
	dropped = '-'
)

var (
	errDropped = errors.New("dropped")
	errTorn    = errors.New("cut off or damaged")
)

func encode(e *Entry) ([]byte, error) {
	about, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	record := make([]byte, headSize, headSize+len(about)+len(e.Data))
	copy(record, magic)
	record[stateAt], record[stateAt+1] = live, '\n'
	binary.LittleEndian.PutUint32(record[bodyAt:], uint32(len(about)))
	binary.LittleEndian.PutUint64(record[bodyAt+4:], uint64(len(e.Data)))
	record = append(append(record, about...), e.Data...)
	sum := cas.Sum(record[bodyAt:])
	copy(record[sumAt:], sum[:])
	return record, nil
}

// decode reads the record of a slot's file. errDropped, errTorn.
func decode(file []byte) (*Entry, error) {
	if len(file) < headSize || string(file[:len(magic)]) != magic || file[stateAt+1] != '\n' {
		return nil, errTorn
	}
	if file[stateAt] == dropped {
		return nil, errDropped
	}
	about := uint64(binary.LittleEndian.Uint32(file[bodyAt:]))
	data := binary.LittleEndian.Uint64(file[bodyAt+4:])
	rest := uint64(len(file) - headSize)
	if file[stateAt] != live || about > rest || data > rest-about {
		return nil, errTorn
	}
	end := headSize + about + data
	if sum := cas.Sum(file[bodyAt:end]); !bytes.Equal(sum[:], file[sumAt:bodyAt]) {
		return nil, errTorn
	}
	e := &Entry{}
	if err := json.Unmarshal(file[headSize:headSize+about], e); err != nil {
		return nil, fmt.Errorf("%w: %w", errTorn, err)
	}
	e.Data = file[headSize+about : end]
	return e, nil
}

// recordSize is the size of the record that a slot's file begins with, which decode takes.
func recordSize(file []byte) int64 {
	return headSize + int64(binary.LittleEndian.Uint32(file[bodyAt:])) + int64(binary.LittleEndian.Uint64(file[bodyAt+4:]))
}
