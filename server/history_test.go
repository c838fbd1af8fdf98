package server

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"mneme/server/access"
	"mneme/versionlog"
)

// TestHistory makes several changes at once, brings back what was, and asks for the differences.
func TestHistory(t *testing.T) {
	r := newRig(t, Options{})
	secret := r.key(access.None, map[string]access.Right{r.store.ID: access.Write})
	url := "/v1/mneme/stores/" + r.store.ID
	ok := func(method, path, body string) (answer map[string]any) {
		t.Helper()
		w := r.ask(method, url+path, body, secret)
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != 200 {
			t.Fatalf("%s %s: %d %s", path, body, w.Code, w.Body)
		}
		return answer
	}
	refused := func(method, path, body string, status int, kind string) {
		t.Helper()
		if w := r.ask(method, url+path, body, secret); w.Code != status || !strings.Contains(w.Body.String(), `"`+kind+`"`) {
			t.Errorf("%s %s: %d %s", path, body, w.Code, w.Body)
		}
	}
	st, err := r.lib.Open(t.Context(), r.store.ID, nil)
	r.must(err)
	text := func(path string) string {
		t.Helper()
		_, data, err := st.Read(t.Context(), path)
		r.must(err)
		return string(data)
	}

	both := `{"idempotency_key":"k","message":"two","changes":[{"action":"put","path":"/a.md","content":"one\n","if_absent":true},{"action":"put","path":"/d/b.md","content":"b\n"}]}`
	c := ok("POST", "/batch", both)
	if again := ok("POST", "/batch", both); again["seq"] != c["seq"] || len(c["versions"].([]any)) != 2 {
		t.Errorf("%v, then %v", c, again)
	}
	refused("POST", "/batch", strings.Replace(both, "one", "other", 1), 409, "conflict_error")
	refused("POST", "/batch", `{"changes":[{"action":"put","path":"/c.md","content":"x"},{"action":"put","path":"/a.md","content":"x","if_absent":true}]}`, 409, "memory_precondition_failed_error")
	absent := ""
	for i := range 30 {
		absent += fmt.Sprintf(`{"action":"remove","path":"/no%d.md"},`, i)
	}
	for body, want := range map[string]string{ // which change of a batch it is
		`{"action":"put","path":"/c.md","content":"x"},{"action":"put","path":"/a.md","content":"x","if_absent":true},{"action":"remove","path":"/n\u000ao.md"}`: `change 3: `,
		`{"action":"put","path":"/c.md","content":"x"},{"action":"put","path":"/a.md","content":"x","if_absent":true},{"action":"remove","path":"/no.md"}`:       `change 2, of \"/a.md\", and change 3, of \"/no.md\": what is there is not what the change presumes`,
		`{"action":"put","path":"/c.md","content":"x"},{"action":"rename","path":"/a.md","to":"/d/b.md"}`:                                                        `change 2, of \"/d/b.md\": what is there`,
		`{"action":"put","path":"/c.md","content":"x"},{"action":"put","path":"/a.md/x","content":"x"}`:                                                          `change 2`,
		`{"action":"put","path":"/c.md","content":"x"},{"action":"put","path":"b","content":"x"}`:                                                                `change 2`,
		absent + `{"action":"remove","path":"/a.md"}`: `change 10, of \"/no9.md\", and 20 more: what is there`,
	} {
		w := r.ask("POST", url+"/batch", `{"changes":[`+body+`]}`, secret)
		if w.Code != 409 && w.Code != 400 || !strings.Contains(w.Body.String(), want) || strings.Contains(w.Body.String(), "memver_") {
			t.Errorf("%.200s: %d %s; want %s", body, w.Code, w.Body, want)
		}
	}
	if _, err := st.Head(t.Context(), "/c.md"); err == nil {
		t.Error("half a batch was made")
	}
	for _, bad := range []string{``, `[]`, `{"changes":[]}`, `{"changes":[{"action":"put","path":"a","content":""}]}`, `{"changes":[{"action":"put","path":"/a","content":"","mode":1}]}`, `{"changes":[{"action":"put","path":"/../a","content":""}]}`, `{"changes":[{"action":"rename","path":"/a.md"}]}`} {
		refused("POST", "/batch", bad, 400, "invalid_request_error")
	}

	first := uint64(c["seq"].(float64))
	if none := ok("POST", "/batch", `{"changes":[{"action":"put","path":"/a.md","content":"one\n"}]}`); len(none["versions"].([]any)) != 0 || none["created_by"] != nil || none["seq"] != c["seq"] {
		t.Errorf("a batch that changes nothing: %v", none)
	}
	ok("POST", "/batch", `{"changes":[{"action":"put","path":"/a.md","content":"two\n"},{"action":"remove","path":"/d/b.md"}]}`)
	d := ok("GET", fmt.Sprintf("/diff?from=%d", first), "")
	data := d["data"].([]any)
	if len(data) != 2 || !strings.HasSuffix(data[0].(map[string]any)["patch"].(string), "\n@@ -1 +1 @@\n-one\n+two\n") || data[1].(map[string]any)["to"] != nil || d["next_page"] != nil {
		t.Errorf("%v", d)
	}
	if d := ok("GET", fmt.Sprintf("/diff?from=%d&path=/d/", first), ""); len(d["data"].([]any)) != 1 {
		t.Errorf("%v", d)
	}
	refused("GET", "/diff?from=99", "", 404, "not_found_error")
	refused("GET", "/diff?from=yesterwhen", "", 400, "invalid_request_error")
	refused("GET", "/diff?page=1.2", "", 400, "invalid_request_error")

	was := c["versions"].([]any)[0].(map[string]any)["id"]
	if v := ok("POST", "/restore", fmt.Sprintf(`{"path":"/a.md","memory_version_id":%q}`, was)); v["operation"] != "modified" || text("/a.md") != "one\n" {
		t.Errorf("%v", v)
	}
	if v := ok("POST", "/restore", fmt.Sprintf(`{"path":"/","at":"%d"}`, first)); v["changes"].(map[string]any)["created"] != 1.0 || text("/d/b.md") != "b\n" {
		t.Errorf("%v", v)
	}
	refused("POST", "/restore", `{"path":"/"}`, 400, "invalid_request_error")
	refused("POST", "/restore", `{"path":"","at":"0"}`, 400, "invalid_request_error") // all of it is /
	refused("POST", "/restore", `{"path":"/","at":"1000"}`, 404, "not_found_error")
	refused("POST", "/restore", `{"path":"/a.md","memory_version_id":"memver_x"}`, 404, "not_found_error")

	author, err := r.registry.Caller(t.Context(), secret)
	r.must(err)
	var changes []string
	for i := range 150 {
		changes = append(changes, fmt.Sprintf(`{"action":"put","path":"/many/%03d.md","content":"x"}`, i))
	}
	ok("POST", "/batch", `{"changes":[`+strings.Join(changes, ",")+`]}`)
	page := ok("GET", "/diff", "")
	ok("POST", "/batch", `{"changes":[{"action":"put","path":"/a.md","content":"three\n"}]}`)
	more := ok("GET", "/diff?page="+page["next_page"].(string), "")
	if a, b := page["data"].([]any), more["data"].([]any); len(a) != 100 || len(b) != 50 || more["next_page"] != nil || b[0].(map[string]any)["to"].(map[string]any)["path"] != "/many/100.md" {
		t.Errorf("%d and %d differences, %v", len(a), len(b), more["next_page"])
	}
	refused("GET", "/diff?path=/many/&page="+page["next_page"].(string), "", 400, "invalid_request_error") // of another path
	ofMany := ok("GET", fmt.Sprintf("/diff?path=/many/&from=%v&to=%v", page["from_seq"], page["to_seq"]), "")["next_page"].(string)
	if rest := ok("GET", "/diff?path=/many/&page="+ofMany, ""); len(rest["data"].([]any)) != 50 {
		t.Errorf("%v", rest)
	}
	refused("GET", "/diff?page="+ofMany, "", 400, "invalid_request_error")
	for c, err := range st.CommitsBefore(t.Context(), 0, versionlog.Filter{}) {
		r.must(err)
		if c.Event == nil && c.Actor != author.Actor {
			t.Errorf("commit %d is of %v", c.Seq, c.Actor)
		}
	}
}
