package hostile

import (
	"strings"
	"testing"
)

// The harness is what it says: another user without rights of root's, also in a
// sandbox, and a mount that both may use.
func TestHarness(t *testing.T) {
	p := newPlace(t, "bwrap", "setpriv")
	p.must("store", "create", "notes")
	dir, _ := p.mount("memory", "notes", "--owner", "3001:3001")
	p.sh(agent, "id -u; echo hello > "+dir+"/notes/a.md")
	if r := p.try(other, "echo x > "+dir+"/notes/a.md"); r.code == 0 {
		t.Errorf("another user has written: %v", r)
	}
	if r := p.try(agent, "ls home"); r.code == 0 {
		t.Errorf("the agent sees root's home: %v", r)
	}
	r := p.sandbox(agent, map[string]string{dir: "/mnt"}, `
		cat /mnt/notes/a.md; id -u; grep CapEff /proc/self/status; ls /tmp | wc -l; ls `+p.dir+` 2>&1 || true`)
	for _, want := range []string{"hello\n3001\n", "0000000000000000\n0\n", "No such file"} {
		if r.code != 0 || !strings.Contains(r.stdout, want) {
			t.Fatalf("in a sandbox: %v\nwant %q", r, want)
		}
	}
	if got := p.must("cat", "notes:/a.md"); got != "hello\n" {
		t.Errorf("the store has %q", got)
	}
}
