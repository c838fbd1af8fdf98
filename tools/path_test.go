package tools

import (
	"strings"
	"testing"

	"mneme/errkind"
	"mneme/internal/quote"
)

// TestPaths: what is no path of a memory is refused with the published texts, and what only
// looks odd is taken.
func TestPaths(t *testing.T) {
	long := strings.Repeat("x", 300)
	tests := []struct{ path, want string }{
		{"/memories", "/"}, {"/memories/", "/"}, {"/memories/a", "/a"}, {"/memories/a/", "/a"}, {"/memories/a/b.md", "/a/b.md"},
		{"/memories/100%.md", "/100%.md"}, {"/memories/a%41", "/a%41"}, {"/memories/%", "/%"}, {"/memories/%zz", "/%zz"}, {"/memories/..a", "/..a"},
		{"/memories/a..", "/a.."}, {"/memories/...", "/..."}, {"/memories/%2e%2e%2e", "/%2e%2e%2e"}, {"/memories/ ", "/ "}, {"/memories/e\u0301", "/\u00e9"}, {"/memories/日本", "/日本"},
		{"/memories/memories", "/memories"}, {"/memories/a:b", "/a:b"}, {"/memories/~", "/~"}, {"/memories/$HOME", "/$HOME"}, {"/memories/C:", "/C:"},
		{"", "outside"}, {"memories", "outside"}, {"/", "outside"}, {"/memoriesx", "outside"}, {"/memorie", "outside"}, {"/Memories/a", "outside"}, {"/etc/passwd", "outside"},
		{"//memories/a", "outside"}, {"./memories/a", "outside"}, {" /memories", "outside"}, {"\\memories", "outside"}, {"/%6demories", "outside"}, {"file:///memories/a", "outside"},
		{"/memories\\..\\x", "outside"}, {"/memories%2fa", "outside"}, {"/../memories/a", "outside"},
		{"/memories/..", "escapes"}, {"/memories/../x", "escapes"}, {"/memories/a/../b", "escapes"}, {"/memories/.", "escapes"}, {"/memories/./a", "escapes"}, {"/memories/a/..", "escapes"},
		{"/memories/a\\b", "escapes"}, {"/memories/..\\x", "escapes"}, {"/memories/%2e%2e/x", "escapes"}, {"/memories/%2E%2e/x", "escapes"}, {"/memories/.%2e/x", "escapes"}, {"/memories/%2e", "escapes"},
		{"/memories/%252e%252e/x", "escapes"}, {"/memories/%25252e%25252e", "escapes"}, {"/memories/%2525252e%2525252e", "escapes"}, {"/memories/a%2fb", "escapes"}, {"/memories/a%2Fb", "escapes"},
		{"/memories/..%2f..%2fetc", "escapes"}, {"/memories/a%5cb", "escapes"}, {"/memories/a%255cb", "escapes"}, {"/memories/a%00", "escapes"}, {"/memories/a\x00b", "escapes"}, {"/memories/a\nb", "escapes"},
		{"/memories/a\x7f", "escapes"}, {"/memories/a\u0085b", "escapes"}, {"/memories/a%0a", "escapes"}, {"/memories/%c0%ae%c0%ae/x", "escapes"}, {"/memories/%c0%af", "escapes"},
		{"/memories//a", "refused"}, {"/memories//", "refused"}, {"/memories/a//", "refused"}, {"/memories/a//b", "refused"}, {"/memories/" + long, "refused"}, {"/memories" + strings.Repeat("/a", 21), "refused"},
		{"/memories/\u202ex", "refused"}, {"/memories/a\u200bb", "refused"}, {"/memories/\u2028", "refused"}, {"/memories/.mneme", "refused"}, {"/memories/.mneme/x", "refused"}, {"/memories/" + strings.Repeat(long+"/", 30), "refused"},
	}
	texts := map[string]string{
		"outside": "Path must start with /memories, got: ", "escapes": "would escape /memories directory", "refused": "is refused: ",
	}
	m := newRig(t, nil).Memory
	for _, test := range tests {
		a, e := m.address(t.Context(), test.path)
		part, refused := texts[test.want]
		switch {
		case !refused && (e != nil || a.path != test.want):
			t.Errorf("%q: %+v, %v; want %s", test.path, a, e, test.want)
		case refused && (e == nil || !strings.Contains(e.Error(), part)):
			t.Errorf("%q: %+v, %v; want %q", test.path, a, e, part)
		case refused && (strings.ContainsAny(e.Error(), "\n\x00\u202e\u2028\u0085\x7f") || len(e.Error()) > 7000):
			t.Errorf("%q: the text is %q", test.path, e.Error())
		}
	}
}

// TestOddNames: what has a name that is refused, since another program gave it that, can be
// viewed, changed, moved away and deleted as it is listed. Nothing new gets such a name.
func TestOddNames(t *testing.T) {
	for _, name := range []string{`a\b`, "a%2fb", "%2e%2e", "%00", `x%255c..`} {
		for _, several := range []bool{false, true} {
			o, top := &rigOptions{}, "/memories/"
			if several {
				o.stores, top = []string{"docs", "notes"}, "/memories/docs/"
			}
			r := newRig(t, o)
			path := top + name
			escapes := "Path " + path
			r.fail(escapes+" would escape", "view", "path", path)
			r.fail(escapes+" would escape", "create", "path", path, "file_text", "x")
			r.theirs("/"+name, "one\n")
			if listed := r.do("Here're the files", "view", "path", "/memories"); !strings.Contains(listed.Text, "\t"+path+"\n") && !strings.HasSuffix(listed.Text, "\t"+path) {
				t.Errorf("%s is not in %q", path, listed.Text)
			}
			r.do("Here's the content of "+path, "view", "path", path)
			r.do("The memory file", "str_replace", "path", path, "old_str", "one", "new_str", "two")
			r.do("The file "+path, "insert", "path", path, "insert_line", 0, "insert_text", "x")
			r.holds("/"+name, "x\ntwo\n")
			r.fail("Error: File "+path+" already exists", "create", "path", path, "file_text", "x")
			r.do("Successfully renamed "+path, "rename", "old_path", path, "new_path", top+"even")
			r.fail(escapes+" would escape", "rename", "old_path", top+"even", "new_path", path)
			r.fail(escapes+" would escape", "delete", "path", path)
			r.theirs("/"+name+"/inner", "")
			r.do("File created", "create", "path", path+"/more", "file_text", "x")
			r.fail(escapes+"/"+name+" would escape", "create", "path", path+"/"+name, "file_text", "x")
			r.do("Successfully deleted "+path, "delete", "path", path)
			r.fail(escapes+"/more would escape", "view", "path", path+"/more")
		}
	}
	r := newRig(t, &rigOptions{stores: []string{"docs", "notes"}})
	r.theirs("/a%2fb", "")
	r.fail("Path /memories/a%2fb would escape", "view", "path", "/memories/a%2fb")
}

// TestNamesAsListed: a name of which a listing shows a part as an escape is taken as it stands
// there, and as it is.
func TestNamesAsListed(t *testing.T) {
	r := newRig(t, nil)
	for _, name := range []string{"10.00\u202fAM.md", "日\u3000本", "\ue000", "a\u3000b/c\u202fd"} {
		r.theirs("/"+name, "one\n")
		path := "/memories/" + quote.Text(name)
		if listed := r.do("Here're the files", "view", "path", "/memories"); !strings.Contains(listed.Text+"\n", "\t"+path+"\n") {
			t.Errorf("%s is not in %q", path, listed.Text)
		}
		r.do("Here's the content of "+path, "view", "path", path)
		r.do("Here's the content of "+path, "view", "path", "/memories/"+name)
		r.do("The memory file", "str_replace", "path", path, "old_str", "one", "new_str", "two")
		r.fail("Error: File "+path+" already exists", "create", "path", path, "file_text", "x")
		r.do("Successfully deleted "+path, "delete", "path", path)
		r.fail("Path "+path+" would escape", "view", "path", path)
	}
	r.theirs("/a\u3000", "a space")
	r.theirs(`/a\u3000`, "its escape")
	r.do("Here's the content of /memories/a\\u3000 with line numbers:\n     1\tits escape", "view", "path", `/memories/a\u3000`)
	r.theirs("/a", "plain")
	r.fail("Path", "view", "path", `/memories/\x61`)
	r.fail("Path", "view", "path", `/memories/\u0061`)
}

// TestDeletedStore: of a store that is deleted while it is in use a call says so, and names no
// path as the mistake.
func TestDeletedStore(t *testing.T) {
	r := newRig(t, nil)
	r.theirs("/f", "x")
	r.do("Here's", "view", "path", "/memories/f")
	r.must(r.lib.DeleteStore(t.Context(), r.stores[0].Info().ID))
	for _, fields := range [][]any{
		{"view", "path", "/memories"}, {"view", "path", "/memories/f"}, {"create", "path", "/memories/g", "file_text", "x"},
		{"str_replace", "path", "/memories/f", "old_str", "x"}, {"insert", "path", "/memories/f", "insert_line", 0, "insert_text", "x"},
		{"rename", "old_path", "/memories/f", "new_path", "/memories/g"}, {"delete", "path", "/memories/f"},
	} {
		got := r.fail("Error: The store of /memories", fields[0].(string), fields[1:]...)
		if got.Error.Kind != errkind.NotFound || got.Error.Retry != Never {
			t.Errorf("%v: %+v", fields, got.Error)
		}
	}
}

// TestStores: of several stores each is a directory, and those that are not there are not.
func TestStores(t *testing.T) {
	r := newRig(t, &rigOptions{stores: []string{"docs", "notes"}, ro: []string{"docs"}})
	r.theirs("/a/b/c.md", "12345") // of docs
	r.do("File created successfully at: /memories/notes/x.md", "create", "path", "/memories/notes/x.md", "file_text", "x")
	r.do("Here're the files and directories up to 2 levels deep in /memories, excluding hidden items and node_modules:\n"+
		"6B\t/memories\n5B\t/memories/docs\n5B\t/memories/docs/a\n1B\t/memories/notes\n1B\t/memories/notes/x.md", "view", "path", "/memories")
	r.do("Here're the files and directories up to 2 levels deep in /memories/docs, excluding hidden items and node_modules:\n"+
		"5B\t/memories/docs\n5B\t/memories/docs/a\n5B\t/memories/docs/a/b", "view", "path", "/memories/docs/")
	r.do("Here's the content of /memories/docs/a/b/c.md", "view", "path", "/memories/docs/a/b/c.md")
	r.fail("The path /memories/none does not exist. Please provide a valid path.", "view", "path", "/memories/none")
	r.fail("Error: There is no store at /memories/x.md; the stores are /memories/docs and /memories/notes.", "create", "path", "/memories/x.md", "file_text", "x")
	r.fail("Error: /memories/docs/y is read-only here; nothing was changed.", "create", "path", "/memories/docs/y", "file_text", "x")
	r.fail("Error: /memories/docs/a is read-only here; nothing was changed.", "delete", "path", "/memories/docs/a")
	r.fail("Error: /memories/docs/a/b/c.md is read-only here; nothing was changed.", "str_replace", "path", "/memories/docs/a/b/c.md", "old_str", "1")
	r.fail("Error: /memories/docs/a is read-only here; nothing was changed.", "rename", "old_path", "/memories/docs/a", "new_path", "/memories/docs/b")
	r.fail("Error: /memories/notes/x.md and /memories/docs/x.md are in different stores; create it there and delete it here.",
		"rename", "old_path", "/memories/notes/x.md", "new_path", "/memories/docs/x.md")
	r.fail("Cannot delete the /memories/notes directory itself", "delete", "path", "/memories/notes")
	r.fail("Cannot delete the /memories directory itself", "delete", "path", "/memories")
	r.fail("Cannot rename the /memories/notes directory itself", "rename", "old_path", "/memories/notes", "new_path", "/memories/notes2")
	r.fail("Error: File /memories/notes already exists", "create", "path", "/memories/notes", "file_text", "x")
	r.fail("Error: The path /memories/none/x does not exist", "delete", "path", "/memories/none/x")
	if got := r.Stores(); len(got) != 2 || got[0].Path != "/memories/docs" || !got[0].ReadOnly || got[1].ReadOnly {
		t.Errorf("%+v", got)
	}
}
