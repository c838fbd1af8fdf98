package okf

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"mneme/cas"
	"mneme/cas/memcas"
	"mneme/memory"
	"mneme/versionlog"
	"mneme/versionlog/memlog"
)

// TestAdd: every document of Markdown has front matter with a type, as little as possible is
// changed for it, and no reserved name is taken.
func TestAdd(t *testing.T) {
	const mine = "---\ntype: Memory\ngenerated: { by: \"human:ada\", at: 2026-11-26T10:00:00Z }\n---\n\n"
	for _, test := range []struct{ path, text, name, want string }{
		{"/a.md", "# A\n", "a.md", mine + "# A\n"},
		{"/a.md", "", "a.md", mine},
		{"/a.md", "---\ntype: Metric\ntitle: T\n---\nbody", "a.md", "---\ntype: Metric\ntitle: T\n---\nbody"},
		{"/a.md", "---\ntitle: T\n---\nbody", "a.md", "---\ntype: Memory\ntitle: T\n---\nbody"},
		{"/a.md", "---\ntype: \"\"\n---\nbody", "a.md", mine + "---\ntype: \"\"\n---\nbody"},
		{"/a.md", "---\ntype: [1]\n---\nbody", "a.md", mine + "---\ntype: [1]\n---\nbody"},
		{"/a.md", "---\n{title: T}\n---\nbody", "a.md", mine + "---\n{title: T}\n---\nbody"},
		{"/a.md", "---\na: [\n---\nbody", "a.md", mine + "---\na: [\n---\nbody"},
		{"/a.md", "---\ntype: x\nno end", "a.md", mine + "---\ntype: x\nno end"},
		{"/a.md", "---\n---\nbody", "a.md", mine + "---\n---\nbody"},
		{"/a.md", "---\na: &a [x]\nb: [*a, *a]\n---\nbody", "a.md", mine + "---\na: &a [x]\nb: [*a, *a]\n---\nbody"},
		{"/a.md", "---\ntype: Metric\ntitle: R &D, *all* of it\n---\nbody", "a.md", "---\ntype: Metric\ntitle: R &D, *all* of it\n---\nbody"},
		{"/a.md", "---\ntype: &t Metric\nq: 'a: *b'\n---\nbody", "a.md", "---\ntype: &t Metric\nq: 'a: *b'\n---\nbody"},
		{"/.git/a.md", "---\ntype: x\n---\n", "%2Egit/a.md", "---\ntype: x\n---\n"},
		{"/.github/a.md", "---\ntype: x\n---\n", ".github/a.md", "---\ntype: x\n---\n"},
		{"/a.md", "---\r\ntype: Metric\r\ntitle: T\r\n---\r\nbody", "a.md", "---\r\ntype: Metric\r\ntitle: T\r\n---\r\nbody"},
		{"/a.md", "---\r\ntitle: T\r\n---\r\nbody", "a.md", "---\r\ntype: Memory\r\ntitle: T\r\n---\r\nbody"},
		{"/a.md", "---\r\n{title: T}\r\n---\r\nbody", "a.md", mine + "---\r\n{title: T}\r\n---\r\nbody"},
		{"/a.md", "\ufeff---\ntype: Metric\n---\nbody", "a.md", "\ufeff---\ntype: Metric\n---\nbody"},
		{"/a.md", "\ufeff---\r\ntitle: T\r\n---\r\nbody", "a.md", "\ufeff---\r\ntype: Memory\r\ntitle: T\r\n---\r\nbody"},
		{"/a.md", "\ufeff# A\n", "a.md", mine + "\ufeff# A\n"},
		{"/a.md", "---\ntype: Metric\n---", "a.md", "---\ntype: Metric\n---"},
		{"/a.md", "---\n# of mine\ntitle: T\ntags: [a, b]\n---\nbody", "a.md", "---\ntype: Memory\n# of mine\ntitle: T\ntags: [a, b]\n---\nbody"},
		{"/a.md", "---\n  title: T\n  x: y\n---\nbody", "a.md", "---\n  type: Memory\n  title: T\n  x: y\n---\nbody"},
		{"/a.md", "---\n\n {title: T}\n---\nbody", "a.md", mine + "---\n\n {title: T}\n---\nbody"},
		{"/a.md", "---\n!!map\ntitle: T\n---\nbody", "a.md", mine + "---\n!!map\ntitle: T\n---\nbody"},
		{"/a.md", "---\n- a\n---\nbody", "a.md", mine + "---\n- a\n---\nbody"},
		{"/a.md", "---\ntype: Metric\nsince: 2026-01-01\n---\nbody", "a.md", "---\ntype: Metric\nsince: 2026-01-01\n---\nbody"},
		{"/a.txt", "text", "a.txt", "text"},
		{"/a.md", "\xff", "a.md.bin", "\xff"},
		{"/d/index.md", "# I\n", "d/index.memory.md", mine + "# I\n"},
		{"/log.md", "# L\n", "log-2.memory.md", mine + "# L\n"},
		{"/INDEX.md", "x", "INDEX.md", mine + "x"},
	} {
		b := New("notes", []string{test.path, "/log.memory.md"})
		v := versionlog.Version{Path: test.path, Actor: versionlog.Actor{Kind: versionlog.ActorUser, ID: "ada"}, Time: time.Date(2026, 11, 26, 10, 0, 0, 0, time.UTC)}
		name, data := b.Add(v, []byte(test.text))
		if name != test.name || string(data) != test.want {
			t.Errorf("%s %q is %s %q; want %s %q", test.path, test.text, name, data, test.name, test.want)
		}
		if strings.HasSuffix(name, ".md") {
			wantConcept(t, data)
		}
	}
}

// wantConcept checks what the format wants of a document.
func wantConcept(t *testing.T, data []byte) {
	t.Helper()
	data = append(bytes.ReplaceAll(bytes.TrimPrefix(data, []byte("\ufeff")), []byte("\r\n"), []byte("\n")), '\n')
	rest, begins := bytes.CutPrefix(data, []byte("---\n"))
	matter, _, ends := bytes.Cut(rest, []byte("\n---\n"))
	fields := struct {
		Type string `yaml:"type"`
	}{}
	if err := yaml.Unmarshal(matter, &fields); !begins || !ends || err != nil || fields.Type == "" {
		t.Errorf("%q has no front matter with a type: %v", data, err)
	}
}

// TestRest: indexes and the log list what there is, whatever it is called.
func TestRest(t *testing.T) {
	blobs := memcas.New()
	lib := memory.NewLibrary(memlog.New(&memlog.Options{Now: func() time.Time { return time.Date(2026, 11, 26, 10, 0, 0, 0, time.UTC) }}),
		func(string) (cas.Store, error) { return blobs, nil })
	info, err := lib.CreateStore(t.Context(), "Team [Notes]", nil)
	if err != nil {
		t.Fatal(err)
	}
	st, err := lib.Open(t.Context(), info.ID, memory.SessionAuthor("s<1>"))
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	b := New(info.Name, paths)
	for _, path := range []string{"/a b.md", "/dir/sub/](x).txt"} {
		v, err := st.Write(t.Context(), path, []byte("---\ntype: T\ntitle: The *A*\ndescription: |\n  two\n  lines\n---\n"), versionlog.ExpectAny())
		if err != nil {
			t.Fatal(err)
		}
		b.Add(v, []byte("---\ntype: T\ntitle: The *A*\ndescription: |\n  two\n  lines\n---\n"))
	}
	files, err := b.Rest(t.Context(), st)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"index.md":         "---\nokf_version: \"0.2\"\n---\n\n# Team \\[Notes\\]\n\n* [The \\*A\\*](a%20b.md) - two lines\n* [dir](dir/)\n",
		"dir/index.md":     "# dir\n\n* [sub](sub/)\n",
		"dir/sub/index.md": "# sub\n\n* [\\](x).txt](%5D%28x%29.txt)\n",
		"log.md":           "# Team \\[Notes\\]\n\n## 2026-11-26\n* **Creation**: /dir/sub/\\](x).txt, by session/s\\<1\\>\n* **Creation**: /a b.md, by session/s\\<1\\>\n",
	} {
		if have := string(files[name]); have != want {
			t.Errorf("%s is\n%s; want\n%s", name, have, want)
		}
	}
	if len(files) != 4 {
		t.Errorf("%d files", len(files))
	}
}
