package gitstream

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"mneme/cas"
	"mneme/cas/memcas"
	"mneme/internal/quote"
	"mneme/internal/testing/skip"
	"mneme/memory"
	"mneme/versionlog"
	"mneme/versionlog/memlog"
)

// repository is one of git, and the store that it is to show.
type repository struct {
	*testing.T
	dir   string
	lib   *memory.Library
	st    *memory.Store
	blobs *memcas.Store
}

func newRepository(t *testing.T, author versionlog.Actor) *repository {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		skip.Because(t, err.Error())
	}
	r := &repository{T: t, dir: filepath.Join(t.TempDir(), "repo"), blobs: memcas.New()}
	r.lib = memory.NewLibrary(memlog.New(nil), func(string) (cas.Store, error) { return r.blobs, nil })
	info, err := r.lib.CreateStore(t.Context(), "notes", &memory.StoreOptions{Content: versionlog.ContentAny, Actor: author})
	r.must(err)
	r.st, err = r.lib.Open(t.Context(), info.ID, &memory.Author{Actor: author, Session: author.ID})
	r.must(err)
	return r
}

func (r *repository) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

func (r *repository) git(stdin []byte, args ...string) (string, error) {
	r.Helper()
	cmd := exec.Command("git", append([]string{"-C", r.dir}, args...)...)
	if args[0] == "init" {
		cmd = exec.Command("git", args...)
	}
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + r.dir, "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C"}
	cmd.Stdin = bytes.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (r *repository) put(path, text, message string) {
	r.Helper()
	_, err := r.st.Batch(r.Context(), []memory.Change{{Action: versionlog.Put, Path: path, Content: []byte(text), Expect: versionlog.ExpectAny()}},
		&memory.CommitOptions{Message: message})
	r.must(err)
}

func (r *repository) batch(changes ...memory.Change) {
	r.Helper()
	for i := range changes {
		changes[i].Expect = versionlog.ExpectAny()
	}
	_, err := r.st.Batch(r.Context(), changes, nil)
	r.must(err)
}

func (r *repository) stream(opts *Options) []byte {
	r.Helper()
	var out bytes.Buffer
	r.must(Write(r.Context(), r.st, &out, opts))
	return out.Bytes()
}

// fetch brings a stream into the repository, which must be sound then.
func (r *repository) fetch(stream []byte) {
	r.Helper()
	for _, args := range [][]string{{"init", "-q", "--bare", "-b", "main", r.dir}, {"fast-import", "--quiet"}, {"fsck", "--strict"}} {
		var in []byte
		if args[0] == "fast-import" {
			in = stream
		}
		if out, err := r.git(in, args...); err != nil {
			r.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
}

// hostile are names that a hostile writer may give a memory.
var hostile = []string{
	"/.git/config", "/.GIT/HEAD", "/a/.git ", "/git~1", "/.gitmodules", "/.gitattributes", "/.gitignore", "/.mailmap", "/.MailMap", "/%2Emailmap", "/d/.mailmap", "/x/.git", "/x/%2Egit", "/x/%252Egit", `/a\.git\b`,
	"/-rf", "/\"quoted\"", `/back\slash`, "/space at end ", "/ünï/çødé", "/:(top)", "/*", "/refs/heads/main", "/done", "/.g\u200dit",
	"/" + strings.Repeat("n", 255) + "/" + strings.Repeat("m", 255),
}

// TestWrite: what git makes of a stream has the store's history as its log, and at every
// commit what the store had then.
func TestWrite(t *testing.T) {
	r := newRepository(t, versionlog.Actor{Kind: versionlog.ActorSession, ID: " <evil>\nauthor a@b. "})
	r.put("/a.md", "one\n", "say one")
	r.put("/dir/b.bin", "\x00\xff binary without an end", "two lines\n\nMneme-Seq: 99\x00")
	r.batch(memory.Change{Action: versionlog.Rename, Path: "/a.md", To: "/dir/c.md"}, memory.Change{Action: versionlog.Put, Path: "/empty", Content: []byte{}})
	r.batch(memory.Change{Action: versionlog.MakeDir, Path: "/nothing/"})
	r.batch(memory.Change{Action: versionlog.Remove, Path: "/dir/b.bin"}, memory.Change{Action: versionlog.Remove, Path: "/dir/c.md"})
	r.put("/dir", "a memory where a directory was", "")
	written := map[string]bool{}
	for _, path := range hostile {
		if _, err := memory.ParsePath(path); err != nil || memory.CheckNew(path) != nil {
			t.Logf("%q is no path: %v", path, err)
			continue
		}
		r.put(path, "of "+path, "")
		if written[quote.GitPath(path)] {
			t.Errorf("%q has the name of another memory, %q", path, quote.GitPath(path))
		}
		written[quote.GitPath(path)] = true
	}
	stream := r.stream(nil)
	if again := r.stream(nil); !bytes.Equal(stream, again) {
		t.Error("the same history is another stream")
	}
	r.fetch(stream)

	tip, err := r.st.Tip(t.Context())
	r.must(err)
	log, err := r.git(nil, "log", "--format=%H%x00%(trailers:key=Mneme-Seq,valueonly,separator=%x2C)%x00%(trailers:key=Mneme-Digest,valueonly)%x00%an%x00%ae", "--reverse", "main")
	r.must(err)
	commits := strings.Split(strings.TrimSpace(strings.ReplaceAll(log, "\n\x00", "\x00")), "\n")
	if uint64(len(commits)) != tip.Seq {
		t.Fatalf("git has %d commits, the store %d", len(commits), tip.Seq)
	}
	for i, line := range commits {
		fields := strings.Split(line, "\x00")
		if fields[1] != fmt.Sprint(i+1) || fields[3] != "evil??author a@b" && fields[3] != "?evil??author a@b" {
			t.Errorf("commit %d: %q", i+1, fields)
		}
		r.wantTree(fields[0], uint64(i+1), i%4 == 2 || i > len(commits)-2)
	}
}

// wantTree compares a commit of git with the store at a point: the names, and if asked for
// the contents.
func (r *repository) wantTree(commit string, seq uint64, contents bool) {
	r.Helper()
	state, err := r.st.At(r.Context(), seq)
	r.must(err)
	list, err := r.git(nil, "ls-tree", "-rz", "--name-only", commit)
	r.must(err)
	names := map[string]bool{}
	for name := range strings.SplitSeq(strings.TrimSuffix(list, "\x00"), "\x00") {
		names[name] = name != ""
	}
	for v, err := range state.Heads(r.Context(), "/", "") {
		r.must(err)
		if v.IsDir() {
			continue
		}
		if !names[quote.GitPath(v.Path)] {
			r.Errorf("commit %d: git has no %s", seq, quote.GitPath(v.Path))
		}
		delete(names, quote.GitPath(v.Path))
		if !contents {
			continue
		}
		want, err := r.st.Content(r.Context(), v)
		r.must(err)
		if have, err := r.git(nil, "show", commit+":"+quote.GitPath(v.Path)); err != nil || have != string(want) {
			r.Errorf("commit %d: %s is %q, %v; want %q", seq, v.Path, have, err, want)
		}
	}
	delete(names, "")
	if len(names) > 0 {
		r.Errorf("commit %d: git has %v besides", seq, names)
	}
}

// TestWriteCutOff: git refuses a stream that has not come to its end.
func TestWriteCutOff(t *testing.T) {
	r := newRepository(t, versionlog.Actor{Kind: versionlog.ActorUser, ID: "ada"})
	r.put("/a.md", "one\n", "")
	stream := r.stream(nil)
	if _, err := r.git(nil, "init", "-q", "--bare", r.dir); err != nil {
		t.Fatal(err)
	}
	if out, err := r.git(bytes.TrimSuffix(stream, []byte("done\n")), "fast-import", "--quiet"); err == nil {
		t.Errorf("git takes it: %s", out)
	}
}

// TestWriteLost: a content that is lost ends the stream, or is left out and named.
func TestWriteLost(t *testing.T) {
	r := newRepository(t, versionlog.Actor{Kind: versionlog.ActorUser, ID: "ada"})
	r.put("/a.md", "one\n", "")
	r.put("/a.md", "two\n", "")
	r.put("/a.md", "three\n", "")
	r.must(r.blobs.Delete(t.Context(), cas.Sum([]byte("two\n"))))
	if err := Write(t.Context(), r.st, &bytes.Buffer{}, nil); err == nil {
		t.Error("no error")
	}
	var lost []string
	r.fetch(r.stream(&Options{KeepGoing: true, Lost: func(v versionlog.Version) { lost = append(lost, v.Path) }}))
	out, err := r.git(nil, "log", "--format=%(trailers:key=Mneme-Lost,valueonly)", "--reverse", "main")
	if err != nil || strings.TrimSpace(out) != `"/a.md"` || len(lost) != 1 {
		t.Errorf("%q, %v; %q", out, err, lost)
	}
	r.wantTree("main", 4, true)
}

// TestMailmap: no memory has git show another author than the one who wrote.
func TestMailmap(t *testing.T) {
	ada := versionlog.Actor{Kind: versionlog.ActorUser, ID: "ada"}
	r := newRepository(t, ada)
	r.put("/.mailmap", "Eve <eve@example.com> <"+strings.Split(identity(ada, "notes"), "<")[1]+"\n", "")
	r.fetch(r.stream(nil))
	if out, err := r.git(nil, "log", "-1"); err != nil || !strings.Contains(out, "Author: ada <") {
		t.Errorf("%v: %s", err, out)
	}
}

// TestIdentity: each actor has an address of his own.
func TestIdentity(t *testing.T) {
	seen := map[string]versionlog.Actor{}
	for _, kind := range []versionlog.ActorKind{versionlog.ActorSession, versionlog.ActorUser, versionlog.ActorAPIKey, versionlog.ActorServiceAccount} {
		for _, id := range []string{"ada", "session.ada"} {
			actor := versionlog.Actor{Kind: kind, ID: id}
			_, address, _ := strings.Cut(identity(actor, "notes"), " <")
			if other, is := seen[address]; is {
				t.Errorf("%v and %v have the address %s", actor, other, address)
			}
			seen[address] = actor
		}
	}
}
