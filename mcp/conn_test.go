package mcp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// TestQueue says that nothing is read, and no more queued, while the client does not take what
// it was sent.
func TestQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, theirs := io.Pipe()
		taken, out := io.Pipe()
		c := newConn(in, out, 1<<20)
		if err := c.send(t.Context(), bytes.Repeat([]byte("x"), maxQueued+1), jsonrpc.ID{}); err != nil {
			t.Fatal(err)
		}
		var sent, read bool
		go func() { sent = c.send(t.Context(), []byte("second"), jsonrpc.ID{}) == nil }()
		go func() {
			_, err := c.Read(t.Context())
			read = err == nil
		}()
		go func() { _, _ = io.WriteString(theirs, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n") }()
		synctest.Wait()
		if sent || read {
			t.Errorf("a line was queued: %v; a message was read: %v", sent, read)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := c.send(ctx, []byte("third"), jsonrpc.ID{}); !errors.Is(err, context.Canceled) {
			t.Errorf("the send of somebody who is gone returned %v", err)
		}
		go func() { _, _ = io.Copy(io.Discard, taken) }()
		synctest.Wait()
		if !sent || !read {
			t.Errorf("when all was taken, a line was queued: %v; a message was read: %v", sent, read)
		}
		_ = c.Close()
		if err := c.drain(); err != nil {
			t.Error(err)
		}
	})
}

// TestNobodyReads says that a server whose client neither reads nor goes away ends in time, when
// its input has ended. There are no more answers than may be queued; TestStuck has more.
func TestNobodyReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.theirs("/a.md", string(bytes.Repeat([]byte("word "), 20_000)))
		c := r.client()
		for range 4 {
			line, _ := c.line("tools/call", map[string]any{"name": "read", "arguments": map[string]any{"path": "/memories/a.md"}})
			c.send(line)
		}
		_ = c.in.Close()
		if err := <-c.ended; err != nil {
			t.Error(err)
		}
		close(c.ended)
		r.Close()
	})
}

// TestStuck says that a server whose client leaves more than may be queued, and neither reads nor
// goes away, ends in time, though its input goes on; and that a slow client gets everything.
func TestStuck(t *testing.T) {
	for name, isSlow := range map[string]bool{"nobody reads": false, "somebody is slow": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, nil)
				r.theirs("/a.md", string(bytes.Repeat([]byte("word "), 20_000)))
				c := r.client()
				go func() {
					for range 12 {
						line, _ := c.line("tools/call", map[string]any{"name": "read", "arguments": map[string]any{"path": "/memories/a.md"}})
						_, _ = io.WriteString(c.in, line+"\n")
					}
				}()
				began := time.Now()
				if isSlow {
					for range 12 {
						time.Sleep(stuckFor - time.Second)
						c.next()
					}
					_ = c.in.Close()
				}
				err := <-c.ended
				if took := time.Since(began); isSlow != (err == nil) || !isSlow && (!errors.Is(err, errStuck) || took > 2*stuckFor) {
					t.Errorf("it ended with %v after %v", err, took)
				}
				close(c.ended)
				r.Close()
			})
		})
	}
}

// TestEndAsked says that a call that waits for the client's user is not waited for when the
// client has ended its input.
func TestEndAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := bulkRig(t)
		c := r.oldClient(canAskForm)
		line, _ := c.line("tools/call", map[string]any{"name": "memory", "arguments": arguments(deleting)})
		c.send(line)
		if m := c.next(); m.Method != "elicitation/create" {
			t.Errorf("asked by %+v", m)
		}
		go func() { _, _ = io.Copy(io.Discard, c.out) }()
		began := time.Now()
		_ = c.in.Close()
		if err := <-c.ended; err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("the end took %v", took)
		}
		close(c.ended)
		r.Close()
	})
}

// fullDisk is an output that takes nothing.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, syscall.ENOSPC }
func (fullDisk) Close() error              { return nil }

// TestFullOutput says that an output that takes nothing is an error.
func TestFullOutput(t *testing.T) {
	r := newRig(t, nil)
	in := io.NopCloser(strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n"))
	if err := r.ServeLines(t.Context(), in, fullDisk{}); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("it ended with %v", err)
	}
}
