// Package agentdirs knows where agents keep their memory: by the places and settings that
// they document, and by the layout found there. It changes nothing.
package agentdirs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Env is where an agent is looked for.
type Env struct {
	Home    string              // of the user
	Getenv  func(string) string // variables of the environment
	Project string              // the directory that the agent works in, absolute and without symbolic links
	ID      string              // of an agent or a project, where its memory is named by one; "": the only one
	System  string              // where the machine's settings are; "" is /etc
}

// Found is the memory of an agent.
type Found struct {
	Agent      string
	WrittenFor string // the version of the agent whose documentation this package follows
	Name       string // what a store for it may be called
	Project    string // whose memory it is; "" for an agent that has one for all
	Dir        string // where it is; it need not exist
	Setting    *Setting
	Binary     bool     // there are files that are not text
	Git        bool     // it is a checkout, whose .git has to lie where its hooks can be executed
	Warn       []string // what the user should know

	accepts func(rel string) bool              // what may be there
	needs   func(there func(string) bool) bool // what has to be there, if anything is
	layout  string                             // both, in words
}

// Setting is a setting that says where the memory is; without one a store has to be mounted at Dir.
type Setting struct {
	File  string
	Key   []string
	Value string // what it says now
	Set   bool   // it does
}

// ErrUnknown says that what is there is not what the agent's documentation describes.
var ErrUnknown = errors.New("not the layout that mneme knows")

// Check holds what is in the directory, files by their paths below it, against the layout:
// ErrUnknown.
func (f *Found) Check(files []string) error {
	if f.accepts == nil || len(files) == 0 {
		return nil
	}
	for _, rel := range files {
		if !f.accepts(rel) {
			return fmt.Errorf("%q in %s: %w of %s %s: %s", rel, f.Dir, ErrUnknown, f.Agent, f.WrittenFor, f.layout)
		}
	}
	there := func(rel string) bool {
		return slices.ContainsFunc(files, func(file string) bool { return file == rel || strings.HasPrefix(file, rel+"/") })
	}
	if f.needs != nil && !f.needs(there) {
		return fmt.Errorf("%s: %w of %s %s: %s", f.Dir, ErrUnknown, f.Agent, f.WrittenFor, f.layout)
	}
	return nil
}

// settingIn reads a setting of a file, which need not be there.
func settingIn(file string, key ...string) (*Setting, error) {
	text, err := readSettings(file)
	if err != nil {
		return nil, err
	}
	s := &Setting{File: file, Key: key}
	if s.Value, s.Set, err = StringAt(text, key); err != nil {
		return s, fmt.Errorf("%s: %w", file, err)
	}
	return s, nil
}

// readSettings reads a file of settings; nil if it is not there. It is an error if it is no
// regular file: a symbolic link would be replaced.
func readSettings(file string) ([]byte, error) {
	info, err := os.Lstat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file (%v): it has to be changed by hand", file, info.Mode().Type())
	}
	return os.ReadFile(file)
}

// expand returns the absolute path that a setting means.
func (e *Env) expand(value string) (string, error) {
	if rest, inHome := strings.CutPrefix(value, "~/"); inHome {
		return filepath.Join(e.Home, rest), nil
	}
	if !filepath.IsAbs(value) {
		return "", fmt.Errorf("the setting %q is no absolute path", value)
	}
	return filepath.Clean(value), nil
}

// orHome returns the directory that a variable names, or one of the home.
func (e *Env) orHome(variable, name string) string {
	if dir := e.Getenv(variable); dir != "" {
		return filepath.Clean(dir)
	}
	return filepath.Join(e.Home, name)
}

// wantUnset makes sure that no variable is set that says where the memory is: a setting would not
// change that.
func (e *Env) wantUnset(variables ...string) error {
	for _, variable := range variables {
		if e.Getenv(variable) != "" {
			return fmt.Errorf("$%s is set, which a setting would not change", variable)
		}
	}
	return nil
}

// top returns the first name of a path.
func top(rel string) string {
	name, _, _ := strings.Cut(rel, "/")
	return name
}
