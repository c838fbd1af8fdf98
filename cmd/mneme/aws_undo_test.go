package main

import (
	"fmt"
	"strings"
	"testing"
)

// TestAWSUndo: a restore of more than a transaction takes is several commits, which another restore takes
// back; an undo keeps what others wrote.
func TestAWSUndo(t *testing.T) {
	t.Parallel()
	p := newAWSPlace(t)
	for half := range 2 {
		var puts []string
		for i := range 60 {
			puts = append(puts, fmt.Sprintf(`{"action":"put","path":"/many/%d-%d","content":"%[2]d"}`, half, i))
		}
		p.must(`{"changes":[`+strings.Join(puts, ",")+`]}`, "apply", "notes")
	}
	if out := p.must("", "restore", "notes", "--at", "2"); !strings.Contains(out, "120 deleted in 4 commits, sequence numbers 5 to 8.") {
		t.Errorf("restore prints %q", out)
	}
	if out := p.must("", "ls", "notes"); out != "a.md\n" {
		t.Errorf("then there is %q", out)
	}
	if out := p.must("", "restore", "notes:/many/", "--at", "4"); !strings.Contains(out, "120 created in 2 commits") {
		t.Errorf("restore prints %q", out)
	}
	if out := p.must("", "cat", "notes:/many/1-59"); out != "59" {
		t.Errorf("then a memory holds %q", out)
	}

	p.must("1\n2\n3\n4\n5\n", "write", "notes:/plan.md")
	p.must(`{"id":1,"input":{"command":"str_replace","path":"/memories/plan.md","old_str":"2","new_str":"broken"}}`+"\n"+
		`{"id":2,"input":{"command":"delete","path":"/memories/many/0-0"}}`+"\n", "tool", "--store", "notes", "--session", "agent")
	p.must("1\nbroken\n3\n4\n5\nperson\n", "write", "notes:/plan.md")
	out := p.must("", "undo", "notes", "--session", "agent")
	if !strings.Contains(out, "1 created, 1 modified in one commit") {
		t.Errorf("undo prints %q", out)
	}
	if out := p.must("", "cat", "notes:/plan.md"); out != "1\n2\n3\n4\n5\nperson\n" {
		t.Errorf("then a memory holds %q", out)
	}
	if out := p.must("", "undo", "notes", "--session", "agent"); !strings.Contains(out, "nothing was changed") {
		t.Errorf("a second undo prints %q", out)
	}
	p.must("", "fsck", "notes")
}
