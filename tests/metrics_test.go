package tests

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestMetrics holds that --metrics-addr tells what a mount has done, to this
// machine only.
func TestMetrics(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	m := e.mount(t, "notes", "--metrics-addr=:0")
	m.sh(t, `echo one > f; echo two > g; rm g; cat f`)
	var announced struct{ Metrics string }
	if err := json.Unmarshal([]byte(m.ready.String()), &announced); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(announced.Metrics, "http://127.0.0.1:") {
		t.Errorf("metrics are served at %q, not on the loopback interface only", announced.Metrics)
	}
	reply, err := http.Get(announced.Metrics)
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	body, err := io.ReadAll(reply.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`mneme_store_commits_total{store="notes"} 3`, `mneme_store_memories{store="notes"} 1`,
		`mneme_store_applied_sequence{store="notes"}`, `mneme_store_degraded{store="notes"} 0`,
		`mneme_store_uncommitted_files{store="notes"} 0`, `mneme_fuse_request_seconds_count{kind="CREATE"} 2`,
		`mneme_fuse_request_seconds_count{kind="UNLINK"} 1`, "mneme_cache_misses_total",
	} {
		if !strings.Contains(string(body), want+"\n") && !strings.Contains(string(body), "\n"+want+" ") {
			t.Errorf("the metrics lack %q:\n%s", want, body)
		}
	}
}
