package server

import (
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"mneme/server/access"
	"mneme/versionlog"
)

// TestBatchNamesChange: what is wrong with one change of a batch is told with its number as the client
// counts, and with what would be right, in words of JSON.
func TestBatchNamesChange(t *testing.T) {
	r := newRig(t, Options{})
	secret := r.key(access.None, map[string]access.Right{r.store.ID: access.Write})
	url := "/v1/mneme/stores/" + r.store.ID + "/batch"
	st, err := r.lib.Open(t.Context(), r.store.ID, r.opts.Author)
	r.must(err)
	for _, path := range []string{"/a.md", "/t.md"} {
		_, err = st.Write(t.Context(), path, []byte("a"), versionlog.ExpectAbsent())
		r.must(err)
	}
	refuse := string(versionlog.SecretsRefuse)
	_, err = r.lib.UpdateStore(t.Context(), r.store.ID, versionlog.StoreUpdate{Secrets: &refuse}, r.opts.Author.Actor)
	r.must(err)
	before := r.state()
	const first = `{"action":"rename","path":"/a.md","to":"/b.md"},`
	for _, c := range []struct {
		change string
		status int
		want   []string
	}{
		{`{"action":"put","path":"/c.md","content":"` + strings.Repeat("x", 102_401) + `"}`, 400, []string{"change 2: /c.md: 102401 bytes", "at most 102400"}},
		{`{"action":"put","path":"/c.md","content_base64":"` + base64.StdEncoding.EncodeToString([]byte("a\xff")) + `"}`, 400, []string{"change 2: /c.md: byte 1 is not UTF-8"}},
		{`{"action":"put","path":"/c.md","content_base64":"%"}`, 400, []string{"change 2: /c.md: content_base64: want base64"}},
		{`{"action":"put","path":"/c.md","content":"x"},{"action":"remove","path":"/c.md"}`, 400, []string{"change 3: /c.md: change 2 is of this path already"}},
		{`{"action":"put","path":"/b.md","content":"x"}`, 400, []string{"change 2: /b.md: change 1 is of this path already"}},
		{`{"action":"put","path":"/a.md","content":"x"}`, 400, []string{"change 2: /a.md: change 1 is of this path already"}},
		{`{"action":"rename","path":"/c.md","to":"/c.md"}`, 400, []string{"change 2: /c.md: a rename to the path that the memory has already"}},
		{`{"action":"put","path":"/cafe\u0301","content":"x"},{"action":"put","path":"/caf\u00e9","content":"x"}`, 400, []string{"change 3: ", "change 2 is of this path already"}},
		{`{"action":"put","path":7,"content":"x"}`, 400, []string{"change 2: field path: it must be a string, not a number"}},
		{`{"action":"put","path":"/c.md","content":"x","if_absent":"yes"}`, 400, []string{"change 2: field if_absent: it must be true or false, not a string"}},
		{`{"action":"put","path":"/c.md","content":"x","if_version":null}`, 400, []string{"change 2: field if_version: it must be a condition, not null"}},
		{`{"action":"put","path":"/c.md","content":"x","mode":1}`, 400, []string{"change 2: field mode: it is unknown"}},
		{`{"action":"put","path":"/c.md","content":"x","Path":"/d.md"}`, 400, []string{"change 2: field Path: it is unknown"}},
		{`{"action":"put","path":"/c.md","path":"/d.md","content":"x"}`, 400, []string{"change 2: field path: it is there twice"}},
		{`{"action":"put","path":"/c.md","content":"\ud800"}`, 400, []string{"change 2: it is not Unicode"}},
		{`7`, 400, []string{"change 2: it must be an object, not a number"}},
		{`null`, 400, []string{"change 2: it must be an object, not null"}},
		{`{"action":"write","path":"/c.md"}`, 400, []string{`change 2: action \"write\": want put, remove or rename`}},
		{`{"path":"/c.md","content":"x"}`, 400, []string{"change 2: ", "want put, remove or rename"}},
		{`{"action":"put","path":"/c.md"}`, 400, []string{"change 2: /c.md: want one of content and content_base64"}},
		{`{"action":"put","path":"/c\u200c.md","content":"x"}`, 400, []string{"change 2: "}},
		{`{"action":"rename","path":"/no.md","to":"/c\u200c.md"}`, 400, []string{"change 2: "}},
		{`{"action":"put","path":"/c.md","content":"key = AKIA` + "IOSFODNN7" + `QWERTYA"}`, 403, []string{"change 2: "}},
		{`{"action":"rename","path":"/no.md","to":"/d/x.md"},{"action":"remove","path":"/no2.md"}`, 409, []string{`: "change 2, of \"/no.md\", and change 3, of \"/no2.md\": what is there`}},
		{`{"action":"put","path":"/b.md/x","content":"x"}`, 409, []string{`"change 2, of \"/b.md/x\", and change 1, of \"/b.md\": `}},
	} {
		w := r.ask("POST", url, `{"changes":[`+first+c.change+`]}`, secret)
		r.refusal(w.Body.Bytes(), w.Header())
		for _, want := range c.want {
			if w.Code != c.status || !strings.Contains(strings.ReplaceAll(w.Body.String(), `"message":"`, `: "`), want) {
				t.Errorf("%.200s: %d %s; want %d %s", c.change, w.Code, w.Body, c.status, want)
			}
		}
	}
	for body, want := range map[string]string{
		`{"changes":7}`: "field changes: it must be an array, not a number", `[]`: "it must be an object, not an array", `{"changes":[],"message":7}`: "field message: it must be a string, not a number",
		`{"changes":[]}`: "want an array changes of one at least", `{}`: "want an array changes of one at least", `{"change":[]}`: "field change: it is unknown",
	} {
		if w := r.ask("POST", url, body, secret); w.Code != 400 || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %s; want %s", body, w.Code, w.Body, want)
		}
	}
	// Both paths of a rename are of one change.
	w := r.ask("POST", url, `{"changes":[`+first+`{"action":"rename","path":"/no.md","to":"/t.md"}]}`, secret)
	if want := `"message":"change 2, of \"/no.md\" and \"/t.md\": what is there is not what the change presumes"`; !strings.Contains(w.Body.String(), want) {
		t.Errorf("%d %s; want %s", w.Code, w.Body, want)
	}
	if after := r.state(); after != before {
		t.Errorf("something has changed:\n%s\nwas\n%s", after, before)
	}
}

// TestBatchByHeader: a batch that comes again under the key in its header is answered as the first time.
func TestBatchByHeader(t *testing.T) {
	r := newRig(t, Options{})
	secret := r.key(access.None, map[string]access.Right{r.store.ID: access.Write})
	url := "/v1/mneme/stores/" + r.store.ID + "/batch"
	st, err := r.lib.Open(t.Context(), r.store.ID, r.opts.Author)
	r.must(err)
	_, err = st.Write(t.Context(), "/d/b.md", []byte("b"), versionlog.ExpectAbsent())
	r.must(err)
	byHeader := func(name, body string) *httptest.ResponseRecorder {
		return r.ask("POST", url, body, secret, func(q *http.Request) { q.Header.Set("X-Idempotency-Key", name) })
	}
	const moved = `{"changes":[{"action":"rename","path":"/d/b.md","to":"/d/c.md"}]}`
	if one, again := byHeader("h", moved), byHeader("h", moved); one.Code != 200 || again.Code != 200 || one.Body.String() != again.Body.String() {
		t.Errorf("%d %s, then %d %s", one.Code, one.Body, again.Code, again.Body)
	}
	for name, body := range map[string]string{"a b": moved, "h2": strings.Replace(moved, "{", `{"idempotency_key":"k",`, 1)} { // not a key, and a second one
		if w := byHeader(name, body); w.Code != 400 || !strings.Contains(w.Body.String(), "x-idempotency-key: ") {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	}
}
