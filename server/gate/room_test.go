package gate

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mneme/cas"
	"mneme/errkind"
	"mneme/gateway/wire"
	"mneme/server/access"
	"mneme/versionlog"
)

// unread is a body that must not be read.
type unread struct{ *testing.T }

func (u unread) Read([]byte) (int, error) {
	u.Error("the body is read")
	return 0, io.EOF
}

// TestBodiesAreNotRead: what the caller may not write is refused before it is read.
func TestBodiesAreNotRead(t *testing.T) {
	r := newRig(t, nil)
	writer := r.caller
	reader := &access.Caller{Library: r.lib, Actor: writer.Actor, Grants: map[string]access.Right{r.store.ID: access.Read}}
	for what, test := range map[string]struct {
		caller *access.Caller
		op     string
		length int64
		want   errkind.Kind
	}{
		"a commit by a reader": {reader, wire.OpCommit, wire.MaxProposal, errkind.Denied},
		"a blob by a reader":   {reader, wire.OpPutBlob, 1, errkind.Denied},
		"a blob too large":     {writer, wire.OpPutBlob, 1 << 20, errkind.TooLarge},
		"a commit too large":   {writer, wire.OpCommit, 1 << 30, errkind.TooMany},
	} {
		r.caller = test.caller
		q := httptest.NewRequest(http.MethodPost, wire.Prefix+test.op, unread{t})
		q.ContentLength = test.length
		q.Header.Set(wire.StoreHeader, r.store.ID)
		q.Header.Set(wire.DigestHeader, cas.Sum(nil).String())
		w := httptest.NewRecorder()
		r.handler.ServeHTTP(w, q)
		if err := r.errorOf(w); errkind.Of(err) != test.want {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestSlowBodies: large bodies that come slowly take no room for bytes that have not come,
// and others commit meanwhile.
func TestSlowBodies(t *testing.T) {
	r := newRig(t, nil)
	slow := *r.caller
	other := slow
	other.Actor = versionlog.Actor{Kind: versionlog.ActorAPIKey, ID: "apikey_2"}
	r.handler = New(func(q *http.Request) (*access.Caller, error) {
		if q.Header.Get("Authorization") == "slow" {
			return &slow, nil
		}
		return &other, nil
	}, &Options{MaxBuffered: 8 << 20})
	var under sync.WaitGroup
	var bodies []*io.PipeWriter
	for range 4 {
		body, more := io.Pipe()
		bodies = append(bodies, more)
		q := httptest.NewRequest(http.MethodPost, wire.Prefix+wire.OpCommit, body)
		q.ContentLength = wire.MaxProposal
		q.Header.Set(wire.StoreHeader, r.store.ID)
		q.Header.Set("Authorization", "slow")
		under.Go(func() { r.handler.ServeHTTP(httptest.NewRecorder(), q) })
		if _, err := more.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.commit(put("/a", "1")); err != nil {
		t.Error(err)
	}
	for _, one := range bodies {
		one.Close()
	}
	under.Wait()
	if r.handler.room.held != 0 || len(r.handler.room.byCaller) != 0 {
		t.Errorf("%d bytes are held at the end, by %v", r.handler.room.held, r.handler.room.byCaller)
	}
}

// TestRoom: the shares of callers and bodies.
func TestRoom(t *testing.T) {
	room := newRoom(16 << 20)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	fits := func(h *hold, n int64) bool {
		t.Helper()
		return h.grow(ended, n) == nil
	}
	one, two, other, small := &hold{room: room, caller: "a"}, &hold{room: room, caller: "a"}, &hold{room: room, caller: "b"}, &hold{room: room, caller: "c"}
	third := &hold{room: room, caller: "d"}
	if !fits(one, 3<<20) || !fits(two, 1<<20) || fits(two, 1) || fits(one, 1) {
		t.Error("a caller is to have a quarter")
	}
	two.release()
	if !fits(one, 3<<20) || fits(two, 1) {
		t.Error("a caller may have one body that is larger, and no other then")
	}
	if !fits(other, 4<<20) || fits(other, 1) {
		t.Error("bodies that are larger than a quarter are to leave one")
	}
	if !fits(third, 2<<20) || fits(third, 1) {
		t.Error("large bodies are to leave a quarter")
	}
	if !fits(small, 1<<20) || fits(small, 1) {
		t.Error("the last quarter is for small bodies")
	}
	for _, caller := range []string{"e", "f", "g"} {
		if !fits(&hold{room: room, caller: caller}, 1<<20) {
			t.Error("small bodies are to have the last quarter")
		}
	}
	if fits(&hold{room: room, caller: "h"}, 1) {
		t.Error("nobody is to have more than there is")
	}
	freed, ok := other.take(1)
	one.release()
	if <-freed; ok || !fits(other, 1) || fits(third, 3<<20) || !fits(two, 1<<20) {
		t.Error("what is given back can be had")
	}
	huge := &hold{room: newRoom(16 << 20)}
	if data, err := huge.read(t.Context(), bytes.NewReader(make([]byte, 20<<20)), 20<<20); err != nil || len(data) != 20<<20 || huge.n != 8<<20 {
		t.Errorf("one that is larger than the room: %d bytes, %d held, %v", len(data), huge.n, err)
	}
	huge.release()
	if huge.release(); huge.room.held != 0 || huge.room.outsized != 0 {
		t.Errorf("%d bytes are held at the end", huge.room.held)
	}
}

// TestNoRoom: one that finds no room is refused in the end, however much comes and goes meanwhile, and
// has it as soon as there is some.
func TestNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		room := newRoom(16 << 20)
		full := &hold{room: room, caller: "a"}
		var one *hold
		for i := range 4 {
			one = &hold{room: room, caller: string(rune('b' + i))}
			if err := one.grow(t.Context(), 3<<20); err != nil {
				t.Fatal(err)
			}
		}
		stop := make(chan struct{})
		var busy sync.WaitGroup
		busy.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(time.Second):
					small := &hold{room: room, caller: "z"}
					_ = small.grow(t.Context(), 1)
					small.release()
				}
			}
		})
		began := time.Now()
		if err := full.grow(t.Context(), 3<<20); !errors.Is(err, errNoRoom) || time.Since(began) != roomTime {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		close(stop)
		busy.Wait()
		began = time.Now()
		time.AfterFunc(roomTime/2, one.release)
		if err := (&hold{room: room, caller: "f"}).grow(t.Context(), 3<<20); err != nil || time.Since(began) != roomTime/2 {
			t.Errorf("after %v there is room: %v", time.Since(began), err)
		}
	})
}
