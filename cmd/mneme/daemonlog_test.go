package main

import (
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"mneme/backend"
)

// TestRotatedFile renames the log away, and removes it, while it is written.
func TestRotatedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.log")
	file, err := openDaemonLog(path)
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
	log := slog.New(&journalHandler{w: &out, level: slog.LevelInfo, mu: &sync.Mutex{}}).With("store", "notes")
	log.Debug("not this")
	log.Info("mounted", "dir", "/mnt/a b")
	log.Warn("two\nlines")
	log.Error("failed", "err", "x\u3164y")
	want := "<6>msg=mounted store=notes dir=\"/mnt/a b\"\n<4>msg=\"two\\nlines\" store=notes\n<3>msg=failed store=notes err=x\\u3164y\n"
	if out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

// TestLogAdvises: a log says of an error what a person can do about it.
func TestLogAdvises(t *testing.T) {
	var text, journal strings.Builder
	for _, log := range []*slog.Logger{
		textLogger(&text, slog.LevelInfo), slog.New(&journalHandler{w: &journal, level: slog.LevelInfo, mu: &sync.Mutex{}}),
	} {
		log.Error("failed", "err", fmt.Errorf("append: %w", backend.ErrIndex))
	}
	for _, got := range []string{text.String(), journal.String()} {
		if !strings.Contains(got, "msg=failed") || !strings.Contains(got, "; end all that writes to the store and run `mneme fsck --rebuild-index`") {
			t.Errorf("the log says %q", got)
		}
	}
}

// TestLogLinesAreShown holds that what others named does not get into a log as it is.
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

// TestNotifyService listens as a service manager does.
func TestNotifyService(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	t.Setenv("NOTIFY_SOCKET", path)
	if err := notifyService(serviceReady); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 100)
	n, err := conn.Read(buf)
	if err != nil || string(buf[:n]) != "READY=1" {
		t.Errorf("told %q, %v", buf[:n], err)
	}
	t.Setenv("NOTIFY_SOCKET", path+"-not-there")
	if err := notifyService(serviceReady); err == nil {
		t.Error("nobody listens, and that is no error")
	}
	t.Setenv("NOTIFY_SOCKET", "")
	if err := notifyService(serviceReady); err != nil {
		t.Errorf("without a service manager: %v", err)
	}
}
