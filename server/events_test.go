package server

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"mneme/memory"
	"mneme/server/access"
	"mneme/versionlog"
)

// feed is a stream of events as a client reads it.
type feed struct {
	*testing.T
	answer *http.Response
	lines  *bufio.Scanner
}

// listen opens a stream of events behind a commit.
func listen(t *testing.T, url, secret string, header ...string) *feed {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer "+secret)
	q.Header.Set("Accept", "text/event-stream")
	for i := 0; i < len(header); i += 2 {
		q.Header.Set(header[i], header[i+1])
	}
	a, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Body.Close() })
	return &feed{t, a, bufio.NewScanner(a.Body)}
}

// next returns the next event: its id and data, or "end".
func (f *feed) next() (id, data string) {
	f.Helper()
	for f.lines.Scan() {
		line := f.lines.Text()
		switch name, value, _ := strings.Cut(line, ": "); name {
		case "id":
			id = value
		case "data":
			data = value
		case "event":
			if value == "end" {
				return "end", ""
			}
		case "":
			if id != "" {
				return id, data
			}
		}
	}
	return "closed", ""
}

// wants reads events up to a sequence number, each the next of the one before.
func (f *feed) wants(from, to int) {
	f.Helper()
	for seq := from; seq <= to; seq++ {
		id, data := f.next()
		var c struct {
			Seq      int `json:"seq"`
			Versions []struct {
				Path string `json:"path"`
			} `json:"versions"`
		}
		if err := json.Unmarshal([]byte(data), &c); err != nil || id != strconv.Itoa(seq) || c.Seq != seq || len(c.Versions) != 1 {
			f.Fatalf("event %s %s, want %d: %v", id, data, seq, err)
		}
	}
}

// awaitLingering returns once so many requests wait for news.
func (r *rig) awaitLingering(n int64) {
	for r.lounge.n.Load() < n {
		time.Sleep(time.Millisecond)
	}
}

// TestEvents reads events as they come, goes on where it has stopped, and ends when the credential
// counts no more and when the server ends.
func TestEvents(t *testing.T) {
	r := newRig(t, Options{MaxRequests: 1, MaxPerCaller: 1}) // one that waits counts for neither
	server := httptest.NewServer(r.Handler())
	defer server.Close()
	st, err := r.lib.Open(t.Context(), r.store.ID, r.opts.Author)
	r.must(err)
	tip, err := st.Tip(t.Context())
	r.must(err)
	first := int(tip.Seq) + 1
	n := 0
	write := func() {
		t.Helper()
		n++
		_, err := st.Write(t.Context(), fmt.Sprintf("/%d.md", n), []byte("text"), versionlog.ExpectAbsent())
		r.must(err)
	}
	key, secret, err := r.registry.CreateKey(t.Context(), access.Key{Label: "x", Everywhere: access.Read})
	r.must(err)
	url := server.URL + "/v1/mneme/stores/" + r.store.ID + "/events"
	write()
	write()
	behind := fmt.Sprintf("%s?after=%d", url, first-1)
	all, now := listen(t, behind, secret), listen(t, url, secret)
	all.wants(first, first+1)
	write()
	all.wants(first+2, first+2)
	now.wants(first+2, first+2)
	again := listen(t, behind, secret, "Last-Event-ID", strconv.Itoa(first))
	again.wants(first+1, first+2)

	poll := func(query string) (page struct {
		Data []struct {
			Seq int `json:"seq"`
		} `json:"data"`
		Last int `json:"last"`
	}) {
		t.Helper()
		w := r.ask("GET", "/v1/mneme/stores/"+r.store.ID+"/events"+query, "", secret)
		if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil || w.Code != 200 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		return page
	}
	if p := poll(fmt.Sprintf("?after=%d&limit=2", first-1)); len(p.Data) != 2 || p.Last != first+1 {
		t.Errorf("%+v", p)
	}
	if p := poll("?wait=1"); len(p.Data) != 0 || p.Last != first+2 {
		t.Errorf("%+v", p)
	}
	news := make(chan int)
	go func() { news <- poll("?wait=50").Last }()
	r.awaitLingering(4)
	write()
	if last := <-news; last != first+3 {
		t.Errorf("last %d", last)
	}
	for query, status := range map[string]int{"?after=x": 400, "?after=99999": 400, "?after=-1": 400, "?wait=51": 400, "?limit=0": 400, "?limit=101": 400} {
		if w := r.ask("GET", "/v1/mneme/stores/"+r.store.ID+"/events"+query, "", secret); w.Code != status {
			t.Errorf("%s: %d %s", query, w.Code, w.Body)
		}
	}

	all.wants(first+3, first+3)
	_, err = r.registry.SetDisabled(t.Context(), key.ID, true)
	r.must(err)
	if id, _ := all.next(); id != "end" {
		t.Errorf("a disabled key still reads: %s", id)
	}
	_, other, err := r.registry.CreateKey(t.Context(), access.Key{Label: "y", Everywhere: access.Read})
	r.must(err)
	last := listen(t, url, other)
	r.endNews()
	if id, _ := last.next(); id != "end" {
		t.Errorf("the server cannot end: %s", id)
	}
}

// TestBudgetOfStream ends a stream once its token has no bytes left.
func TestBudgetOfStream(t *testing.T) {
	r := newRig(t, Options{})
	st, err := r.lib.Open(t.Context(), r.store.ID, r.opts.Author)
	r.must(err)
	for i := range 50 {
		_, err := st.Write(t.Context(), fmt.Sprintf("/%d.md", i), []byte("x"), versionlog.ExpectAbsent())
		r.must(err)
	}
	c, err := r.registry.Caller(t.Context(), r.key(access.Read, nil))
	r.must(err)
	token, _, _, err := r.registry.NewToken(t.Context(), c, access.Session{Grants: map[string]access.Right{r.store.ID: access.Read}, MaxBytes: 2000})
	r.must(err)
	w := r.ask("GET", "/v1/mneme/stores/"+r.store.ID+"/events?after=0", "", token, func(q *http.Request) { q.Header.Set("Accept", "text/event-stream") })
	if n := w.Body.Len(); n < 2000 || n > 4000 {
		t.Errorf("%d bytes of 2000", n)
	}
}

// TestSlowReader: a reader that takes no events does not delay others, and holds no
// resources once its connection ends.
func TestSlowReader(t *testing.T) {
	r := newRig(t, Options{})
	st, err := r.lib.Open(t.Context(), r.store.ID, r.opts.Author)
	r.must(err)
	secret := r.key(access.Read, nil)
	ctx, cancel := context.WithCancel(t.Context())
	q := httptest.NewRequest("GET", "/v1/mneme/stores/"+r.store.ID+"/events", nil).WithContext(ctx)
	q.Header.Set("X-Api-Key", secret)
	q.Header.Set("Accept", "text/event-stream")
	w := &stuckWriter{ResponseRecorder: httptest.NewRecorder(), stuck: make(chan struct{}), ctx: ctx}
	done := make(chan struct{})
	go func() { defer close(done); r.Handler().ServeHTTP(w, q) }()
	r.awaitLingering(1)
	for i := range 20 {
		_, err := st.Batch(t.Context(), []memory.Change{{Action: versionlog.Put, Path: fmt.Sprintf("/%d.md", i), Content: []byte("x"), Expect: versionlog.ExpectAbsent()}}, nil)
		r.must(err)
	}
	<-w.stuck
	cancel() // as its connection is, once the time for a write is over
	<-done
	if n := r.lounge.n.Load(); n != 0 {
		t.Errorf("%d requests still wait", n)
	}
}

// stuckWriter takes the first words of a stream, and then nothing.
type stuckWriter struct {
	*httptest.ResponseRecorder
	stuck chan struct{}
	ctx   context.Context
}

func (w *stuckWriter) Write(p []byte) (int, error) {
	if w.Body.Len() == 0 {
		return w.ResponseRecorder.Write(p)
	}
	close(w.stuck)
	<-w.ctx.Done()
	return 0, w.ctx.Err()
}
