package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mneme/internal/lines"
	"mneme/internal/strictjson"
)

// The bounds of a client's lines.
const (
	maxWorking   = 16       // requests at work at once
	maxHeld      = 16 << 20 // bytes of them, unless one alone has more
	maxListening = 16       // requests that wait for changes of resources
	maxQueued    = 1 << 20  // bytes of lines that the client has not taken yet, before the last
)

// endGrace is how long requests may go on when the input has ended, and how long the client
// may take for the answers.
const endGrace = 5 * time.Second

// stuckFor is how long a client may take nothing while more is queued than may be: the end of the
// input, if there is one, is not found meanwhile.
const stuckFor = 5 * time.Minute

// maxChunk is how many bytes are written at once: when a client has taken them, it is not stuck.
const maxChunk = 64 << 10

var errStuck = errors.New("it has taken nothing for five minutes")

// conn is a client that writes and reads lines, each a message of JSON-RPC. It replaces the
// SDK's transport, which ends at the first line that is no message, and has no bounds.
//
//  1. Read continues when the client has taken the messages sent to it. A request waits until
//     few are at work. So the memory that a client can make this process hold is bounded,
//     whatever it sends and however little it reads.
//  2. Read itself answers a line that is no message, and reads the next one. It does the same
//     with a request for which no room is left while the server waits for an answer of the
//     client, since that answer must be read.
//  3. A request is at work from Read to Write of its answer.
//  4. When the input has ended, Read returns io.EOF once all requests are answered, or their
//     time is up: the SDK drops requests that are not answered then.
//  5. If too much is queued, Read stops. A client that takes nothing for a long time then is
//     given up.
//  6. Close ends Read. Queued messages are still written, for a time: see drain.
type conn struct {
	in   io.Closer
	line *lines.Reader
	out  io.WriteCloser
	most int // bytes of a line

	mu      sync.Mutex
	changed sync.Cond // of mu: any of the following
	connState
	stuck   *time.Timer   // calls giveUp
	written chan struct{} // closed when nothing is written any more
}

// connState is the state that a conn's lock guards.
type connState struct {
	working   map[jsonrpc.ID]int  // requests of the client, with their bytes
	held      int                 // the sum of these
	listening map[jsonrpc.ID]bool // requests that end with the client
	asked     map[jsonrpc.ID]bool // requests of the server
	queue     [][]byte            // lines to write
	queued    int                 // bytes of the queue, and of the line that is being written
	ended     bool                // nothing more is read
	late      bool                // the time of requests at the end is up
	closed    bool                // nothing is added to the queue
	since     time.Time           // when the write that is under way has begun; zero: none is
	lost      error               // why the queue cannot be written
}

// newConn returns a client of which a line has at most so many bytes.
func newConn(in io.ReadCloser, out io.WriteCloser, most int) *conn {
	c := &conn{in: in, line: lines.NewReader(in, most), out: out, most: most, written: make(chan struct{})}
	c.connState = connState{working: map[jsonrpc.ID]int{}, listening: map[jsonrpc.ID]bool{}, asked: map[jsonrpc.ID]bool{}}
	c.changed.L = &c.mu
	c.stuck = time.AfterFunc(stuckFor, c.giveUp)
	c.stuck.Stop()
	go c.writeQueue()
	return c
}

// Connect returns c, which is a transport of itself.
func (c *conn) Connect(context.Context) (sdk.Connection, error) { return c, nil }

// SessionID is "": there is one session.
func (c *conn) SessionID() string { return "" }

// Read returns the next message.
func (c *conn) Read(context.Context) (jsonrpc.Message, error) {
	for c.awaitRoom() {
		line, err := c.line.Next()
		switch {
		case errors.Is(err, lines.ErrTooLong):
			c.refuse(&refusal{code: jsonrpc.CodeInvalidRequest, text: "the line is too long"})
			continue
		case err != nil:
			return nil, c.endOfInput(err)
		case len(line) == 0:
			continue
		}
		msg, no := readMessage(line, &strictjson.Limits{Bytes: c.most, Depth: maxDepth, Values: maxValues})
		if no == nil {
			msg, no = c.admit(msg, len(line))
		}
		if no != nil {
			c.refuse(no)
		} else if msg != nil {
			return msg, nil
		}
	}
	return nil, c.endOfInput(io.EOF)
}

// awaitRoom waits until the client has taken the messages sent to it. It reports false when
// the input has ended.
func (c *conn) awaitRoom() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for !c.ended && c.queued > maxQueued {
		c.changed.Wait()
	}
	return !c.ended
}

// endOfInput waits for answers, lets no more be queued, and returns what Read is to return at
// the end. Requests that wait for an answer of the client get none any more.
func (c *conn) endOfInput(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	timer := time.AfterFunc(endGrace, func() { c.change(func() { c.late = true }) })
	defer timer.Stop()
	for len(c.working) > len(c.asked) && !c.late && !c.closed {
		c.changed.Wait()
	}
	c.closed = true // or the SDK would wait for answers that wait for a client that does not read
	c.changed.Broadcast()
	if c.ended || errors.Is(err, io.EOF) {
		return io.EOF
	}
	return err
}

// end ends the input.
func (c *conn) end() {
	c.change(func() { c.ended = true })
	_ = c.in.Close()
}

// change changes the state that c.mu guards.
func (c *conn) change(do func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	do()
	c.changed.Broadcast()
}

// refuse answers a line. The id of a request under way is not told: the client would take that
// for answered.
func (c *conn) refuse(r *refusal) {
	if c.isUnderWay(r.id) {
		r.id = nil
	}
	_ = c.send(context.Background(), r.encode(), jsonrpc.ID{}) // an error ends Read, too
}

func (c *conn) isUnderWay(raw json.RawMessage) bool {
	var value any
	if raw == nil || json.Unmarshal(raw, &value) != nil {
		return false
	}
	id, err := jsonrpc.MakeID(value)
	c.mu.Lock()
	defer c.mu.Unlock()
	_, isWorking := c.working[id]
	return err == nil && (isWorking || c.listening[id])
}

// notices are the notifications that the server heeds; others are dropped.
var notices = []string{"notifications/cancelled", "notifications/initialized"}

// listen is the request that lasts as long as the client wants to hear of changes.
const listen = "subscriptions/listen"

// admit notes a message of so many bytes, when there is room for it. It returns nil for one
// that means nothing here, or not any more.
func (c *conn) admit(msg jsonrpc.Message, size int) (jsonrpc.Message, *refusal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if answer, ok := msg.(*jsonrpc.Response); ok {
		if !c.asked[answer.ID] {
			return nil, nil
		}
		delete(c.asked, answer.ID)
		return msg, nil
	}
	r := msg.(*jsonrpc.Request)
	if !r.IsCall() {
		if !slices.Contains(notices, r.Method) {
			return nil, nil
		}
		return msg, nil
	}
	for r.Method != listen && c.isFullLocked() && len(c.asked) == 0 {
		if c.ended {
			return nil, nil
		}
		c.changed.Wait()
	}
	id, _ := json.Marshal(r.ID.Raw())
	_, isWorking := c.working[r.ID]
	switch {
	case isWorking || c.listening[r.ID]:
		return nil, &refusal{code: jsonrpc.CodeInvalidRequest, text: "a request with this id is under way"}
	case r.Method == listen && len(c.listening) >= maxListening:
		return nil, &refusal{id: id, code: codeBusy, text: "there are too many subscriptions; end another one"}
	case r.Method == listen:
		c.listening[r.ID] = true
	case c.isFullLocked():
		return nil, &refusal{id: id, code: codeBusy, text: "too much is under way; trying again later can help"}
	default:
		c.working[r.ID] = size
		c.held += size
	}
	return msg, nil
}

func (c *conn) isFullLocked() bool { return len(c.working) >= maxWorking || c.held >= maxHeld }

// Write queues a message. It waits until the client has taken what was queued before.
func (c *conn) Write(ctx context.Context, msg jsonrpc.Message) error {
	if r, ok := msg.(*jsonrpc.Response); ok && r.Error != nil {
		msg = &jsonrpc.Response{ID: r.ID, Error: wireError(r.Error)}
	}
	line, err := jsonrpc.EncodeMessage(msg)
	if err != nil {
		return err
	}
	if r, ok := msg.(*jsonrpc.Request); ok {
		c.noteAsked(r)
	}
	var answered jsonrpc.ID
	if r, ok := msg.(*jsonrpc.Response); ok {
		answered = r.ID
	}
	return c.send(ctx, line, answered)
}

// noteAsked notes a request of the server, or that it no longer wants an answer.
func (c *conn) noteAsked(r *jsonrpc.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.changed.Broadcast()
	if r.IsCall() {
		c.asked[r.ID] = true
		return
	}
	var cancelled struct {
		ID any `json:"requestId"`
	}
	if r.Method == notices[0] && json.Unmarshal(r.Params, &cancelled) == nil {
		if id, err := jsonrpc.MakeID(cancelled.ID); err == nil {
			delete(c.asked, id)
		}
	}
}

// send queues a line. The request that it answers, if any, is at work no more before the client
// can have the line: it may use the id again then.
func (c *conn) send(ctx context.Context, line []byte, answered jsonrpc.ID) error {
	stop := context.AfterFunc(ctx, func() { c.change(func() {}) })
	defer stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.queued > maxQueued && !c.closed && ctx.Err() == nil {
		c.changed.Wait()
	}
	c.held -= c.working[answered]
	delete(c.working, answered)
	delete(c.listening, answered)
	c.changed.Broadcast()
	switch {
	case c.closed:
		return io.ErrClosedPipe
	case ctx.Err() != nil:
		return ctx.Err()
	}
	c.queue = append(c.queue, append(line, '\n'))
	c.queued += len(line) + 1
	return nil
}

// writeQueue writes what is queued until c is closed and nothing is left, or the client is
// gone.
func (c *conn) writeQueue() {
	defer close(c.written)
	for {
		line := c.nextQueued()
		if line == nil {
			return
		}
		for chunk := range slices.Chunk(line, maxChunk) {
			if err := c.write(chunk); err != nil {
				c.change(func() { c.lost = cmp.Or(c.lost, err) })
				_ = c.Close()
				return
			}
			c.change(func() { c.queued -= len(chunk) })
		}
	}
}

// write writes a part of a line.
func (c *conn) write(chunk []byte) error {
	c.change(func() { c.since = time.Now() })
	c.stuck.Reset(stuckFor)
	_, err := c.out.Write(chunk)
	c.stuck.Stop()
	c.change(func() { c.since = time.Time{} })
	return err
}

// giveUp closes the output of a client that is stuck.
func (c *conn) giveUp() {
	isStuck := false
	c.change(func() {
		switch {
		case c.since.IsZero():
		case c.queued > maxQueued && time.Since(c.since) >= stuckFor:
			c.lost, isStuck = errStuck, true
		default: // there is room yet
			c.stuck.Reset(stuckFor)
		}
	})
	if isStuck {
		_ = c.out.Close()
	}
}

// nextQueued takes a line out of the queue. It returns nil when there will be none.
func (c *conn) nextQueued() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.queue) == 0 {
		if c.closed {
			return nil
		}
		c.changed.Wait()
	}
	line := c.queue[0]
	c.queue[0] = nil // else the array would keep it
	c.queue = c.queue[1:]
	return line
}

// Close ends the input, and queues nothing more.
func (c *conn) Close() error {
	c.change(func() { c.closed = true })
	c.end()
	return nil
}

// drain returns when the queue is written, or the client is gone or has not taken it in
// time. The output is closed then. Its error is that the output takes nothing.
func (c *conn) drain() error {
	timer := time.AfterFunc(endGrace, func() { _ = c.out.Close() })
	<-c.written
	timer.Stop()
	_ = c.out.Close()
	if isGone(c.lost) {
		return nil
	}
	return fmt.Errorf("write to the client: %w", c.lost)
}

// isGone reports whether an error of an output is nil, or means that its reader is gone.
func isGone(err error) bool {
	return err == nil || errors.Is(err, io.ErrClosedPipe) || errors.Is(err, os.ErrClosed) || errors.Is(err, syscall.EPIPE) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EIO) // of a terminal
}
