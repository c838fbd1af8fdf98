package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"time"

	"mneme/fusefs"
	"mneme/internal/durable"
	"mneme/internal/safepath"
	"mneme/internal/xdg"
)

// leftFile is a file that was not committed when its mount ended.
type leftFile struct {
	Store     string `json:"store"`
	Path      string `json:"path"`
	SessionID string `json:"session_id"`
	Conflict  int    `json:"conflict,omitempty"` // which keeps it; 0: it has become a memory
}

func newLeft(left []fusefs.Left) (files []leftFile) {
	for _, l := range left {
		files = append(files, leftFile{Store: l.Store, Path: l.Path, SessionID: l.Session, Conflict: l.Conflict})
	}
	return files
}

// printLeft tells the person where files are that were not committed.
func (a *app) printLeft(files []leftFile) {
	const enough = 5 // of one store
	named := map[string]int{}
	for _, f := range files {
		place := printable(f.Store + ":" + f.Path)
		if f.Conflict == 0 {
			a.printf("Brought back from session %s, whose mount was killed: %s\n", printable(f.SessionID), place)
			continue
		}
		if named[f.Store]++; named[f.Store] > enough {
			continue
		}
		a.printf("Not in the history, but kept: %s of session %s; `%s conflicts show %s %d`\n",
			place, printable(f.SessionID), a.command(), shellWord(f.Store), f.Conflict)
	}
	for _, store := range slices.Sorted(maps.Keys(named)) {
		if n := named[store]; n > enough {
			a.printf("%d more are kept: `%s conflicts list %s`\n", n-enough, a.command(), shellWord(store))
		}
	}
}

// The daemon notes what it has kept when it ends, for the `mneme unmount` that made
// it end, if that is the same user's. Nobody else reads notes; they are removed after
// noteLife.
const (
	notePrefix = "kept-"
	noteLife   = time.Hour
)

// noteDir is where notes are.
func noteDir() (*safepath.Root, error) {
	state, err := xdg.State()
	return safepath.NewRoot(state), err
}

func noteName(pid int) string { return notePrefix + strconv.Itoa(pid) }

// writeNote notes what a mount has kept that is named after a process.
func writeNote(pid int, kept []leftFile) error {
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

// readNote returns what a daemon has kept that has ended since.
func readNote(pid int, since time.Time) (kept []leftFile, err error) {
	dir, err := noteDir()
	if err != nil {
		return nil, err
	}
	root, err := dir.Open()
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, safepath.ErrUntrusted) { // nor has the daemon written there
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
