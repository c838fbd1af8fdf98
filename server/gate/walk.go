package gate

import (
	"context"
	"encoding/json"
	"iter"
	"time"

	"mneme/errkind"
	"mneme/gateway/wire"
	"mneme/server/reply"
	"mneme/versionlog"
)

// walk makes an operation of a function that answers with a stream.
func walk[T any](of func(context.Context, *view, *wire.Ask) (iter.Seq2[T, error], func(*wire.ItemWriter, T) error)) func(*call) error {
	return func(c *call) error {
		asked, err := c.ask()
		if err != nil {
			return err
		}
		items, write := of(c.Context(), c.view, asked)
		var w *wire.ItemWriter
		for item, err := range items {
			if err != nil {
				if w == nil { // the status tells it
					return err
				}
				return c.end(w, err)
			}
			if w == nil {
				w = c.stream()
			}
			if err := write(w, item); err != nil {
				return c.end(w, err)
			}
		}
		if w == nil {
			w = c.stream()
		}
		return c.end(w, nil)
	}
}

func writeVersion(w *wire.ItemWriter, v versionlog.Version) error { return w.Version(&v) }

func writeCommit(w *wire.ItemWriter, c *versionlog.Commit) error {
	record, err := wire.EncodeCommit(c)
	if err != nil {
		return err
	}
	return w.Bytes(record)
}

func writeStore(w *wire.ItemWriter, s versionlog.Store) error {
	text, err := json.Marshal(wire.StoreOf(s))
	if err != nil {
		return err
	}
	return w.Bytes(text)
}

func stores(ctx context.Context, v *view, a *wire.Ask) (iter.Seq2[versionlog.Store, error], func(*wire.ItemWriter, versionlog.Store) error) {
	return v.log.Stores(ctx, string(a.After)), writeStore
}

type (
	versions     = iter.Seq2[versionlog.Version, error]
	writeOne     = func(*wire.ItemWriter, versionlog.Version) error
	commitSeq    = iter.Seq2[*versionlog.Commit, error]
	writeOneMade = func(*wire.ItemWriter, *versionlog.Commit) error
)

// failed yields an error.
func failed(err error) versions {
	return func(yield func(versionlog.Version, error) bool) { yield(versionlog.Version{}, err) }
}

func heads(ctx context.Context, v *view, a *wire.Ask) (versions, writeOne) {
	if a.At == nil {
		return v.log.Heads(ctx, a.Store, string(a.Path), string(a.After)), writeVersion
	}
	state, err := v.log.At(ctx, a.Store, *a.At)
	if err != nil {
		return failed(err), writeVersion
	}
	return state.Heads(ctx, string(a.Path), string(a.After)), writeVersion
}

func children(ctx context.Context, v *view, a *wire.Ask) (versions, writeOne) {
	if a.At == nil {
		return v.log.Children(ctx, a.Store, string(a.Path)), writeVersion
	}
	state, err := v.log.At(ctx, a.Store, *a.At)
	if err != nil {
		return failed(err), writeVersion
	}
	return state.Children(ctx, string(a.Path)), writeVersion
}

func history(ctx context.Context, v *view, a *wire.Ask) (versions, writeOne) {
	return v.log.History(ctx, a.Store, a.ID, a.Seq), writeVersion
}

func pathHistory(ctx context.Context, v *view, a *wire.Ask) (versions, writeOne) {
	return v.log.PathHistory(ctx, a.Store, string(a.Path)), writeVersion
}

func commits(ctx context.Context, v *view, a *wire.Ask) (commitSeq, writeOneMade) {
	return v.log.Commits(ctx, a.Store, a.Seq), writeCommit
}

func commitsBefore(ctx context.Context, v *view, a *wire.Ask) (commitSeq, writeOneMade) {
	f := versionlog.Filter{}
	if a.Filter != nil {
		f = versionlog.Filter(*a.Filter)
	}
	return v.log.CommitsBefore(ctx, a.Store, a.Seq, f), writeCommit
}

// maxFollowed bounds how many commits an answer to a follower has, unless one log hands out more
// at once.
const maxFollowed = 200

// follow answers with the commits above one, as soon as there are any, or with none when the
// time is over.
func follow(c *call) error {
	asked, err := c.ask()
	if err != nil {
		return err
	}
	if c.linger != nil {
		lasting, done := c.linger(c.w, c.Request)
		defer done()
		c.Request = c.Request.WithContext(lasting)
		if err := lasting.Err(); err != nil { // the status tells it
			return err
		}
	}
	ctx, cancel := context.WithTimeoutCause(c.Context(), wire.PollTime, errPollOver)
	defer cancel()
	type result struct {
		commits []*versionlog.Commit
		err     error
	}
	got := make(chan result, 1)
	go func() {
		commits, err := next(ctx, c.view.log, asked.Store, asked.Seq)
		got <- result{commits, err}
	}()
	wait := func() result { // so that the log is not used after the request is over
		cancel()
		return <-got
	}
	alive := time.NewTicker(wire.AliveTime)
	defer alive.Stop()
	w := c.stream()
	tell := func(first bool) error {
		switch {
		case c.erased(): // the buffers of the answer come from one that may have had an erased content
			return w.Wipe()
		case first:
			return w.Flush()
		}
		return w.Alive()
	}
	if err := tell(true); err != nil {
		wait()
		return err
	}
	for {
		select {
		case r := <-got:
			return c.answerFollower(w, ctx, r.commits, r.err)
		case <-c.closing:
			return c.answerFollower(w, ctx, wait().commits, reply.ErrEnding)
		case <-alive.C:
			if err := tell(false); err != nil {
				wait()
				return err
			}
		}
	}
}

var errPollOver = errkind.New(errkind.Unavailable, "there was no commit")

func (c *call) answerFollower(w *wire.ItemWriter, ctx context.Context, commits []*versionlog.Commit, err error) error {
	for _, one := range commits {
		if err := writeCommit(w, one); err != nil {
			return c.end(w, err)
		}
	}
	if len(commits) > 0 || context.Cause(ctx) == errPollOver {
		err = nil // which comes again, if it lasts
	}
	return c.end(w, err)
}

// next returns the next commits above one, once there are some.
func next(ctx context.Context, log versionlog.Log, storeID string, after uint64) (commits []*versionlog.Commit, err error) {
	if next := log.Capabilities().Next; next != nil {
		return next(ctx, storeID, after)
	}
	for len(commits) == 0 {
		if err := log.Wait(ctx, storeID, after); err != nil {
			return nil, err
		}
		for c, err := range log.Commits(ctx, storeID, after) {
			if err != nil {
				return commits, err
			}
			if commits = append(commits, c); len(commits) == maxFollowed {
				break
			}
		}
	}
	return commits, nil
}
