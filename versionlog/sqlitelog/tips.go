package sqlitelog

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"io"
	"io/fs"
	"os"

	"mneme/internal/safepath"
	"mneme/versionlog"
)

// tipsName is the file that remembers, outside the database, how far the history of each store
// had come. SQLite reads a write-ahead log up to the first frame that does not fit: where it was
// cut, or has a flipped bit, the commits after it are gone without an error. The file says that
// they were there.
//
// It has a block for each store, at the store's number in the database, which is never used
// twice, and a block has slots. A process that has made a commit durable writes it to the slot
// that its sequence number says, without a lock and without a sync:
//
//  1. The file never leads: everything in it was durable in the database before. After kill -9 it
//     is up to date; after a power cut it may lag, or a slot be torn, which its sum shows, and
//     such a slot says nothing.
//  2. It does not matter in which order two processes write, since they write to two
//     slots, and the highest counts. A process that is held up while others make as
//     many commits as there are slots makes the file lag, until the next commit.
//  3. A slot of its own says that the store was archived or deleted, after which no
//     other slot counts.
//
// An older mneme does not write to it; then it lags, too.
const tipsName = "tips"

const (
	tipSize    = 128
	tipSlots   = 8
	stateSlot  = tipSlots - 1
	tipsBlock  = tipSlots * tipSize
	tipSummed  = 96 // bytes of a slot before its sum
	tipMagic   = "mnemtip1"
	tipIDBytes = 40
)

// tipState is what a store has come to.
type tipState byte

const (
	tipInUse tipState = iota
	tipArchived
	tipDeleted
)

// knownTip is a slot of the file.
type knownTip struct {
	storeID string
	seq     uint64
	digest  versionlog.Digest
	state   tipState
}

func (k *knownTip) encode() []byte {
	b := make([]byte, tipSize)
	copy(b, tipMagic)
	copy(b[8:8+tipIDBytes], k.storeID)
	binary.BigEndian.PutUint64(b[48:], k.seq)
	copy(b[56:], k.digest[:])
	b[88] = byte(k.state)
	sum := sha256.Sum256(b[:tipSummed])
	copy(b[tipSummed:], sum[:])
	return b
}

// decodeTip reads a slot. One that is empty, torn or of another format is none.
func decodeTip(b []byte) (k knownTip, ok bool) {
	if !bytes.HasPrefix(b, []byte(tipMagic)) {
		return k, false
	}
	if sum := sha256.Sum256(b[:tipSummed]); !bytes.Equal(sum[:], b[tipSummed:tipSize]) {
		return k, false
	}
	k.storeID = string(bytes.TrimRight(b[8:8+tipIDBytes], "\x00"))
	k.seq = binary.BigEndian.Uint64(b[48:])
	copy(k.digest[:], b[56:])
	k.state = tipState(b[88])
	return k, true
}

// tips is the file as a process that writes has it open. If it cannot be opened, or a write to it
// fails, nothing is remembered: the commit is made all the same.
type tips struct{ file *os.File }

func openTips(dir *os.Root) tips {
	f, err := safepath.OpenFile(dir, tipsName, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return tips{}
	}
	return tips{f}
}

// note remembers a state of a store that is durable in the database.
func (t tips) note(num int64, k knownTip) {
	slot := int64(k.seq % stateSlot)
	if k.state != tipInUse {
		slot = stateSlot
	}
	if t.file != nil {
		_, _ = t.file.WriteAt(k.encode(), num*tipsBlock+slot*tipSize)
	}
}

// forget makes a block say nothing.
func (t tips) forget(num int64) error {
	if t.file == nil {
		return fs.ErrNotExist
	}
	_, err := t.file.WriteAt(make([]byte, tipsBlock), num*tipsBlock)
	return err
}

func (t tips) close() error {
	if t.file == nil {
		return nil
	}
	return t.file.Close()
}

// readTips returns the remembered state of each store, by number: the newest tip, and the last
// state. A slot that cannot be read is not remembered.
func readTips(dir *os.Root) map[int64]knownTip {
	f, err := safepath.OpenFile(dir, tipsName, os.O_RDONLY, 0)
	if err != nil {
		return nil
	}
	defer f.Close()
	known := map[int64]knownTip{}
	r, slot := bufio.NewReaderSize(f, 1<<16), make([]byte, tipSize)
	for at := int64(0); ; at += tipSize {
		if _, err := io.ReadFull(r, slot); err != nil {
			return known
		}
		k, ok := decodeTip(slot)
		if !ok {
			continue
		}
		num := at / tipsBlock
		newest, found := known[num]
		state := max(newest.state, k.state)
		if !found || k.seq >= newest.seq {
			newest = k
		}
		newest.state = state
		known[num] = newest
	}
}
