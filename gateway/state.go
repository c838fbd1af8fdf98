package gateway

import (
	"context"
	"iter"

	"mneme/gateway/wire"
	"mneme/versionlog"
)

// state is the past of a store, which the server looks up for each call.
type state struct {
	log     *Log
	storeID string
	seq     uint64
}

// At is part of versionlog.Log.
func (l *Log) At(ctx context.Context, storeID string, seq uint64) (versionlog.State, error) {
	if _, err := l.client.ask(ctx, wire.OpAt, &wire.Ask{Store: storeID, Seq: seq}); err != nil {
		return nil, err
	}
	return &state{l, storeID, seq}, nil
}

func (s *state) ask(path, after string) wire.Ask {
	return wire.Ask{Store: s.storeID, Path: wire.Text(path), After: wire.Text(after), At: &s.seq}
}

// Head is part of versionlog.State.
func (s *state) Head(ctx context.Context, path string) (versionlog.Version, error) {
	return s.log.version(ctx, wire.OpHead, s.ask(path, ""))
}

// Heads is part of versionlog.State.
func (s *state) Heads(ctx context.Context, prefix, after string) iter.Seq2[versionlog.Version, error] {
	return s.log.heads(ctx, s.ask(prefix, after))
}

// Children is part of versionlog.State.
func (s *state) Children(ctx context.Context, dir string) iter.Seq2[versionlog.Version, error] {
	return s.log.children(ctx, s.ask(dir, ""))
}
