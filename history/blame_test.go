package history_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"mneme/cas"
	"mneme/cas/memcas"
	"mneme/history"
	"mneme/internal/testing/memtest"
	"mneme/memory"
	"mneme/versionlog"
	"mneme/versionlog/memlog"
)

// blame returns the sequence numbers of the versions that brought the lines of the memory
// at a path; "?" follows a number that is unsure.
func (f *fixture) blame(path string) string {
	f.T.Helper()
	v, err := f.Head(f.T.Context(), path)
	if err != nil {
		f.T.Fatal(err)
	}
	return f.blameOf(v)
}

func (f *fixture) blameOf(v versionlog.Version) string {
	f.T.Helper()
	b, err := history.Blame(f.T.Context(), f.Store, v, nil)
	if err != nil {
		f.T.Fatal(err)
	}
	var by []string
	var text strings.Builder
	for _, line := range b.Lines {
		text.WriteString(line.Text)
		unsure := ""
		if line.Unsure {
			unsure = "?"
		}
		by = append(by, fmt.Sprint(line.By.Seq, unsure))
	}
	if data, err := f.Content(f.T.Context(), v); err != nil || text.String() != string(data) {
		f.T.Errorf("the lines are %q, %v; want %q", text.String(), err, data)
	}
	return strings.Join(by, " ")
}

func (f *fixture) wantBlame(path, want string) {
	f.T.Helper()
	if got := f.blame(path); got != want {
		f.T.Errorf("the lines of %s are of %s, want %s", path, got, want)
	}
}

func TestBlame(t *testing.T) {
	any := versionlog.ExpectAny()
	for _, test := range []struct {
		name string
		do   func(f *fixture)
		want string // of /f
	}{
		{"first version", func(f *fixture) { f.Put("/f", "a\nb\n", any) }, "1 1"},
		{"empty", func(f *fixture) { f.Put("/f", "a\n", any); f.Put("/f", "", any) }, ""},
		{"no newline at the end", func(f *fixture) { f.Put("/f", "a\nb", any); f.Put("/f", "a\nb\nc", any) }, "1 2 2"},
		{"CRLF", func(f *fixture) { f.Put("/f", "a\r\nb\r\n", any); f.Put("/f", "a\nb\r\n", any) }, "2 1"},
		{"each line by another", func(f *fixture) {
			f.Put("/f", "a\nb\nc\n", any)
			f.Put("/f", "a\nB\nc\n", any)
			f.Put("/f", "x\na\nB\nc\n", any)
		}, "3 1 2 1"},
		{"through a rename", func(f *fixture) {
			f.Put("/e", "a\nb\n", any)
			f.Move("/e", "/f")
			f.Put("/f", "a\nB\n", any)
		}, "1 3"},
		{"back from the dead", func(f *fixture) {
			v := f.Put("/f", "a\nb\n", any)
			f.Delete("/f")
			change, err := history.Restoring(f.T.Context(), f.Store, "/f", v)
			if err == nil {
				_, err = f.Batch(f.T.Context(), []memory.Change{change}, nil)
			}
			if err != nil {
				f.T.Fatal(err)
			}
			f.Put("/f", "a\nb\nc\n", any)
		}, "1 1 4"},
		{"another memory in place of a deleted one", func(f *fixture) {
			f.Put("/f", "a\n", any)
			f.Delete("/f")
			f.Put("/f", "a\n", any)
		}, "3"},
		{"saved by renaming the old one away", func(f *fixture) {
			f.Put("/f", "a\nb\n", any)
			f.Move("/f", "/f~")
			f.Put("/f", "a\nB\n", any)
			f.Delete("/f~")
			f.Move("/f", "/f~")
			f.Put("/f", "x\na\nB\n", any)
		}, "6 1 3"},
		{"saved under another name that is renamed", func(f *fixture) {
			f.Put("/f", "a\nb\n", any)
			f.Put("/f.new", "a\nB\n", any)
			f.Move("/f", "/f~")
			f.Move("/f.new", "/f")
		}, "1 4"},
		{"one that had a life of its own takes a name", func(f *fixture) {
			f.Put("/f", "a\nb\n", any)
			f.Put("/e", "a\n", any)
			f.Put("/e", "a\nb\n", any)
			f.Move("/f", "/g")
			f.Move("/e", "/f")
		}, "2 3"},
		{"binary before", func(f *fixture) {
			f.Put("/f", "\x00\xff\na\n", any)
			f.Put("/f", "b\na\n", any)
		}, "2 1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFixture(t, &memory.StoreOptions{Content: versionlog.ContentAny})
			test.do(f)
			f.wantBlame("/f", test.want)
		})
	}
}

func TestBlameAtEarlierVersion(t *testing.T) {
	f := newFixture(t, nil)
	f.Put("/f", "a\n", versionlog.ExpectAny())
	second := f.Put("/f", "a\nb\n", versionlog.ExpectAny())
	f.Put("/f", "x\n", versionlog.ExpectAny())
	if got := f.blameOf(second); got != "1 2" {
		t.Errorf("its lines are of %s", got)
	}
}

func TestBlameRefuses(t *testing.T) {
	f := newFixture(t, &memory.StoreOptions{Content: versionlog.ContentAny})
	binary := f.Put("/f", "a\x00", versionlog.ExpectAny())
	gone, err := f.Remove(t.Context(), "/f", versionlog.ExpectAny())
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []versionlog.Version{binary, gone} {
		if _, err := history.Blame(t.Context(), f.Store, v, nil); !errors.Is(err, memory.ErrBadVersion) {
			t.Errorf("the blame of a %s version: %v, want ErrBadVersion", v.Op, err)
		}
	}
}

// TestBlameReadsLittle: each content once, and none that is older than the oldest line.
func TestBlameReadsLittle(t *testing.T) {
	blobs := &countedBlobs{Store: memcas.New()}
	lib := memory.NewLibrary(memlog.New(nil), func(string) (cas.Store, error) { return blobs, nil })
	info, err := lib.CreateStore(t.Context(), "notes", nil)
	if err != nil {
		t.Fatal(err)
	}
	st, err := lib.Open(t.Context(), info.ID, memtest.Author)
	if err != nil {
		t.Fatal(err)
	}
	var last versionlog.Version
	for _, text := range []string{"old\n", "older\n", "a\n", "a\nb\n", "a\nb\nc\n"} {
		if last, err = st.Write(t.Context(), "/f", []byte(text), versionlog.ExpectAny()); err != nil {
			t.Fatal(err)
		}
	}
	blobs.gets = 0
	shown := 0
	if _, err := history.Blame(t.Context(), st, last, func(done, total int) { shown = done*10 + total }); err != nil {
		t.Fatal(err)
	}
	if blobs.gets != 4 { // the last one of them says that a is new in the third version
		t.Errorf("%d contents were read", blobs.gets)
	}
	if shown != 33 {
		t.Errorf("the progress ended with %d", shown)
	}
}

type countedBlobs struct {
	cas.Store
	gets int
}

func (b *countedBlobs) Get(ctx context.Context, d cas.Digest) ([]byte, error) {
	b.gets++
	return b.Store.Get(ctx, d)
}

// TestBlameAcrossGaps: lines that a version may have brought which cannot be read are marked.
func TestBlameAcrossGaps(t *testing.T) {
	for _, how := range []string{"redacted", "lost"} {
		t.Run(how, func(t *testing.T) {
			f := &fixture{memtest.NewGappy(t)}
			if how == "redacted" {
				f = &fixture{memtest.NewGappy(t, 2)}
			}
			f.Put("/f", "a\n", versionlog.ExpectAny())
			second := f.Put("/f", "a\nb\n", versionlog.ExpectAny())
			f.Put("/f", "a\nb\nc\n", versionlog.ExpectAny())
			f.Put("/f", "a\nb\nc\nd\n", versionlog.ExpectAny())
			if how == "lost" {
				f.Lose(second)
			}
			f.wantBlame("/f", "1 3? 3? 4")
		})
	}
	f := &fixture{memtest.NewGappy(t, 1)}
	f.Put("/f", "a\n", versionlog.ExpectAny())
	f.Put("/f", "a\nb\n", versionlog.ExpectAny())
	f.wantBlame("/f", "2? 2?") // nothing before it is left
}
