package daemon

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// TestRotatedFile renames the log away, and removes it, while it is written.
func TestRotatedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.log")
	file, err := openLog(path)
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(&rotatedFile{path: path, file: file}, nil))
	for i, before := range []func() error{
		func() error { return nil },
		func() error { return os.Rename(path, path+".1") },
		func() error { return os.Remove(path) },
	} {
		if err := before(); err != nil {
			t.Fatal(err)
		}
		log.Info("line", "n", i)
		text, err := os.ReadFile(path)
		if err != nil || strings.Count(string(text), "\n") != 1 || !strings.Contains(string(text), "n="+string(rune('0'+i))) {
			t.Errorf("step %d: the log is %q, %v", i, text, err)
		}
	}
}

func TestJournalHandler(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(&journalHandler{w: &out, level: slog.LevelInfo, text: error.Error, mu: &sync.Mutex{}}).With("store", "notes")
	log.Debug("not this")
	log.Info("mounted", "dir", "/mnt/a b")
	log.Warn("two\nlines")
	log.Error("failed", "err", "x\u3164y")
	want := "<6>msg=mounted store=notes dir=\"/mnt/a b\"\n<4>msg=\"two\\nlines\" store=notes\n<3>msg=failed store=notes err=x\\u3164y\n"
	if out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

// TestLogAdvises: a log has the text of an error that it was given, which may add advice.
func TestLogAdvises(t *testing.T) {
	var text, journal strings.Builder
	advise := func(err error) string { return err.Error() + "; look with fsck" }
	for _, log := range []*slog.Logger{
		TextLogger(&text, slog.LevelInfo, advise), slog.New(&journalHandler{w: &journal, level: slog.LevelInfo, text: advise, mu: &sync.Mutex{}}),
	} {
		log.Error("failed", "err", fmt.Errorf("append: %w", errors.New("damaged")))
	}
	for _, got := range []string{text.String(), journal.String()} {
		if !strings.Contains(got, "msg=failed") || !strings.Contains(got, `err="append: damaged; look with fsck"`) {
			t.Errorf("the log says %q", got)
		}
	}
}

// TestLogLinesAreShown: names that others chose are escaped in a log.
func TestLogLinesAreShown(t *testing.T) {
	var out strings.Builder
	drop := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}
	log := slog.New(slog.NewTextHandler(shownLines{&out}, &slog.HandlerOptions{ReplaceAttr: drop}))
	log.Info("x", "path", "/a\u3164b")
	log.Info("x", "path", "/a\nlevel=INFO \u202e\x1b")
	log.Info("x", "path", strings.Repeat("a\u2800", 1<<16))
	lines := strings.Split(out.String(), "\n")
	if len(lines) != 4 || lines[0] != `level=INFO msg=x path=/a\u3164b` || lines[1] != `level=INFO msg=x path="/a\nlevel=INFO \u202e\x1b"` || len(lines[2]) > 1<<15 {
		t.Errorf("got %.500q", lines)
	}
}
