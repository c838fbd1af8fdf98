package plugin

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"mneme/internal/strictjson"
)

// TestAnswer: every line is answered in the shape of its method, with its id, and whatever is
// wrong with it is named.
func TestAnswer(t *testing.T) {
	r := newRig(t, nil)
	deep := strings.Repeat("[", 5000) + strings.Repeat("]", 5000)
	for _, test := range []struct{ line, id, want string }{
		{`{"id":1,"method":"recall"}`, `1`, `"items":[],"facts":[],"summaries":[]`},
		{`{"id":"a","method":"recall","params":{}}`, `"a"`, `"degraded":false`},
		{`{"id":1,"method":"health"}`, `1`, `"ok":true`},
		{`{"id":1,"method":"remember","params":{"thread_id":"t","turn_id":"1","entries":[{"text":"x"}]}}`, `1`, `"written":1`},
		{`{"id":1,"method":"remember","params":{"thread_id":"t","run_id":"2","entries":[{"id":"e","role":"user","text":"x","meta":{"k":{"a":[1.0]}}}],"limits":{"max_items":1,"max_chars":2},"agent_uri":"u","agent_id":"i","turn_id":"","origin":"o","sender":"s","query_text":"q","execution_strategy":"x","meta":{"k":null}}}`, `1`, `"written":1`},
		{`hello`, `null`, `invalid: it is not JSON at byte 0`},
		{`[]`, `null`, `invalid: it must be an object, not an array`},
		{`{"method":"recall"}`, `null`, `invalid: the line has no id`},
		{`{"id":{},"method":"recall"}`, `null`, `invalid: the id is neither a string nor a number`},
		{`{"id":"` + strings.Repeat("x", strictjson.MaxID) + `","method":"recall"}`, `null`, `invalid: the id is longer than 256 bytes`},
		{`{"id":"\ud800","method":"recall"}`, `null`, `"reasons":["invalid: it is not Unicode`},
		{`{"id":1,"method":"remember","params":{"thread_id":"t","turn_id":"3","entries":[{"text":"x"}],"written":1}}`, `1`, `invalid: field written: it is unknown`},
		{`{"id":1,"method":"remember","params":{"thread_id":"t","turn_id":"3","entries":[` + strings.Repeat(`{"text":""},`, 1000) + `{"text":""}]}}`, `1`, `invalid: field entries: there are 1001, at most 1000`},
		{`{"id":1,"method":"forget"}`, `1`, `invalid: field method: it must be recall, remember or health`},
		{`{"id":1,"method":7}`, `1`, `invalid: field method: it must be a string, not a number`},
		{`{"id":1,"method":"recall","params":[]}`, `1`, `"items":[],"facts":[],"summaries":[],"provider":{"name":"mneme"`},
		{`{"id":1,"method":"recall","extra":1}`, `1`, `invalid: field extra: it is unknown`},
		{`{"id":1,"method":"health","params":{"x":1}}`, `1`, `invalid: field x: it is unknown`},
		{`{"id":1,"method":"recall","params":{"query":"x"}}`, `1`, `invalid: field query: it is unknown`},
		{`{"id":1,"method":"recall","params":{"query_text":7}}`, `1`, `invalid: field query_text: it must be a string, not a number`},
		{`{"id":1,"method":"recall","params":{"limits":{"max_items":"20"}}}`, `1`, `invalid: field max_items: it must be a whole number, not a string`},
		{`{"id":1,"method":"recall","params":{"limits":{"max_chars":0}}}`, `1`, `"degraded":false,"reasons":[],"notes":["limits: max_chars is less than 1; it was taken for 8000"]`},
		{`{"id":1,"method":"recall","params":{"limits":{"max_items":9223372036854775807}}}`, `1`, `"degraded":false,"reasons":[],"notes":["limits: max_items is more than 200, for which it was taken"]`},
		{`{"id":1,"method":"recall","params":{"limits":{"items":1}}}`, `1`, `invalid: field items: it is unknown`},
		{`{"id":1,"method":"recall","params":{"meta":[]}}`, `1`, `invalid: field meta: it must be an object, not an array`},
		{`{"id":1,"method":"recall","params":{"meta":{"k":"` + strings.Repeat("é", 512) + `"}}}`, `1`, `invalid: field meta: a key or value has more than 512 characters`},
		{`{"id":1,"method":"recall","params":{"turn_id":"a","turn_id":"b"}}`, `1`, `invalid: field turn_id: it is there twice`},
		{`{"id":1,"method":"recall","params":{"turn_id":"\ud800"}}`, `1`, `invalid: it is not Unicode`},
		{`{"id":1,"method":"recall","params":{"meta":{"k":` + deep + `}}}`, `1`, `invalid: it is nested too deeply: at most 16`},
		{"{\"id\":1,\"method\":\"recall\",\"params\":{\"turn_id\":\"\xff\"}}", `1`, `invalid: it is not Unicode`},
		{`{"id":1,"method":"remember","params":{"thread_id":"t","turn_id":"3"}}`, `1`, `invalid: field entries: it is missing`},
		{`{"id":1,"method":"remember","params":{"thread_id":"t","turn_id":"3","entries":{}}}`, `1`, `invalid: field entries: it must be an array of objects, not an object`},
		{`{"id":1,"method":"remember","params":{"thread_id":"t","turn_id":"3","entries":[{"text":"x"},{"role":"user"}]}}`, `1`, `invalid: entry 2: field text: it is missing`},
		{`{"id":1,"method":"remember","params":{"thread_id":"t","turn_id":"3","entries":[{"text":"x","content":"y"}]}}`, `1`, `invalid: entry 1: field content: it is unknown`},
		{`{"id":1,"method":"remember","params":{"turn_id":"3","entries":[{"text":"x"}]}}`, `1`, `invalid: field thread_id: it is missing`},
	} {
		reply := r.Answer(t.Context(), []byte(test.line))
		got := show(reply)
		if string(cmpID(reply.ID)) != test.id || !strings.Contains(got, test.want) {
			t.Errorf("%.200s: %s, want %s and %s", test.line, got, test.id, test.want)
		}
		if strings.Contains(test.want, "invalid") && !strings.Contains(got, `"degraded":true`) {
			t.Errorf("%.200s: %s", test.line, got)
		}
	}
	if got := show(r.Answer(t.Context(), nil)); !strings.Contains(got, `"id":null`) || !strings.Contains(got, "too_large: the request is longer than 8388608 bytes") {
		t.Errorf("a long line: %s", got)
	}
	r.commits(2)
	if _, data, err := r.stores[0].Read(t.Context(), "/threads/t/2.md"); err != nil || !strings.Contains(string(data), `"meta":{"k":{"a":[1.0]}}}`) || !strings.Contains(string(data), `meta: {"k":null}`) {
		t.Errorf("%s, %v", data, err)
	}
}

func cmpID(id json.RawMessage) json.RawMessage {
	if id == nil {
		return json.RawMessage("null")
	}
	return id
}

// FuzzAnswer: whatever a line is, it is answered with JSON, and changes nothing unless it is a
// whole batch.
func FuzzAnswer(f *testing.F) {
	for _, line := range []string{
		`{"id":1,"method":"recall","params":{"query_text":"é x","limits":{"max_items":1}}}`, `{"id":1,"method":"health"}`, `x`,
		`{"id":1,"method":"remember","params":{"thread_id":"t","turn_id":"1","entries":[{"text":"x"}],"meta":{"a":[1e5]}}}`,
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		r := newRig(t, nil)
		r.theirs("/f", "some text, é\nand x")
		reply := r.Answer(context.Background(), line)
		data, err := json.Marshal(reply)
		if err != nil || !json.Valid(data) || strings.Contains(string(data), reasonPanic) {
			t.Fatalf("%s, %v", data, err)
		}
		tip, err := r.stores[0].Tip(context.Background())
		r.must(err)
		if answer, isBatch := reply.Result.(Remembered); tip.Seq != 1 && (!isBatch || answer.Written == 0 || tip.Seq != 2) {
			t.Fatalf("%s has made commit %d", line, tip.Seq)
		}
	})
}

// TestHandler: the same over HTTP, where what cannot be read has a status.
func TestHandler(t *testing.T) {
	r := newRig(t, nil)
	server := httptest.NewServer(r.Handler())
	defer server.Close()
	const turn = `{"thread_id":"t","turn_id":"1","entries":[{"text":"a needle"}]}`
	for _, test := range []struct {
		method, path, kind, origin, body string
		status                           int
		want                             string
	}{
		{"POST", "/remember", "application/json", "", turn, 200, `"written":1`},
		{"POST", "/remember", "application/json;charset=utf-8", "", turn, 200, `"status":"already"`},
		{"POST", "/recall", "application/json", "", `{"query_text":"needle"}`, 200, `"path":"/threads/t/1.md"`},
		{"POST", "/recall", "application/json", "", `{"query_text":7}`, 200, `field query_text: it must be a string`},
		{"POST", "/recall", "application/json", "", ``, 200, `invalid: it is not JSON`},
		{"GET", "/health", "", "", "", 200, `"ok":true`},
		{"POST", "/remember", "text/plain", "", turn, 415, `invalid: the content type must be application/json`},
		{"POST", "/remember", "", "", turn, 415, ""},
		{"POST", "/remember", "application/json gzip", "", turn, 415, `invalid: the content encoding must be identity`},
		{"POST", "/recall", "application/json Identity", "", `{"query_text":"needle"}`, 200, `"path":"/threads/t/1.md"`},
		{"POST", "/recall", "application/json", "", `{"query_text":"` + strings.Repeat("x", 9<<20) + `"}`, 413, `too_large: the request is longer than 8388608 bytes`},
		{"POST", "/remember", "application/json", "https://evil.example", turn, 403, ""},
		{"GET", "/recall", "", "", "", 405, ""},
		{"DELETE", "/remember", "", "", "", 405, ""},
		{"POST", "/health", "application/json", "", "{}", 405, ""},
		{"GET", "/", "", "", "", 404, ""},
	} {
		request, err := http.NewRequestWithContext(t.Context(), test.method, server.URL+test.path, strings.NewReader(test.body))
		r.must(err)
		kind, encoding, _ := strings.Cut(test.kind, " ")
		if kind != "" {
			request.Header.Set("Content-Type", kind)
		}
		if encoding != "" {
			request.Header.Set("Content-Encoding", encoding)
		}
		if test.origin != "" {
			request.Header.Set("Origin", test.origin)
		}
		response, err := server.Client().Do(request)
		r.must(err)
		body, err := io.ReadAll(response.Body)
		r.must(err)
		response.Body.Close()
		if response.StatusCode != test.status || !strings.Contains(string(body), test.want) {
			t.Errorf("%s %s %.100s: %s %.300s, want %d %s", test.method, test.path, test.body, response.Status, body, test.status, test.want)
		}
		isOurs := test.status == 200 || test.status == 413 || test.status == 415
		if isOurs && (response.Header.Get("Content-Type") != "application/json" || !json.Valid(body)) {
			t.Errorf("%s %s: %s %s", test.method, test.path, fmt.Sprint(response.Header), body)
		}
	}
	r.commits(1)
}
