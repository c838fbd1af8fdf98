package mountinfo

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	const text = `21 1 254:0 / / rw,relatime shared:1 - ext4 /dev/root rw
301 21 0:51 / /home/a\040b/c\134d rw,nosuid shared:9 master:2 - fuse.mneme mneme:4711 rw,user_id=1000,group_id=0
303 21 0:51 /notes /srv/box/notes rw - fuse.mneme mneme:4711 rw
x 21 0:51 / /bad rw - ext4 y rw
304 21 0:51
`
	got, err := Parse(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	want := []Mount{
		{21, "254:0", "/", "/", "ext4", "/dev/root", "rw"},
		{301, "0:51", "/", `/home/a b/c\d`, "fuse.mneme", "mneme:4711", "rw,user_id=1000,group_id=0"},
		{303, "0:51", "/notes", "/srv/box/notes", "fuse.mneme", "mneme:4711", "rw"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("mounts (-want +got):\n%s", diff)
	}
	if user, found := got[1].Option("user_id"); !found || user != "1000" {
		t.Errorf("user_id is %q, %v", user, found)
	}
	if user, found := got[2].Option("user_id"); found {
		t.Errorf("user_id is %q where there is none", user)
	}
}

func TestOf(t *testing.T) {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if m, found, err := Of(f); err != nil || !found || m.Type != "proc" {
		t.Errorf("a file of /proc is in %+v, %v, %v", m, found, err)
	}
}
