package harness

import (
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// requestLine is one counter among the metrics of a mount.
var requestLine = regexp.MustCompile(`^mneme_fuse_request_seconds_count\{kind="([A-Z]+)"\} ([0-9.e+]+)\n$`)

// MetricsURL is where a mount with --metrics-addr says that its metrics are.
func (m *Mount) MetricsURL(t testing.TB) string {
	t.Helper()
	var announced struct{ Metrics string }
	if err := json.Unmarshal([]byte(m.Ready.String()), &announced); err != nil || announced.Metrics == "" {
		t.Fatalf("the mount does not say where its metrics are: %v %q", err, m.Ready.String())
	}
	return announced.Metrics
}

// Metrics returns what is there.
func (m *Mount) Metrics(t testing.TB) string {
	t.Helper()
	reply, err := http.Get(m.MetricsURL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	body, err := io.ReadAll(reply.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// Requests returns how many requests of each kind the kernel has sent to a
// mount with --metrics-addr.
func (m *Mount) Requests(t testing.TB) map[string]int {
	t.Helper()
	counts := map[string]int{}
	for line := range strings.Lines(m.Metrics(t)) {
		if match := requestLine.FindStringSubmatch(line); match != nil {
			n, err := strconv.ParseFloat(match[2], 64)
			if err != nil {
				t.Fatal(err)
			}
			counts[match[1]] = int(n)
		}
	}
	if len(counts) == 0 {
		t.Fatal("there are no requests among the metrics")
	}
	return counts
}

// During returns the requests that do causes.
func (m *Mount) During(t testing.TB, do func()) map[string]int {
	t.Helper()
	before := m.Requests(t)
	do()
	caused := m.Requests(t)
	for kind, n := range before {
		if caused[kind] -= n; caused[kind] == 0 {
			delete(caused, kind)
		}
	}
	return caused
}
