package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"time"

	"mneme/gateway/wire"
	"mneme/versionlog"
)

// searching is how many times the limit of a call a log may look for the next item of a walk
// that has no index: a minute.
const searching = 2.4

// walking is a walk that is resumed where the answer broke off.
type walking[T any] struct {
	op   string
	ask  wire.Ask
	read func(*wire.ItemReader) (T, error)
	// searches says that the log may have to look at much for an item.
	searches bool
	// resume makes the walk continue after an item; nil: it starts again.
	resume func(*wire.Ask, T)
	// passed, if it is not nil, reports whether an item that comes after resuming was yielded.
	passed func(last, one T) bool
	// check returns why an item cannot follow the last one, which is nil before the first.
	check func(last *T, one T) error
}

// errStop says that the caller of a walk has enough.
var errStop = errors.New("enough")

// walk yields the items of an operation.
func walk[T any](ctx context.Context, c *client, w walking[T]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var last, none T
		ask := w.ask // each walk starts again
		some, resumed, enough := false, false, false
		take := func(r *request) func(T) error {
			return func(one T) error {
				if resumed && some && w.passed != nil && w.passed(last, one) {
					return nil
				}
				before := &last
				if !some {
					before = nil
				}
				if err := w.check(before, one); err != nil {
					return fmt.Errorf("%w: %w", ErrProtocol, err)
				}
				last, some = one, true
				enough = !yield(one, nil)
				r.came() // what the caller does with an item takes its own time
				if enough || ctx.Err() != nil {
					return errStop
				}
				return nil
			}
		}
		body, err := json.Marshal(&ask)
		r := &request{op: w.op, body: body, patience: c.limit, lasts: true}
		if w.searches {
			r.limit = time.Duration(searching * float64(c.limit))
			r.patience = r.limit
		}
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			err = c.do(ctx, r, func(answer *http.Response) error { return readItems(answer, nil, w.read, take(r)) }, func() {
				resumed = true
				if some && w.resume != nil {
					w.resume(&ask, last)
					r.body, _ = json.Marshal(&ask)
				}
			})
		}
		if errors.Is(err, errStop) {
			err = ctx.Err()
		}
		if err != nil && !enough {
			yield(none, err)
		}
	}
}

// readItems reads the items of an answer until take returns an error, which is errStop where it
// has enough. Alive is that of a wire.StreamReader.
func readItems[T any](answer *http.Response, alive func() error, read func(*wire.ItemReader) (T, error), take func(T) error) error {
	if !wire.IsStream(answer.Header) {
		return fmt.Errorf("%w: the answer is no stream", ErrProtocol)
	}
	stream := wire.NewStreamReader(answer.Body)
	stream.Alive = alive
	items := wire.NewItemReader(stream)
	for {
		one, err := read(items)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := take(one); err != nil {
			return err
		}
	}
}

func readVersion(r *wire.ItemReader) (versionlog.Version, error) { return r.Version() }

func readCommit(r *wire.ItemReader) (*versionlog.Commit, error) {
	c, _, err := readRecord(r)
	return c, err
}

// readRecord reads a commit, whose record has n bytes.
func readRecord(r *wire.ItemReader) (c *versionlog.Commit, n int, err error) {
	record, err := r.Record()
	if err != nil {
		return nil, 0, err
	}
	if c, err = wire.DecodeCommit(record); err != nil {
		return nil, 0, fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	return c, len(record), nil
}

func readStore(r *wire.ItemReader) (versionlog.Store, error) {
	text, err := r.Record()
	if err != nil {
		return versionlog.Store{}, err
	}
	var s wire.Store
	if err := json.Unmarshal(text, &s); err != nil {
		return versionlog.Store{}, fmt.Errorf("%w: a store: %w", ErrProtocol, err)
	}
	return s.Store(), nil
}
