package hostile

import "testing"

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
	open, _ := p.mount("open", "notes", "--owner", "3001:3001", "--mode", "750")
	if got, want := p.sh(agent, "cd open/notes; umask 0; echo x > new; stat -c '%a %n' . d d/f new .mneme .mneme/status"),
		"750 .\n750 d\n640 d/f\n666 new\n550 .mneme\n440 .mneme/status\n"; got != want {
		t.Errorf("with --mode 750 there is\n%swant\n%s", got, want)
	}
	_, _ = closed, open
	for _, mode := range []string{"600", "1755", "rwx", "077"} {
		if r := p.mneme(0, "mount", "notes", "--at", p.path("no"), "--mode", mode); r.code != 2 {
			t.Errorf("--mode %s: %v", mode, r)
		}
	}
}
