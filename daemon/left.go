package daemon

import (
	"encoding/json"
	"errors"
	"io/fs"
	"strconv"
	"time"

	"mneme/fusefs"
	"mneme/internal/durable"
	"mneme/internal/safepath"
	"mneme/internal/xdg"
)

// LeftFile is a file that was not committed when its mount ended.
type LeftFile struct {
	Store     string `json:"store"`
	Path      string `json:"path"`
	SessionID string `json:"session_id"`
	Conflict  int    `json:"conflict,omitempty"` // the conflict that keeps it; 0: it has become a memory
}

// NewLeft returns the files that a mount reports.
func NewLeft(left []fusefs.Left) (files []LeftFile) {
	for _, l := range left {
		files = append(files, LeftFile{Store: l.Store, Path: l.Path, SessionID: l.Session, Conflict: l.Conflict})
	}
	return files
}

// When a daemon ends, it notes the files that it has kept, for a command of the same user
// that made it end. No other program reads notes. They are removed after noteLife.
const (
	notePrefix = "kept-"
	noteLife   = time.Hour
)

// noteDir is the directory of notes.
func noteDir() (*safepath.Root, error) {
	state, err := xdg.State()
	return safepath.NewRoot(state), err
}

func noteName(pid int) string { return notePrefix + strconv.Itoa(pid) }

// WriteNote notes the files that the mount of a process has kept.
func WriteNote(pid int, kept []LeftFile) error {
	dir, err := noteDir()
	if err != nil || len(kept) == 0 {
		return err
	}
	root, err := dir.Make(0o700)
	if err != nil {
		return err
	}
	old, err := fs.Glob(root.FS(), notePrefix+"*")
	for _, o := range old {
		if info, err := root.Lstat(o); err == nil && time.Since(info.ModTime()) > noteLife {
			_ = root.Remove(o)
		}
	}
	text, errText := json.Marshal(kept)
	if err := errors.Join(err, errText); err != nil {
		return err
	}
	return durable.WriteFile(root, noteName(pid), text, 0o600)
}

// ReadNote returns the files that a daemon has kept, if the daemon has ended since.
func ReadNote(pid int, since time.Time) (kept []LeftFile, err error) {
	dir, err := noteDir()
	if err != nil {
		return nil, err
	}
	root, err := dir.Open()
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, safepath.ErrUntrusted) { // then the daemon has not written there either
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	name := noteName(pid)
	info, err := root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.ModTime().Before(since) {
		return nil, nil
	}
	text, err := root.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return kept, errors.Join(json.Unmarshal(text, &kept), root.Remove(name))
}
