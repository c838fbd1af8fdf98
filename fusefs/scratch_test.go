package fusefs

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"mneme/fusefs/tree"
)

func TestClassify(t *testing.T) {
	r := newRig(t)
	made := func(up *tree.Entry, name string) *tree.Entry {
		defer r.locked()()
		return r.s.tree.MakeDirLocked(up, name, 0o700, time.Now(), 0)
	}
	plain := made(r.s.tree.Root(), "notes")
	git, delayed := made(made(made(plain, ".git"), "refs"), "heads"), made(plain, ".~tmp~")
	for _, tc := range []struct {
		dir  *tree.Entry
		name string
		want scratchKind
	}{
		{plain, ".plan.md.swp", editorScratch},
		{plain, ".plan.md.swpx", editorScratch},
		{plain, ".plan.md.swo", editorScratch},
		{plain, "plan.md~", editorScratch},
		{plain, ".#plan.md", editorScratch},
		{plain, "#plan.md#", editorScratch},
		{plain, ".~lock.plan.odt#", editorScratch},
		{plain, ".goutputstream-A1B2C3", editorScratch},
		{plain, ".~plan.ipynb", editorScratch},
		{plain, ".plan.json.bak_1763688480124_0p1qz.tmp", editorScratch},
		{plain, "plan.md___jb_old___", editorScratch},
		{plain, "sedAb12Cd", temporary},
		{plain, "XXAb12Cd", temporary},
		{plain, "tmpab_12cde", temporary},
		{plain, "plan.md.tmp|plan.tmp.md", temporary},
		{plain, "plan.md.tmp.4711.1763688480", temporary},
		{plain, ".tmp-4711-5b2f", temporary},
		{plain, ".plan.md.Xy12Za", temporary},
		{plain, "tmp_obj_aB3dE6", temporary},
		{git, "main.lock", temporary},
		{plain, "plan.md.0a1b2c3d.partial", temporary},
		{plain, "d2utmpAb12Cd", temporary},
		{plain, ".plan.json.new_1763688480123_k3j9x2.tmp", temporary},
		{plain, "plan.md___jb_tmp___", temporary},
		{plain, "plan.md.new", temporary},
		{plain, "Zm9v.0a1b.incomplete", temporary},
		{plain, "plan.md.6eB4aDc1", temporary},
		{plain, "plan.py.isorted", temporary},
		{plain, ".ansible_tmpx1y2z3w4plan.md", temporary},
		{delayed, "plan.md", temporary},
		// These are names that people give their notes.
		{plain, "plan.md", ordinary},
		{plain, "4913", ordinary},
		{plain, "template.md", ordinary},
		{plain, "tmp", ordinary},
		{plain, "sed-tricks.md", ordinary},
		{plain, "sedation", ordinary},
		{plain, ".config.backup", ordinary},
		{plain, ".bashrc", ordinary},
		{plain, "#1 priority.md", ordinary},
		{plain, "yarn.lock", ordinary},
		{plain, "a~b", ordinary},
		{plain, ".swp", ordinary},
		{plain, "answer.swp.md", ordinary},
		{plain, "header.partial", ordinary},
		{plain, "d2utmp.md", ordinary},
		{plain, "isorted", ordinary},
		{plain, "what-is-new", ordinary},
		{plain, ".new", ordinary},
		{plain, "plan.md.20270115", ordinary},
		{plain, "plan.md.deadbeef", ordinary},
		{plain, "plan.md.bak", ordinary},
		{plain, "notes2024", ordinary},
		{plain, "plan.1234567890", ordinary},
		{plain, "tmp.javascript", ordinary},
	} {
		for name := range strings.SplitSeq(tc.name, "|") {
			if got := classifyLocked(tc.dir, name); got != tc.want {
				t.Errorf("classify(%q) = %v, want %v", name, got, tc.want)
			}
		}
	}
}

func TestFromMkstemp(t *testing.T) {
	for name, want := range map[string]bool{
		"plan.md.oAbCdEf": true, "plan.md.gawk.aBcDeF": true, "plan.md.X1yz23": true, "tmp4zKXWg": true, "tmpqkstfm": true,
		"plan.md": false, "plan.backup": false, "Makefile": false, "a.config": false, "tmpbackups": false,
	} {
		if got := fromMkstemp(name); got != want {
			t.Errorf("fromMkstemp(%q) = %v, want %v", name, got, want)
		}
	}
}

// TestMadeUp: a name is judged by how the file is made, too. A file that cp, tar or an editor
// makes under a name with a date, version, time or hash is a memory at once.
func TestMadeUp(t *testing.T) {
	const (
		mkstemp = syscall.O_RDWR | syscall.O_CREAT | syscall.O_EXCL
		copies  = syscall.O_WRONLY | syscall.O_CREAT | syscall.O_EXCL
		plain   = syscall.O_WRONLY | syscall.O_CREAT | syscall.O_TRUNC
	)
	now := time.Unix(1_800_000_000, 0)
	r := newRig(t, "/notes/plan.md")
	r.must(r.s.tree.Walk(t.Context()))
	dir := r.s.tree.FindLocked("/notes")
	for _, tc := range []struct {
		name  string
		flags uint32
		want  bool
	}{
		{"plan.md.3735928559", plain, true}, // write-file-atomic
		{"plan.md.373592855", plain, true},
		{"plan.md.1600000000", plain, true},
		{"tmp.aB3dE6gH9j", mkstemp, true}, // mktemp -p .
		{"plan1234567890", mkstemp, true}, // os.CreateTemp
		{".plan.md.tmp123456789", mkstemp, true},
		{".plan.md4037200794235010051", mkstemp, true}, // renameio
		{"plan.go.5577006791947779410", mkstemp, true}, // gofmt
		{"plan.md.X1yz23", copies, true},
		{"plan.md.bak", mkstemp, true}, // File.Replace
		// These are names that people give their notes.
		{"plan.md.1799999999", plain, false}, // a moment ago
		{"plan.md.20270115", plain, false},   // a date
		{"plan.md.4294967296", plain, false}, // no hash of 32 bits
		{"plan.md.0123456789", plain, false},
		{"other.md.3735928559", plain, false}, // beside nothing
		{"plan.2024", copies, false},
		{"plan.md.bak", copies, false},
		{"plan.md.lock", mkstemp, false}, // other sessions are to see it
		{"other.md.bak", mkstemp, false}, // beside nothing
		{"notes2024", copies, false},
		{"notes20270115", mkstemp, false},
		{"notes2024", mkstemp, false},
		{"2027011512", mkstemp, false},
		{"call-5551234567", copies, false}, // cp and tar
		{"log-1799999999", plain, false},
		{"tmp.javascript", plain, false},
		{"tmp.aB3dE6gH9j", copies, false},
		{"v1.20.300", mkstemp, false},
		{"sha256-" + strings.Repeat("4", 64), mkstemp, false},
		{"plan.md", mkstemp, false},
	} {
		if got := madeUpLocked(dir, tc.name, tc.flags, now); got != tc.want {
			t.Errorf("madeUp(%q, %#x) = %v, want %v", tc.name, tc.flags, got, tc.want)
		}
	}
}
