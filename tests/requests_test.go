package tests

import (
	"bufio"
	"encoding/json"
	"net/http"
	"regexp"
	"strconv"
	"testing"
)

// requestLine is one counter among the metrics of a mount.
var requestLine = regexp.MustCompile(`^mneme_fuse_request_seconds_count\{kind="([A-Z]+)"\} ([0-9.e+]+)$`)

// requests returns how many requests of each kind the kernel has sent to a
// mount, which must have --metrics-addr.
func (m *mount) requests(t testing.TB) map[string]int {
	t.Helper()
	var announced struct{ Metrics string }
	if err := json.Unmarshal([]byte(m.ready.String()), &announced); err != nil || announced.Metrics == "" {
		t.Fatalf("the mount does not say where its metrics are: %v %q", err, m.ready.String())
	}
	reply, err := http.Get(announced.Metrics)
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	counts := map[string]int{}
	lines := bufio.NewScanner(reply.Body)
	for lines.Scan() {
		if match := requestLine.FindStringSubmatch(lines.Text()); match != nil {
			n, err := strconv.ParseFloat(match[2], 64)
			if err != nil {
				t.Fatal(err)
			}
			counts[match[1]] = int(n)
		}
	}
	if err := lines.Err(); err != nil || len(counts) == 0 {
		t.Fatalf("no requests among the metrics: %v", err)
	}
	return counts
}

// during returns the requests that do causes.
func (m *mount) during(t testing.TB, do func()) map[string]int {
	t.Helper()
	before := m.requests(t)
	do()
	caused := m.requests(t)
	for kind, n := range before {
		if caused[kind] -= n; caused[kind] == 0 {
			delete(caused, kind)
		}
	}
	return caused
}
