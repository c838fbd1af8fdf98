package hostile

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"mneme/tests/harness"
)

// A mount with the capabilities of the unit for systemd, and without new ones, works:
// it is used, outlives the process that serves it, is served by a new program, and
// ends. The rest of the unit takes systemd.
func TestServiceCapabilities(t *testing.T) {
	p := newPlace(t, "setpriv")
	unit, err := os.ReadFile(filepath.Join("..", "..", "contrib", "systemd", "mneme@.service"))
	if err != nil {
		t.Fatal(err)
	}
	caps := regexp.MustCompile(`(?m)^CapabilityBoundingSet=(.+)$`).FindStringSubmatch(string(unit))
	if caps == nil {
		t.Fatal("the unit bounds no capabilities")
	}
	bounds := "-all"
	for name := range strings.FieldsSeq(caps[1]) {
		bounds += ",+" + strings.ToLower(strings.TrimPrefix(name, "CAP_"))
	}
	p.must("store", "create", "notes")
	dir := p.path("memory")
	text := p.succeed(p.run(0, "setpriv", "--bounding-set="+bounds, "--inh-caps=-all", "--no-new-privs", harness.DaemonOf(t),
		"mount", "notes", "--json", "--background", "--keep", "--at", dir, "--owner", "3001:3001"), "mount")
	t.Cleanup(func() {
		if len(harness.MountsBelow(dir)) > 0 {
			p.must("unmount", "--at", dir)
		}
	})
	var mounted struct {
		PID int `json:"pid"`
	}
	if err := json.Unmarshal([]byte(text), &mounted); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	p.sh(agent, "cd memory/notes; { echo one; bash -c 'echo two'; } > f; : > g; sed -i s/one/1/ f")
	p.sh(0, fmt.Sprintf("kill -9 $(cat /proc/%d/task/*/children)", mounted.PID))
	p.sh(agent, "cd memory/notes; echo three >> f")
	serves := harness.Children(t, mounted.PID)[0]
	p.sh(0, fmt.Sprintf("kill -HUP %d; while test -e /proc/%d/fd/0; do sleep 0.01; done", mounted.PID, serves))
	if got := p.sh(agent, "cd memory/notes; echo four >> f; cat f"); got != "1\ntwo\nthree\nfour\n" {
		t.Errorf("the mount has %q", got)
	}
	p.must("unmount", "--at", dir)
	if got := p.must("log", "notes:/f", "--json"); strings.Count(got, `"memver_`) == 0 || len(harness.MountsBelow(dir)) != 0 {
		t.Errorf("after the end there is %v, and the log is %s", harness.MountsBelow(dir), got)
	}
}
