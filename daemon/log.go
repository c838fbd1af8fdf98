package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"mneme/internal/quote"
	"mneme/internal/safepath"
	"mneme/internal/xdg"
)

// logVariable names the file that a daemon in the background logs to.
const logVariable = "MNEME_DAEMON_LOG"

// ErrorText returns the text of an error for a log. It may add advice.
type ErrorText func(error) string

// logPath is the log of the daemon in the background that serves dir.
func logPath(dir string) (string, error) {
	logs, err := xdg.State()
	if err != nil {
		return "", err
	}
	if err := safepath.MkdirAll(logs, 0o700); err != nil {
		return "", fmt.Errorf("log of the daemon: %w; $XDG_STATE_HOME names another place", err)
	}
	return filepath.Join(logs, strings.ReplaceAll(strings.Trim(dir, "/"), "/", "-")+".log"), nil
}

func openLog(path string) (*os.File, error) {
	root, err := safepath.OpenRoot(filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("log of the daemon: %w; $XDG_STATE_HOME names another place", err)
	}
	defer root.Close()
	return safepath.OpenFile(root, filepath.Base(path), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
}

// NewLogger returns the logger of a daemon. If standard error is the journal, it writes
// lines for the journal. Otherwise it writes lines with their time, to the log file of a
// daemon in the background or to standard error.
func NewLogger(level slog.Level, text ErrorText) *slog.Logger {
	if isJournal(os.Stderr) {
		return slog.New(&journalHandler{w: os.Stderr, level: level, text: text, mu: &sync.Mutex{}})
	}
	var w io.Writer = os.Stderr
	if path := os.Getenv(logVariable); path != "" {
		os.Unsetenv(logVariable)
		w = &rotatedFile{path: path, file: os.Stderr}
	}
	return TextLogger(w, level, text)
}

// TextLogger returns a logger of lines with their time.
func TextLogger(w io.Writer, level slog.Level, text ErrorText) *slog.Logger {
	return slog.New(slog.NewTextHandler(shownLines{w}, &slog.HandlerOptions{Level: level, ReplaceAttr: text.replace}))
}

// replace replaces an error that is logged with its text.
func (t ErrorText) replace(_ []string, a slog.Attr) slog.Attr {
	if err, ok := a.Value.Any().(error); ok {
		return slog.String(a.Key, t(err))
	}
	return a
}

// shownLines writes the lines of a logger. They contain names that others chose, so each
// line is bounded in length and has escapes for invisible characters.
type shownLines struct{ w io.Writer }

func (s shownLines) Write(line []byte) (int, error) {
	_, err := s.w.Write(quote.LogLine(line))
	return len(line), err
}

// rotatedFile writes lines to the file that has a name at the time of the line: a program
// that rotates logs may rename the file at any time. Its methods may run concurrently.
type rotatedFile struct {
	path string

	mu   sync.Mutex
	file *os.File
}

func (r *rotatedFile) Write(line []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.current() {
		if file, err := openLog(r.path); err == nil { // else the line goes to the old file
			if r.file != os.Stderr { // which also receives messages of the Go runtime
				_ = r.file.Close()
			}
			r.file = file
		}
	}
	return r.file.Write(line)
}

// current reports whether the open file is the one of that name.
func (r *rotatedFile) current() bool {
	open, err := r.file.Stat()
	named, errNamed := os.Stat(r.path)
	return err == nil && errNamed == nil && os.SameFile(open, named)
}

// journalHandler writes records in the form of sd-daemon(3): the priority first, and no
// time, which the journal adds.
type journalHandler struct {
	w     io.Writer
	level slog.Level
	text  ErrorText
	attrs []slog.Attr

	mu *sync.Mutex // guards writes to w
}

func (h *journalHandler) Enabled(_ context.Context, level slog.Level) bool { return level >= h.level }

func (h *journalHandler) Handle(ctx context.Context, r slog.Record) error {
	var line bytes.Buffer
	text := slog.NewTextHandler(&line, &slog.HandlerOptions{Level: h.level, ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == slog.LevelKey {
			return slog.Attr{}
		}
		return h.text.replace(groups, a)
	}}).WithAttrs(h.attrs)
	err := text.Handle(ctx, r)
	h.mu.Lock()
	defer h.mu.Unlock()
	_, errWrite := fmt.Fprintf(h.w, "<%d>%s", priority(r.Level), quote.LogLine(line.Bytes()))
	return errors.Join(err, errWrite)
}

func (h *journalHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := *h
	with.attrs = append(h.attrs[:len(h.attrs):len(h.attrs)], attrs...)
	return &with
}

// WithGroup implements slog.Handler. mneme does not log in groups.
func (h *journalHandler) WithGroup(string) slog.Handler { return h }

// priority is the priority of syslog(3).
func priority(level slog.Level) int {
	switch {
	case level >= slog.LevelError:
		return 3
	case level >= slog.LevelWarn:
		return 4
	case level >= slog.LevelInfo:
		return 6
	}
	return 7
}
