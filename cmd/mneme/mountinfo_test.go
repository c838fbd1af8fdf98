package main

import (
	"slices"
	"strings"
	"testing"
)

func TestParseMounts(t *testing.T) {
	const mountinfo = `21 1 254:0 / / rw,relatime shared:1 - ext4 /dev/root rw
301 21 0:51 / /mnt/memory rw,nosuid,nodev shared:9 - fuse.mneme mneme:4711 rw,user_id=1000,group_id=0
302 21 0:52 / /home/a\040b/c\134d rw - fuse.mneme mneme:12 rw
303 21 0:51 /notes /srv/box/notes rw - fuse.mneme mneme:4711 rw
304 21 0:53 / /other rw - fuse.sshfs mneme:1 rw
305 21 0:54 / /nameless rw - fuse.mneme something rw
`
	got, err := parseMounts(strings.NewReader(mountinfo))
	if err != nil {
		t.Fatal(err)
	}
	want := []mountPoint{
		{"/mnt/memory", "/", 4711, "51", 1000}, {`/home/a b/c\d`, "/", 12, "52", -1},
		{"/srv/box/notes", "/notes", 4711, "51", -1}, {"/nameless", "/", 0, "54", -1},
	}
	if !slices.Equal(got, want) {
		t.Errorf("mounts %v, want %v", got, want)
	}
}
