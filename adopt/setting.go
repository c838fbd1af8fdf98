package adopt

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"mneme/internal/agentdirs"
	"mneme/internal/durable"
	"mneme/internal/safepath"
)

// Setting is a changed setting of the agent.
type Setting struct {
	File    string         `json:"file"`
	Key     []string       `json:"key"`
	After   string         `json:"after"`
	Before  string         `json:"before,omitempty"`
	Set     bool           `json:"set"`                // it had the value Before
	HadFile bool           `json:"had_file"`           // the file existed
	MadeDir string         `json:"made_dir,omitempty"` // the topmost directory that was made for the file; "": none
	Edit    agentdirs.Edit `json:"edit"`
}

// set changes the setting, unless it was changed since. It calls save before a change, when
// the setting has all that undoing the change needs.
func (s *Setting) set(save func() error, reach func(point string)) error {
	text, err := s.read()
	if err != nil {
		return err
	}
	switch now, set, err := agentdirs.StringAt(text, s.Key); {
	case err != nil:
		return err
	case set != s.Set || now != s.Before: // the agent has another directory now
		return fmt.Errorf("%s in %s was changed while the directory was imported", strings.Join(s.Key, "."), s.File)
	}
	edited, edit, err := agentdirs.SetString(text, s.Key, s.After)
	if err != nil {
		return err
	}
	s.HadFile = text != nil
	s.MadeDir = firstMissing(filepath.Dir(s.File))
	s.Edit = *edit
	if err := save(); err != nil {
		return err
	}
	reach("edited")
	if s.MadeDir != "" {
		if err := safepath.MkdirAll(s.MadeDir, 0o755); err != nil {
			return err
		}
		reach("made for the setting")
	}
	return s.write(edited)
}

// read returns the text of the settings; nil if the file is missing.
func (s *Setting) read() ([]byte, error) {
	text, err := safepath.NewRoot(filepath.Dir(s.File)).ReadFile(filepath.Base(s.File))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return text, err
}

func (s *Setting) write(text []byte) error {
	root, err := safepath.OpenRoot(filepath.Dir(s.File))
	if err != nil {
		return err
	}
	defer root.Close()
	perm := fs.FileMode(0o600)
	if info, err := root.Lstat(filepath.Base(s.File)); err == nil {
		perm = info.Mode().Perm()
	}
	return durable.WriteFile(root, filepath.Base(s.File), text, perm)
}

// unset restores the setting, if it was changed and still has the new value.
func (s *Setting) unset() error {
	if s.Edit.After == "" { // the step was not reached
		return nil
	}
	text, err := s.read()
	if err != nil || text == nil {
		return errors.Join(err, removeMade(filepath.Dir(s.File), s.MadeDir))
	}
	if before, ok := s.Edit.Undo(text); ok {
		return s.restore(before)
	}
	now, set, err := agentdirs.StringAt(text, s.Key)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w; take %s out of it by hand, then again", s.File, err, strings.Join(s.Key, "."))
	case set == s.Set && now == s.Before: // it was not changed, or is restored
		return nil
	case !set || now != s.After:
		return fmt.Errorf("%w: %s says %q in %s, where `mneme use` had put %q; make it what is right, then again", ErrUndoHasWay, strings.Join(s.Key, "."), now, s.File, s.After)
	}
	if s.Set {
		text, _, err = agentdirs.SetString(text, s.Key, s.Before)
	} else {
		text, err = agentdirs.Unset(text, s.Key)
	}
	if err != nil {
		return err
	}
	return s.write(text)
}

// restore restores the text of the settings. An empty text means no file.
func (s *Setting) restore(text []byte) error {
	if len(text) > 0 || s.HadFile {
		return s.write(text)
	}
	root, err := safepath.OpenRoot(filepath.Dir(s.File))
	if err != nil {
		return err
	}
	err = errors.Join(root.Remove(filepath.Base(s.File)), root.Close())
	if err == nil {
		err = removeMade(filepath.Dir(s.File), s.MadeDir)
	}
	return err
}
