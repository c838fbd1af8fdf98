package hostile

import "testing"

// No program is executed from a mount, whatever its mode, unless --exec was given.
func TestExec(t *testing.T) {
	p := newPlace(t)
	p.must("store", "create", "notes")
	p.mount("closed", "notes", "--owner", "3001")
	if r := p.try(agent, `cd closed/notes; printf '#!/bin/sh\necho executed\n' > f; chmod 700 f; ./f`); r.code != 126 {
		t.Errorf("executing a file of a mount: %v", r)
	}
	p.mount("open", "notes", "--owner", "3001", "--exec")
	if got := p.sh(agent, `cd open/notes; printf '#!/bin/sh\necho executed\n' > f; chmod 700 f; ./f`); got != "executed\n" {
		t.Errorf("executing files of a mount with --exec: %q", got)
	}
}
