package api

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"mneme/session/conflict"
	"mneme/versionlog"
)

// TestOnce makes requests again under their keys: each is answered as it was the first time, whatever
// has happened since, and makes no second version. A key is that of one caller and one request.
func TestOnce(t *testing.T) {
	r := newRig(t)
	store := r.store("notes")
	do := func(key, method, path, body string) (int, map[string]any) {
		t.Helper()
		return r.ask(method, path, body, "X-Idempotency-Key", key)
	}
	versions := func() int {
		t.Helper()
		return len(r.ok("GET", store+"/memory_versions", "")["data"].([]any))
	}
	same := func(key, method, path, body string) map[string]any {
		t.Helper()
		status, first := do(key, method, path, body)
		n := versions()
		again, second := do(key, method, path, body)
		if status != 200 || again != 200 || fmt.Sprint(first) != fmt.Sprint(second) || versions() != n {
			t.Fatalf("%d %v, then %d %v", status, first, again, second)
		}
		return first
	}
	m := same("k1", "POST", store+"/memories", `{"path":"/a.md","content":"one"}`)
	memory := store + "/memories/" + m["id"].(string)
	two := same("k2", "POST", memory, `{"content":"two","precondition":{"type":"version","memory_version_id":"`+m["memory_version_id"].(string)+`"}}`)
	r.ok("POST", memory, `{"content":"three"}`)
	if status, again := do("k2", "POST", memory, `{"content":"two","precondition":{"type":"version","memory_version_id":"`+m["memory_version_id"].(string)+`"}}`); status != 200 || again["memory_version_id"] != two["memory_version_id"] {
		t.Errorf("%d %v", status, again)
	}
	for name, path := range map[string]string{"k1": store + "/memories", "k2": memory} {
		if status, e := do(name, "POST", path, `{"path":"/b.md","content":"other"}`); status != 409 || e["error"].(map[string]any)["type"] != "conflict_error" {
			t.Errorf("%s for another request: %d %v", name, status, e)
		}
	}
	same("k3", "DELETE", memory, "")
	if status, _ := do("k2", "DELETE", memory, ""); status != 409 {
		t.Errorf("a key of another operation: %d", status)
	}

	r.caller.Session = "sess-2"
	if status, other := do("k1", "POST", store+"/memories", `{"path":"/c.md","content":"mine"}`); status != 200 || other["path"] != "/c.md" {
		t.Errorf("the key of another session: %d %v", status, other)
	}
	r.caller.Session, r.caller.Actor = "", versionlog.Actor{Kind: versionlog.ActorAPIKey, ID: "apikey_2"}
	if status, other := do("k1", "POST", store+"/memories", `{"path":"/d.md","content":"mine"}`); status != 200 || other["path"] != "/d.md" {
		t.Errorf("the key of another caller: %d %v", status, other)
	}
	for _, bad := range []string{"a\tb", "a b", "", strings.Repeat("x", 256), "ä"} {
		if status, e := do(bad, "POST", store+"/memories", `{"path":"/e.md","content":"x"}`); status != 400 || !strings.Contains(fmt.Sprint(e), "x-idempotency-key: it must have 1 to 255 visible characters") {
			t.Errorf("%q: %d %v", bad, status, e)
		}
	}
}

// TestOnceRedacted: a request that comes again once what it wrote was redacted is told so.
func TestOnceRedacted(t *testing.T) {
	r := newRig(t)
	store := r.store("notes")
	const body = `{"path":"/a.md","content":"one"}`
	_, m := r.ask("POST", store+"/memories", body, "X-Idempotency-Key", "k1")
	memory := store + "/memories/" + m["id"].(string)
	r.ok("POST", memory, `{"content":"two"}`)
	r.ok("POST", store+"/memory_versions/"+m["memory_version_id"].(string)+"/redact", "")
	status, e := r.ask("POST", store+"/memories", body, "X-Idempotency-Key", "k1")
	if text := fmt.Sprint(e); status != 409 || !strings.Contains(text, "conflict_error") || !strings.Contains(text, "what it wrote was redacted since") {
		t.Errorf("%d %v", status, e)
	}
	if got := r.ok("GET", memory, "")["content"]; got != "two" {
		t.Errorf("the memory has %v", got)
	}
}

// TestRedactKept: a redaction erases kept conflicts on the server's machine, too, and its answer is the
// receipt.
func TestRedactKept(t *testing.T) {
	r := newRig(t)
	store := r.store("notes")
	m := r.ok("POST", store+"/memories", `{"path":"/a.md","content":"the canary"}`)
	r.ok("POST", store+"/memories/"+m["id"].(string), `{"content":"clean"}`)
	kept := conflict.New(filepath.Join(r.kept, m["memory_store_id"].(string)))
	for _, about := range []conflict.About{{Path: "/a.md", Base: &conflict.Side{Version: m["memory_version_id"].(string)}}, {Path: "/b.md"}, {Path: "/c.md"}} {
		text := map[string]string{"/a.md": "mine", "/b.md": "the canary", "/c.md": "stays"}[about.Path]
		if _, err := kept.Keep(about, conflict.Texts{Yours: []byte(text)}); err != nil {
			t.Fatal(err)
		}
	}
	v := r.ok("POST", store+"/memory_versions/"+m["memory_version_id"].(string)+"/redact", "")
	receipt, _ := v["redaction"].(map[string]any)
	if text := fmt.Sprint(receipt["places"]); !strings.Contains(text, "place:kept conflicts (2)") || strings.Contains(text, "left:") || receipt["contents_erased"] != 1.0 || receipt["unreached"] == nil {
		t.Errorf("the receipt is %v", receipt)
	}
	if ids, err := kept.IDs(); err != nil || len(ids) != 1 || ids[0] != 3 {
		t.Errorf("conflicts %v are kept, %v", ids, err)
	}
	if again := r.ok("GET", store+"/memory_versions/"+m["memory_version_id"].(string), ""); again["redaction"] != nil {
		t.Errorf("another request has the receipt %v", again["redaction"])
	}
}
