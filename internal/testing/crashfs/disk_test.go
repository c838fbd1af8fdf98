package crashfs

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Each case is a journal and what must be left of it under none/none, all/all,
// no data/all names and all data/no names.
func TestImage(t *testing.T) {
	const file, dir, other = 10, 20, 11
	create := Op{Kind: Create, Inode: file, Dir: Root, Name: "f"}
	write := Op{Kind: Write, Inode: file, Data: []byte("text")}
	sync := Op{Kind: Fsync, Inode: file}
	syncRoot := Op{Kind: FsyncDir, Inode: Root}
	mkdir := Op{Kind: Mkdir, Inode: dir, Dir: Root, Name: "d"}
	inDir := Op{Kind: Rename, Dir: Root, Name: "f", ToDir: dir, ToName: "g"}
	for _, test := range []struct {
		name    string
		journal []Op
		want    [4]string // "f=text d/"
	}{
		{"nothing", nil, [4]string{}},
		{"written", []Op{create, write}, [4]string{"", "f=text", "f=", ""}},
		{"data synced", []Op{create, write, sync}, [4]string{"", "f=text", "f=text", ""}},
		{"name synced", []Op{create, write, syncRoot}, [4]string{"f=", "f=text", "f=", "f=text"}},
		{"both synced", []Op{create, write, sync, syncRoot}, [4]string{"f=text", "f=text", "f=text", "f=text"}},
		{
			"overwritten", []Op{create, write, sync, syncRoot, {Kind: Write, Inode: file, Offset: 3, Data: []byte("ts")}},
			[4]string{"f=text", "f=texts", "f=text", "f=texts"},
		},
		{
			"cut", []Op{create, write, sync, syncRoot, {Kind: Truncate, Inode: file, Size: 1}},
			[4]string{"f=text", "f=t", "f=text", "f=t"},
		},
		{
			"removed", []Op{create, write, sync, syncRoot, {Kind: Unlink, Dir: Root, Name: "f"}},
			[4]string{"f=text", "", "", "f=text"},
		},
		{
			"another in its place", []Op{
				create, write, sync, syncRoot, {Kind: Unlink, Dir: Root, Name: "f"},
				{Kind: Create, Inode: other, Dir: Root, Name: "f"}, {Kind: Write, Inode: other, Data: []byte("new")},
			},
			[4]string{"f=text", "f=new", "f=", "f=text"},
		},
		{"renamed into a directory that is synced", []Op{create, write, sync, mkdir, inDir, {Kind: FsyncDir, Inode: dir}},
			[4]string{"d/ d/g=text", "d/ d/g=text", "d/ d/g=text", "d/ d/g=text"}},
		{"the directory's own name is not synced", []Op{mkdir, {Kind: Create, Inode: file, Dir: dir, Name: "g"}, {Kind: FsyncDir, Inode: dir}},
			[4]string{"", "d/ d/g=", "d/ d/g=", ""}},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := NewDisk()
			for _, op := range test.journal {
				d.Do(op)
			}
			for i, keep := range []Keep{{None, None}, {All, All}, {None, All}, {All, None}} {
				if diff := cmp.Diff(test.want[i], text(d.Image(keep, 1))); diff != "" {
					t.Errorf("%v (-want +got):\n%s", keep, diff)
				}
			}
		})
	}
}

func text(i Image) string {
	var all []string
	for _, name := range i.Names() {
		if !strings.HasSuffix(name, "/") {
			name += "=" + string(i[name])
		}
		all = append(all, name)
	}
	return strings.Join(all, " ")
}

// TestHalf: blocks are lost one by one, names from the end.
func TestHalf(t *testing.T) {
	d := NewDisk()
	d.Do(Op{Kind: Create, Inode: 10, Dir: Root, Name: "a"})
	d.Do(Op{Kind: Create, Inode: 11, Dir: Root, Name: "b"})
	d.Do(Op{Kind: Write, Inode: 10, Data: []byte(strings.Repeat("x", 3*block))})
	contents := map[string]bool{}
	for seed := range uint64(100) {
		image := d.Image(Keep{Half, Half}, seed)
		if names := image.Names(); !cmp.Equal(names, []string{"a"}) {
			t.Fatalf("left are %q, want the name made first", names)
		}
		contents[string(image["a"])] = true
	}
	if len(contents) != 8 { // three blocks, each there or not
		t.Errorf("%d contents, want 8", len(contents))
	}
	for content := range contents {
		if strings.Trim(content, "x\x00") != "" {
			t.Errorf("content %q", content)
		}
	}
	one, two := d.Image(Keep{Half, Half}, 5), d.Image(Keep{Half, Half}, 5)
	if one.Sum() != two.Sum() || !maps.EqualFunc(one, two, func(a, b []byte) bool { return string(a) == string(b) }) {
		t.Error("one seed gives two images")
	}
}
