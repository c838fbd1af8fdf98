package snapshot

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"mneme/versionlog"
)

// head is a version that lives. Its key is its path.
type head versionlog.Version

func (h head) key() string { return h.Path }

func encodeHead(v *versionlog.Version) ([]byte, error) {
	if !utf8.ValidString(v.Path) {
		return nil, fmt.Errorf("%w: path %q is not UTF-8", versionlog.ErrInvalid, v.Path)
	}
	return versionlog.EncodeVersion(v)
}

func decodeHead(line []byte) (head, error) {
	v, err := versionlog.DecodeVersion(line)
	return head(v), err
}

// place is the part of a head that says where it stands.
type place struct {
	Path string `json:"path"`
}

func (p place) key() string { return p.Path }

func decodePlace(line []byte) (p place, err error) {
	err = json.Unmarshal(line, &p)
	return p, err
}

// stretch are the versions of a memory in one stretch of the history, by the sequence
// numbers of their commits: those that are the same when divided by stretchLength.
type stretch struct {
	MemoryID string   `json:"memory_id"`
	Seqs     []uint64 `json:"seqs"`
}

// stretchLength bounds how long the line of a memory gets that changes all the time.
const stretchLength = 10_000

func (s stretch) key() string { return stretchKey(s.MemoryID, s.Seqs[0]) }

// stretchKey is the key of the stretch that a commit is in.
func stretchKey(memoryID string, seq uint64) string {
	return fmt.Sprintf("%s#%020d", memoryID, seq/stretchLength)
}

func decodeStretch(line []byte) (s stretch, err error) {
	if err := json.Unmarshal(line, &s); err != nil {
		return s, err
	}
	for i, seq := range s.Seqs {
		if i > 0 && seq <= s.Seqs[i-1] || seq/stretchLength != s.Seqs[0]/stretchLength {
			return s, fmt.Errorf("commit %d of memory %q is not where it should be", seq, s.MemoryID)
		}
	}
	if len(s.Seqs) == 0 {
		return s, fmt.Errorf("memory %q has no versions", s.MemoryID)
	}
	return s, nil
}

// Key is the idempotency key of a commit.
type Key struct {
	Key string `json:"key"`
	Seq uint64 `json:"seq"`
}

func (k Key) key() string { return seqKey(k.Seq) }

// seqKey is the key of an entry that belongs to a commit.
func seqKey(seq uint64) string { return fmt.Sprintf("%020d", seq) }

func decodeKey(line []byte) (k Key, err error) {
	err = json.Unmarshal(line, &k)
	return k, err
}

// line is a line as it is, with its key. A line that does not change when a snapshot is folded
// stays as it is, with members that a newer mneme may have added.
type line struct {
	at   string
	text []byte
}

func (l line) key() string { return l.at }

// keepLine makes a decode that keeps the text.
func keepLine[T entry](of decode[T]) decode[line] {
	return func(text []byte) (line, error) {
		one, err := of(text)
		if err != nil {
			return line{}, err
		}
		return line{one.key(), text}, nil
	}
}
