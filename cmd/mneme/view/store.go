package view

import (
	"context"
	"time"

	"mneme/internal/quote"
	"mneme/memory"
	"mneme/versionlog"
)

// StoreState is a store with its current position.
type StoreState struct {
	Store
	Seq      uint64            `json:"head_seq"`
	Digest   versionlog.Digest `json:"head_digest"`            // "" before the first commit
	Memories *int              `json:"memory_count,omitempty"` // nil: not counted
	Bytes    *int64            `json:"content_size_bytes,omitempty"`
	Git      int               `json:"git_paths,omitempty"` // memories that git would use, such as hooks
	History  int64             `json:"history_size_bytes"`

	Used versionlog.Usage `json:"-"`
}

// NewStoreState returns the state of a store. It counts the store's contents if count is set.
func NewStoreState(ctx context.Context, st *memory.Store, count bool) (StoreState, error) {
	state := StoreState{Store: NewStore(st.Info())}
	tip, err := st.Tip(ctx)
	state.Seq, state.Digest, state.History, state.Used = tip.Seq, tip.Digest, tip.Totals.Bytes, tip.UsedAt(time.Now())
	if err != nil || !count {
		return state, err
	}
	memories, bytes := 0, int64(0)
	for v, err := range st.Heads(ctx, "/") {
		if err != nil {
			return state, err
		}
		memories++
		bytes += v.Size
		if quote.HasGits(v.Path) {
			state.Git++
		}
	}
	state.Memories, state.Bytes = &memories, &bytes
	return state, nil
}
