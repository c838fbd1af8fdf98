package hostile

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
)

// A mount is its owner's: other users of the machine see nothing of it, whatever mode
// a program gives its files, unless --mode lets them.
func TestPrivate(t *testing.T) {
	p := newPlace(t)
	p.must("store", "create", "notes")
	closed, _ := p.mount("closed", "notes", "--owner", "3001:3001")
	p.sh(agent, "cd closed/notes; umask 0; mkdir d; echo secret > d/f; cp d/f g; chmod 777 d; chmod 666 d/f")
	for _, script := range []string{"ls closed", "ls closed/notes", "cat closed/notes/d/f", "cat closed/notes/.mneme/status"} {
		if r := p.try(other, script); r.code == 0 {
			t.Errorf("another user, %s: %v", script, r)
		}
	}
	status := p.mneme(other, "status")
	if _, line, _ := strings.Cut(status.stdout, closed+" "); !strings.HasSuffix(strings.SplitN(line, "\n", 2)[0], " not open to you") {
		t.Errorf("another user's status: %v", status)
	}
	open, _ := p.mount("open", "notes", "--owner", "3001:3001", "--mode", "750")
	if got, want := p.sh(agent, "cd open/notes; umask 0; echo x > new; stat -c '%a %n' . d d/f new .mneme .mneme/status"),
		"750 .\n750 d\n640 d/f\n666 new\n550 .mneme\n440 .mneme/status\n"; got != want {
		t.Errorf("with --mode 750 there is\n%swant\n%s", got, want)
	}
	_ = open
	for _, mode := range []string{"600", "1755", "rwx", "077"} {
		if r := p.mneme(0, "mount", "notes", "--at", p.path("no"), "--mode", mode); r.code != 2 {
			t.Errorf("--mode %s: %v", mode, r)
		}
	}
}

// A file that a program has made private in a mount that lets others in is private in the next
// one, too, whichever user serves the mount.
func TestPrivateStaysPrivate(t *testing.T) {
	p := newPlace(t)
	p.must("store", "create", "notes")
	args := []string{"notes", "--owner", "3001:3001", "--mode", "755"}
	p.mount("open", args...)
	p.sh(agent, `cd open/notes; umask 022; mkdir d later; echo secret > d/f; cp d/f shown; cp d/f f; cp d/f later/f; cp d/f renamed; echo "#!/bin/sh" > saved
		chmod 700 d; chmod 600 f renamed; mkdir -m 750 made; cp d/f made/f
		(umask 077; echo secret > new; mkdir own; cp new own/f)
		python3 -c 'import os, tempfile
with tempfile.NamedTemporaryFile("w", dir=".", delete=False) as f: f.write("secret")
os.replace(f.name, "saved")'`)
	p.must("mv", "notes:/renamed", "notes:/elsewhere")
	p.sh(other, "cat open/notes/shown open/notes/later/f")
	scripts := []string{"cat d/f", "ls d", "cat f", "cat elsewhere", "cat made/f", "cat new", "ls own", "cat saved"}
	check := func(how string) {
		t.Helper()
		p.sh(agent, "cd open/notes; "+strings.Join(scripts, "; "))
		p.sh(other, "cat open/notes/shown")
		for _, script := range scripts {
			if r := p.try(other, "cd open/notes; "+script); r.code == 0 {
				t.Errorf("%s, another user, %s: %v", how, script, r)
			}
		}
	}
	check("in its mount")
	p.must("unmount", "--at", p.path("open"))
	_, pid := p.mount("open", append(args, "--keep")...)
	check("in the next mount")
	p.sh(0, fmt.Sprintf("kill -9 $(cat /proc/%d/task/*/children)", pid))
	check("served by another process")
	p.sh(agent, "cd open/notes; mv d e; mv e d; chmod 700 later; mv f g; mv g f")
	scripts = append(scripts, "cat later/f")
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	p.mount("open", args...)
	check("after a kill")
	p.sh(agent, "cd open/notes; chmod 755 d; chmod 644 f")
	p.must("unmount", "--at", p.path("open"))
	p.must("backup", p.path("copy"))
	p.vars = []string{"MNEME_URL=file://" + p.path("copy")}
	p.mount("open", args...)
	p.sh(other, "cd open/notes; cat d/f f")
	if r := p.try(other, "cat open/notes/new"); r.code == 0 {
		t.Errorf("from a backup: %v", r)
	}
}
