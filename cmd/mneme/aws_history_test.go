package main

import (
	"strings"
	"testing"
)

// TestAWSHistory: the history of a remote store answers what that of an embedded one does.
func TestAWSHistory(t *testing.T) {
	t.Parallel()
	p := newAWSPlace(t)
	p.fill()
	p.must("two\nthree\n", "write", "notes:/dir/b.md", "-m", "more")
	for _, test := range []struct {
		args string
		want []string // parts of its output, which has as many lines
	}{
		{"blame notes:/dir/b.md", []string{"3  20", "5  20"}},
		{"log notes:/dir/ --operation renamed --json", []string{`"seq":4`}},
		{"log notes --since 1h --actor nobody --json", nil},
		{"log notes --grep two --json", []string{`"seq":3`}},
		{"log notes:/dir/b.md --grep one --json", []string{`"seq":3`, `"seq":2`}},
		{"log notes --stat -n 1", []string{"more", "modified  /dir/b.md  +1 -0"}},
		{"diff notes 2 HEAD --stat", []string{"renamed   /a.md → /dir/b.md  +2 -1", "1 memory changed, +2 -1"}},
		{"diff notes:/dir 4 5 --json", []string{`"path":"/dir/b.md"`}},
		{"why notes two --json", []string{`"seq":3`}},
	} {
		out := p.must("", strings.Fields(test.args)...)
		lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
		if out == "" {
			lines = nil
		}
		if len(lines) != len(test.want) {
			t.Errorf("%s prints\n%s", test.args, out)
			continue
		}
		for i, want := range test.want {
			if !strings.Contains(lines[i], want) {
				t.Errorf("%s prints\n%swhere %q is to be in line %d", test.args, out, want, i+1)
			}
		}
	}
	if e := p.mneme("", "why", "notes", "four"); e.code != 3 {
		t.Errorf("what nobody said: exit code %d, %s", e.code, e.stderr)
	}
}
