package pack

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"

	"mneme/memory"
	"mneme/versionlog"
)

// moment is the end of a commit.
type moment struct {
	seq    uint64
	digest versionlog.Digest
}

// momentOf returns the moment of a sequence number; 0 is the newest.
func momentOf(ctx context.Context, st *memory.Store, seq uint64) (moment, error) {
	tip, err := st.Tip(ctx)
	if err != nil {
		return moment{}, err
	}
	switch {
	case seq == 0 || seq == tip.Seq:
		return moment{tip.Seq, tip.Digest}, nil
	case seq > tip.Seq:
		return moment{}, noCommit(st, seq, tip.Seq)
	}
	c, err := st.Commit(ctx, seq)
	if err != nil {
		return moment{}, err
	}
	return moment{c.Seq, c.Digest}, nil
}

// noCommit is the error of a commit that a store does not have yet.
func noCommit(st *memory.Store, seq, newest uint64) error {
	return fmt.Errorf("commit %d of %s: %w; the newest is %d", seq, shown(st.Info().Slug), versionlog.ErrNotFound, newest)
}

// boundary is the beginning of frames: 48 bits that the authors of the store's memories at
// that moment could not know.
func (at moment) boundary(st *memory.Store) string {
	h := sha256.New()
	h.Write([]byte(st.Info().ID))
	h.Write(binary.BigEndian.AppendUint64(nil, at.seq))
	h.Write(at.digest[:])
	return hex.EncodeToString(h.Sum(nil)[:6])
}

// headsAt returns the memories at and below a path, in the order of their paths.
func headsAt(ctx context.Context, st *memory.Store, seq uint64, prefix string) ([]*memory.Head, error) {
	state, err := st.At(ctx, seq)
	if err != nil {
		return nil, err
	}
	var heads []*memory.Head
	for v, err := range state.Heads(ctx, prefix, "") {
		if err != nil {
			return nil, err
		}
		if !v.IsDir() {
			heads = append(heads, memory.NewHead(&v))
		}
	}
	return heads, nil
}
