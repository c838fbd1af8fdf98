package fusefs

import "testing"

func TestClassify(t *testing.T) {
	plain := &node{name: "notes"}
	git := &node{name: "heads", parent: &node{name: "refs", parent: &node{name: ".git", parent: plain}}}
	for _, tc := range []struct {
		dir  *node
		name string
		want scratchKind
	}{
		{plain, ".plan.md.swp", editorScratch},
		{plain, ".plan.md.swpx", editorScratch},
		{plain, ".plan.md.swo", editorScratch},
		{plain, "4913", editorScratch},
		{plain, "plan.md~", editorScratch},
		{plain, ".#plan.md", editorScratch},
		{plain, "#plan.md#", editorScratch},
		{plain, ".~lock.plan.odt#", editorScratch},
		{plain, ".goutputstream-A1B2C3", editorScratch},
		{plain, "sedAb12Cd", temporary},
		{plain, "XXAb12Cd", temporary},
		{plain, "tmpab_12cde", temporary},
		{plain, "plan.md.tmp", temporary},
		{plain, "plan.md.tmp.4711.1763688480", temporary},
		{plain, ".tmp-4711-5b2f", temporary},
		{plain, ".plan.md.Xy12Za", temporary},
		{plain, "tmp_obj_aB3dE6", temporary},
		{git, "main.lock", temporary},
		// What people call their notes.
		{plain, "plan.md", ordinary},
		{plain, "4914", ordinary},
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
	} {
		if got := classify(tc.dir, tc.name); got != tc.want {
			t.Errorf("classify(%q) = %v, want %v", tc.name, got, tc.want)
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
