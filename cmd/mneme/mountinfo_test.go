package main

import (
	"slices"
	"strings"
	"testing"

	"mneme/internal/mountinfo"
)

func TestParseMounts(t *testing.T) {
	const text = `301 21 0:51 / /mnt/memory rw,nosuid,nodev shared:9 - fuse.mneme mneme:4711 rw,user_id=1000,group_id=0
302 21 0:52 / /home/a\040b/c\134d rw - fuse.mneme mneme:12 rw
303 21 0:51 /notes /srv/box/notes rw - fuse.mneme mneme:4711 rw
305 21 0:54 / /nameless rw - fuse.mneme something rw
`
	mounts, err := mountinfo.Parse(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	var got []mountPoint
	for _, m := range mounts {
		got = append(got, newMountPoint(m))
	}
	want := []mountPoint{
		{301, "/mnt/memory", "/", 4711, "51", 1000}, {302, `/home/a b/c\d`, "/", 12, "52", -1},
		{303, "/srv/box/notes", "/notes", 4711, "51", -1}, {305, "/nameless", "/", 0, "54", -1},
	}
	if !slices.Equal(got, want) {
		t.Errorf("mounts %v, want %v", got, want)
	}
}
