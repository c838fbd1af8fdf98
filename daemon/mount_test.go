package daemon

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mneme/internal/mountinfo"
)

func TestParseMounts(t *testing.T) {
	const text = `301 21 0:51 / /mnt/memory rw,nosuid,nodev shared:9 - fuse.mneme mneme:4711 rw,user_id=1000,group_id=0
302 21 0:52 / /home/a\040b/c\134d rw - fuse.mneme mneme:12 rw
303 21 0:51 /notes /srv/box/notes rw - fuse.mneme mneme:4711 rw
304 21 0:53 /notes /flat rw - fuse.mneme mneme:13:flat rw
305 21 0:54 / /nameless rw - fuse.mneme something rw
`
	mounts, err := mountinfo.Parse(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	var got []Mount
	for _, m := range mounts {
		got = append(got, newMount(m))
	}
	want := []Mount{
		{"/mnt/memory", "/", 4711, 1000, 301, "51", false}, {`/home/a b/c\d`, "/", 12, -1, 302, "52", false},
		{"/srv/box/notes", "/notes", 4711, -1, 303, "51", false}, {"/flat", "/notes", 13, -1, 304, "53", true}, {"/nameless", "/", 0, -1, 305, "54", false},
	}
	if !slices.Equal(got, want) {
		t.Errorf("mounts %v, want %v", got, want)
	}
}

// TestStatusOfPart: a store's directory that is bound to another place names its store. A
// directory of a flat mount does not: any user of the store may have written its files.
func TestStatusOfPart(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, ".mneme"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, ".mneme/status"), []byte("store: d\nid: memstore_1\nurl: sqlite:///tmp/theirs\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, flat := range []bool{false, true} {
		m := Mount{Dir: dir, Root: "/d", flat: flat}
		if n := len(m.Statuses(nil)); n != 1 && !flat || n != 0 && flat {
			t.Errorf("flat: %t: %d stores", flat, n)
		}
	}
}
