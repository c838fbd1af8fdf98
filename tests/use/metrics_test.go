package use

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"mneme/internal/testing/awstest"
	"mneme/tests/harness"
)

// TestMetrics holds that --metrics-addr tells what a mount has done, to this
// machine only.
func TestMetrics(t *testing.T) {
	t.Parallel()
	e := harness.NewEnv(t)
	m := e.Mount(t, "notes", "--metrics-addr=:0")
	m.Sh(t, `echo one > f; echo two > g; rm g; cat f`)
	if url := m.MetricsURL(t); !strings.HasPrefix(url, "http://127.0.0.1:") {
		t.Errorf("metrics are served at %q, not on the loopback interface only", url)
	}
	body := m.Metrics(t)
	wanted := []string{
		`mneme_store_commits_total{store="notes"} 3`, `mneme_store_memories{store="notes"} 1`,
		`mneme_store_applied_sequence{store="notes"}`, `mneme_store_degraded{store="notes"} 0`,
		`mneme_store_uncommitted_files{store="notes"} 0`, `mneme_fuse_request_seconds_count{kind="CREATE"} 2`,
		`mneme_fuse_request_seconds_count{kind="UNLINK"} 1`, "mneme_cache_misses_total",
		`mneme_store_commit_seconds_count{store="notes"} 3`, `mneme_store_used{store="notes",what="bytes"}`,
		"mneme_mount_held_bytes", "mneme_mount_max_held_bytes 2.68435456e+08", "mneme_mount_refused_total 0",
	}
	if e.Remote != nil {
		wanted = append(wanted, `mneme_backend_request_seconds_count{kind="dynamodb TransactWriteItems"}`,
			`mneme_backend_request_seconds_sum{kind="s3 PUT"}`, `mneme_backend_sent_bytes_total{kind="s3 PUT"}`,
			`mneme_backend_received_bytes_total{kind="dynamodb GetItem"}`)
	}
	for _, want := range wanted {
		if !strings.Contains(body, want+"\n") && !strings.Contains(body, "\n"+want+" ") {
			t.Errorf("the metrics lack %q:\n%s", want, body)
		}
	}
}

var metricName = regexp.MustCompile(`mneme_[a-z_]+`)

// TestBoard holds that the board in docs shows existing metrics, and all of them. Only a mount of
// S3 and DynamoDB has the metrics about the backend.
func TestBoard(t *testing.T) {
	t.Parallel()
	e := harness.NewEnv(t)
	e.GoRemote(awstest.S3(t), awstest.DynamoDB(t))
	m := e.Mount(t, "notes", "--metrics-addr=:0")
	board, err := os.ReadFile("../../docs/grafana.json")
	if err != nil {
		t.Fatal(err)
	}
	if !json.Valid(board) {
		t.Error("the board is not JSON")
	}
	shown, served := metricName.FindAllString(string(board), -1), metricName.FindAllString(m.Metrics(t), -1)
	for _, name := range shown {
		if !slices.Contains(served, name) {
			t.Errorf("the board shows %s, which is not served", name)
		}
	}
	for _, name := range served {
		if !slices.Contains(shown, name) && !slices.Contains(shown, name+"_sum") {
			t.Errorf("the board does not show %s", name)
		}
	}
}
