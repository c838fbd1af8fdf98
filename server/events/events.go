// Package events serves what is committed to a store, as it comes: as server-sent events, or as
// one answer that waits until there is something. A client that notes the sequence number of the
// last commit which it has dealt with goes on behind it, and misses nothing.
package events

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"mneme/jsonview"
	"mneme/memory"
	"mneme/server/access"
	"mneme/server/reply"
	"mneme/versionlog"
)

// Path is that of the only operation, which takes the right access.Read.
const Path = "/v1/mneme/stores/{store}/events"

const (
	maxPage      = 100              // commits in one answer
	maxWait      = 50 * time.Second // of an answer for the first commit
	beat         = 15 * time.Second // between signs of life on a stream
	writeTimeout = 10 * time.Second // for a slow reader to take an event
)

// Linger has a request wait for news: it no longer counts as being under way, and its context
// ends when the client goes, its credential counts no more or the server ends. It has ended already
// where too many wait.
type Linger func(http.ResponseWriter, *http.Request) (context.Context, context.CancelFunc)

// New returns the handler of Path. caller returns who a request is from. While erased says that versions were
// erased lately, the comments of a stream are so long that they overwrite its buffers, which may have texts of
// other answers.
func New(caller func(*http.Request) (*access.Caller, error), linger Linger, erased func() bool, logger *slog.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f := &feed{Request: r, linger: linger, erased: erased}
		var err error
		if f.caller, err = caller(r); err == nil {
			err = f.serve(w, logger)
		}
		if err != nil && !f.began {
			reply.Error(w, r, logger, err)
		}
	})
}

// wiping is more than net/http buffers of an answer.
const wiping = 8 << 10

// feed is one request.
type feed struct {
	erased func() bool
	*http.Request
	linger Linger
	caller *access.Caller
	store  *memory.Store
	after  versionlog.Tip
	began  bool // the answer
}

func (f *feed) serve(w http.ResponseWriter, logger *slog.Logger) (err error) {
	if f.store, err = f.caller.Open(f.Context(), f.PathValue("store"), access.Read); err != nil {
		return err
	}
	if err := reply.CheckQuery(f.Request, "after", "limit", "wait"); err != nil {
		return err
	}
	if err := f.locate(); err != nil {
		return err
	}
	if accepts(f.Request) {
		return f.stream(w, logger)
	}
	return f.poll(w)
}

// accepts reports whether a client wants server-sent events.
func accepts(r *http.Request) bool {
	for _, kind := range strings.Split(r.Header.Get("Accept"), ",") {
		if kind, _, _ = strings.Cut(kind, ";"); strings.TrimSpace(kind) == "text/event-stream" {
			return true
		}
	}
	return false
}

// locate finds the commit behind which the client goes on: that of Last-Event-ID, which a client of
// server-sent events sends when it has lost the connection, that of the parameter after, or the
// newest.
func (f *feed) locate() error {
	tip, err := f.store.Tip(f.Context())
	if err != nil {
		return err
	}
	name, text := "Last-Event-ID", f.Header.Get("Last-Event-ID")
	if text == "" {
		name, text = "after", f.URL.Query().Get("after")
	}
	if text == "" {
		f.after = tip
		return nil
	}
	seq, err := strconv.ParseUint(text, 10, 64)
	switch {
	case err != nil:
		return reply.Invalidf("%s: it must be the sequence number of a commit, or 0", name)
	case seq > tip.Seq:
		return reply.Invalidf("%s: the newest commit is %d", name, tip.Seq)
	case seq > 0:
		c, err := f.store.Commit(f.Context(), seq)
		if err != nil {
			return err
		}
		f.after = versionlog.Tip{Seq: seq, Digest: c.Digest}
	}
	return nil
}

// stream sends commits until the client goes or takes them too slowly. It holds one at a time.
func (f *feed) stream(w http.ResponseWriter, logger *slog.Logger) error {
	ctx, done := f.linger(w, f.Request)
	defer done()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	control := http.NewResponseController(w)
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	f.began = true
	send := func(text string) error {
		_ = control.SetWriteDeadline(time.Now().Add(writeTimeout)) // a recorder of tests has none
		if _, err := w.Write([]byte(text)); err != nil {
			return err
		}
		err := control.Flush()
		_ = control.SetWriteDeadline(time.Time{}) // HTTP/2 ends a stream whose time is over, also where nothing is written
		return err
	}
	comment := func(text string) error {
		if f.erased() {
			text += strings.Repeat(".", wiping)
		}
		return send(": " + text + "\n\n")
	}
	if err := comment("events of " + f.store.Info().ID); err != nil {
		return err
	}
	commits := make(chan string)
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(ctx)
	defer func() { cancel(); <-ended }()
	go func() {
		defer func() {
			if fault := recover(); fault != nil {
				logger.Error("a stream panicked", "fault", fmt.Sprint(fault))
				ended <- fmt.Errorf("a fault: %v", fault)
			}
		}()
		ended <- f.store.Follow(ctx, f.after, func(c *versionlog.Commit) error {
			data, err := json.Marshal(jsonview.NewCommit(c))
			if err != nil {
				return err
			}
			select {
			case commits <- fmt.Sprintf("id: %d\nevent: commit\ndata: %s\n\n", c.Seq, data):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	for {
		var err error
		select {
		case event := <-commits:
			err = send(event)
		case <-ticker.C:
			err = comment("still here")
		case err = <-ended:
			ended <- err
			_ = send("event: end\ndata: {}\n\n") // a client that goes on behind the last id misses nothing
			return err
		}
		if err != nil {
			return err
		}
	}
}

// pageJSON is the answer to a poll.
type pageJSON struct {
	Data []jsonview.Commit `json:"data"`
	Last uint64            `json:"last"` // to go on behind
}

// number is a parameter.
func (f *feed) number(name string, byDefault, least, most int) (int, error) {
	text := f.URL.Query().Get(name)
	if text == "" {
		return byDefault, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		return 0, reply.Invalidf("%s: it must be from %d to %d", name, least, most)
	}
	return n, nil
}

// errFull ends following.
var errFull = errors.New("the page is full")

// poll answers with the next commits, once there are any or the time is over.
func (f *feed) poll(w http.ResponseWriter) error {
	wait, err := f.number("wait", 0, 0, int(maxWait/time.Second))
	if err != nil {
		return err
	}
	limit, err := f.number("limit", maxPage, 1, maxPage)
	if err != nil {
		return err
	}
	page := pageJSON{Data: []jsonview.Commit{}, Last: f.after.Seq}
	take := func(c *versionlog.Commit) error {
		page.Data, page.Last = append(page.Data, jsonview.NewCommit(c)), c.Seq
		if len(page.Data) >= limit {
			return errFull
		}
		return nil
	}
	for c, err := range f.store.Commits(f.Context(), f.after.Seq) {
		if err == nil {
			err = take(c)
		}
		if errors.Is(err, errFull) {
			break
		}
		if err != nil {
			return err
		}
	}
	if len(page.Data) == 0 && wait > 0 {
		if err := f.await(w, time.Duration(wait)*time.Second, take); err != nil {
			return err
		}
	}
	reply.JSON(w, f.Request, http.StatusOK, &page)
	return nil
}

// await takes the next commit, unless none comes in time.
func (f *feed) await(w http.ResponseWriter, wait time.Duration, take func(*versionlog.Commit) error) error {
	ctx, done := f.linger(w, f.Request)
	defer done()
	timed, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	err := f.store.Follow(timed, f.after, func(c *versionlog.Commit) error {
		if err := take(c); err != nil {
			return err
		}
		return errFull
	})
	switch {
	case errors.Is(err, errFull), timed.Err() != nil && ctx.Err() == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return err
}
