package server

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"mneme/memory"
	"mneme/server/access"
	"mneme/versionlog"
)

// TestConditionsAreNotLost: a condition that is not understood, wherever it stands, is refused, and
// nothing is changed.
func TestConditionsAreNotLost(t *testing.T) {
	r := newRig(t, Options{})
	secret := r.key(access.None, map[string]access.Right{r.store.ID: access.Write})
	st, err := r.lib.Open(t.Context(), r.store.ID, &memory.Author{Actor: versionlog.Actor{Kind: versionlog.ActorUser, ID: "x"}})
	r.must(err)
	v, err := st.Write(t.Context(), "/a.md", []byte("kept\n"), versionlog.ExpectAbsent())
	r.must(err)
	own := "/v1/mneme/stores/" + r.store.ID
	batch := own + "/batch"
	of := "/v1/memory_stores/" + r.store.ID + "/memories/" + v.MemoryID
	wrong := strings.Repeat("0", 64)
	put := func(more string) string {
		return fmt.Sprintf(`{"changes":[{"action":"put","path":"/a.md","content":"lost\n"%s}]}`, more)
	}
	for _, q := range []struct{ method, url, body string }{
		{"POST", batch, put(`,"if_sha256":"` + wrong + `","If_sha256":"` + v.Digest.String() + `"`)},
		{"POST", batch, put(`,"IF_SHA256":"` + v.Digest.String() + `"`)},
		{"POST", batch, put(`,"if_ſha256":"` + v.Digest.String() + `"`)}, // which package json takes for an s
		{"POST", batch, put(`,"if_sha256":""`)},
		{"POST", batch, put(`,"if_sha256":null`)},
		{"POST", batch, put(`,"if_version":""`)},
		{"POST", batch, put(`,"if_version":null`)},
		{"POST", batch, `{"changes":[],"CHANGES":[{"action":"remove","path":"/a.md"}]}`},
		{"DELETE", of + "?expected_content_sha256=" + wrong + ";", ""},
		{"DELETE", of + "?expected_content_sha256=" + wrong + "%zz", ""},
		{"DELETE", of + "?expected_content_sha256=" + v.Digest.String() + "&expected_content_sha256=" + wrong, ""},
		{"DELETE", of, `{"expected_content_sha256":"` + wrong + `"}`},
		{"DELETE", of + "?expected_content_sha=" + wrong, ""},
		{"DELETE", of + "?beta=true&Expected_content_sha256=" + wrong, ""},
		{"GET", own + "/events?afer=1&wait=0", ""},
		{"GET", own + "/diff?since=1", ""},
		{"POST", "/mcp?stores=notes", `{"jsonrpc":"2.0","id":1,"method":"ping"}`},
		{"POST", "/v1/mneme/tools/memory?Store=notes", `{"command":"delete","path":"/memories/a.md"}`},
		{"GET", "/v1/mneme/plugin/health?stores=notes", ""},
	} {
		w := r.ask(q.method, q.url, q.body, secret, func(q *http.Request) {
			q.Header.Set("Content-Type", "application/json")
			q.Header.Set("Accept", "application/json, text/event-stream")
		})
		if head, err := st.Head(t.Context(), "/a.md"); err != nil || head.ID != v.ID || w.Code != 400 {
			t.Errorf("%s %s %s: %d %s; %v", q.method, q.url, q.body, w.Code, w.Body, err)
		}
	}
}

// TestArchivedIsInNoSession that is new.
func TestArchivedIsInNoSession(t *testing.T) {
	r := newRig(t, Options{})
	secret := r.key(access.None, map[string]access.Right{r.store.ID: access.Write})
	r.must(r.lib.ArchiveStore(t.Context(), r.store.ID, versionlog.Actor{Kind: versionlog.ActorUser, ID: "x"}))
	w := r.ask("POST", "/v1/mneme/sessions", `{"resources":[{"memory_store_id":"`+r.store.ID+`","access":"read_only"}]}`, secret)
	if w.Code != 400 || !strings.Contains(w.Body.String(), "archived") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// timed is an answer that notes until when it may be written, and says when that is for ever behind a text.
type timed struct {
	*httptest.ResponseRecorder
	until   time.Time
	forEver func()
}

func (w *timed) SetWriteDeadline(until time.Time) error {
	if w.until = until; until.IsZero() && w.Body.Len() > 0 {
		w.forEver()
	}
	return nil
}

// TestStreamOutlastsSilence: nothing ends a stream on which nothing is written, as HTTP/2 does with one
// that has a deadline.
func TestStreamOutlastsSilence(t *testing.T) {
	r := newRig(t, Options{})
	q := httptest.NewRequestWithContext(t.Context(), "GET", "/v1/mneme/stores/"+r.store.ID+"/events", nil)
	q.Host = "localhost"
	q.Header.Set("Accept", "text/event-stream")
	q.Header.Set("Authorization", "Bearer "+r.key(access.None, map[string]access.Right{r.store.ID: access.Read}))
	ended := false
	w := &timed{ResponseRecorder: httptest.NewRecorder(), forEver: func() { ended = true; r.Server.endNews() }}
	r.Handler().ServeHTTP(w, q)
	if !ended || !strings.HasPrefix(w.Body.String(), ": events of ") {
		t.Errorf("it may be written until %v: %s", w.until, w.Body)
	}
}
