package hostile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mneme/tests/harness"
)

// Root mounts nowhere that another user could lead it to, and makes no directories
// there. The error says whose the way is.
func TestMountPoint(t *testing.T) {
	p := newPlace(t)
	p.must("store", "create", "notes")
	p.mkdir("victim", 0, 0o700)
	p.mkdir("victim/empty", 0, 0o755)
	p.mkdir("agent", agent, 0o755)
	p.mkdir("agent/own", agent, 0o755)
	p.mkdir("all", 0, 0o777)
	p.mkdir("tmp", 0, 0o777|os.ModeSticky)
	p.mkdir("tmp/agent", agent, 0o755)
	p.sh(agent, "ln -s ../victim/empty agent/link; ln -s ../victim agent/parent; ln -s ../victim/empty tmp/link")
	for at, want := range map[string]string{
		"agent/link":         "agent belongs to user 3001",
		"agent/parent/empty": "agent belongs to user 3001",
		"agent/parent/new/x": "agent belongs to user 3001",
		"agent/own":          "agent belongs to user 3001",
		"all/new":            "everybody may write in ",
		"tmp/link":           "tmp/link belongs to user 3001",
		"tmp/agent":          "tmp/agent belongs to user 3001",
	} {
		for _, how := range []string{"--background", "--keep"} {
			r := p.mneme(0, "mount", "notes", "--at", p.path(at), how)
			if r.code != 5 || !strings.Contains(r.stderr, want) || !strings.Contains(r.stderr, "mount as that user") {
				t.Errorf("mounting at %s with %s: %v\nwant exit code 5 and %q", at, how, r, want)
			}
		}
	}
	if left := harness.MountsBelow(p.dir); left != nil {
		t.Errorf("mounted are %v", left)
	}
	if found := p.sh(0, "find victim all agent/own -mindepth 1"); found != "victim/empty\n" {
		t.Errorf("there is\n%s", found)
	}
}

// A path that only root can change may be a link, and a mount point may be the agent's.
func TestMountPointOfRoot(t *testing.T) {
	p := newPlace(t)
	p.must("store", "create", "notes")
	p.mkdir("srv", 0, 0o755)
	p.mkdir("srv/agent", agent, 0o700)
	p.mkdir("tmp", 0, 0o777|os.ModeSticky)
	p.sh(0, "ln -s srv link; ln -s ../srv/agent srv/link")
	for at, want := range map[string]string{
		"link/agent": "srv/agent", "srv/link": "srv/agent", "link/new/newer": "srv/new/newer", "tmp/new": "tmp/new",
	} {
		p.must("mount", "notes", "--at", p.path(at), "--background", "--owner", "3001")
		p.sh(agent, "echo "+filepath.Base(at)+" > "+want+"/notes/f")
		if got := harness.MountsBelow(p.dir); len(got) != 1 || got[0] != p.path(want) {
			t.Errorf("mounted at %s: %v, want %s", at, got, want)
		}
		if r := p.mneme(0, "unmount", "--at", p.path(at+"/notes")); r.code != 3 { // only part of a mount
			t.Errorf("unmount --at %s/notes: %v", at, r)
		}
		p.must("unmount", "--at", p.path(at))
		if got := harness.MountsBelow(p.dir); got != nil {
			t.Errorf("after unmount --at %s there is %v", at, got)
		}
	}
}

// `mneme unmount` of root's does not follow another user's links to a mount.
func TestUnmountFollowsNobody(t *testing.T) {
	p := newPlace(t)
	p.must("store", "create", "notes")
	p.mkdir("agent", agent, 0o755)
	dir, _ := p.mount("srv/m", "notes")
	p.sh(agent, "ln -s ../srv agent/srv; ln -s ../srv/m agent/m")
	for _, at := range []string{"agent/srv/m", "agent/m"} {
		for _, args := range [][]string{{"unmount"}, {"unmount", "--lazy"}, {"mount", "--replace"}} {
			r := p.mneme(0, append(args, "--at", p.path(at))...)
			if r.code != 5 || !strings.Contains(r.stderr, "agent belongs to user 3001") {
				t.Errorf("%v --at %s: %v", args, at, r)
			}
		}
	}
	bound := p.mkdir("bound", 0, 0o755)
	p.sh(0, `mount --bind srv/m/notes bound`)
	if r := p.mneme(0, "unmount", "--at", bound); r.code != 3 {
		t.Errorf("unmount of a part that is bound elsewhere: %v", r)
	}
	p.sh(0, `umount bound`)
	if got := harness.MountsBelow(p.dir); len(got) != 1 || got[0] != dir {
		t.Errorf("mounted are %v, want %s", got, dir)
	}
}
