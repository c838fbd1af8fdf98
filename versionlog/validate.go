package versionlog

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Validate returns ErrInvalid or ErrTooLarge where a proposal can be told to become no
// commit, whatever the store.
func (p *Proposal) Validate() error {
	if p.Key == "" || len(p.Key) > 128 {
		return fmt.Errorf("%w: the key has %d bytes, want 1 to 128", ErrInvalid, len(p.Key))
	}
	if erased := p.Finished != nil && p.Finished.HasRedacted(); (len(p.Changes) == 0) == (p.Event == nil) && !erased {
		return fmt.Errorf("%w: %d changes; want some, or an event", ErrInvalid, len(p.Changes))
	}
	if len(p.Changes) > MaxChanges {
		return fmt.Errorf("%d changes, at most %d: %w", len(p.Changes), MaxChanges, ErrTooLarge)
	}
	if p.Finished != nil {
		if err := p.Finished.checkRecord(); err != nil {
			return fmt.Errorf("%w: %w", ErrInvalid, err)
		}
		if p.Finished.Key != p.Key || !p.Event.equal(p.Finished.Event) {
			return fmt.Errorf("%w: the finished commit is one of another proposal", ErrInvalid)
		}
	}
	for _, text := range []string{p.Key, string(p.Actor.Kind), p.Actor.ID, p.Session, p.Message} {
		if !utf8.ValidString(text) {
			return fmt.Errorf("%w: %.100q is not UTF-8", ErrInvalid, text)
		}
	}
	if err := CheckMeta(p.Meta); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if p.Event != nil {
		return p.Event.check()
	}
	seen := make(map[string]bool, len(p.Changes))
	for _, c := range p.Changes {
		if err := c.validate(); err != nil {
			return err
		}
		for _, path := range c.paths() {
			if seen[path] {
				return fmt.Errorf("%w: %s stands in two changes", ErrInvalid, path)
			}
			seen[path] = true
		}
	}
	return nil
}

// How many bytes the texts of a commit may have that package memory lets in: everyone who reads
// the history reads them as a whole. A log keeps longer ones, too, as far as it can.
const (
	MaxMessage = 16 << 10
	MaxName    = 256      // of an actor's id and of a session
	MaxPaths   = 24 << 20 // of all paths and spellings of the changes, as JSON
)

// CheckTexts returns ErrInvalid or ErrTooLarge where the texts of a proposal are too long.
func (p *Proposal) CheckTexts() error {
	switch {
	case len(p.Message) > MaxMessage:
		return fmt.Errorf("%w: the message has %d bytes, at most %d", ErrInvalid, len(p.Message), MaxMessage)
	case len(p.Session) > MaxName:
		return fmt.Errorf("%w: the session's id has %d bytes, at most %d", ErrInvalid, len(p.Session), MaxName)
	case len(p.Actor.ID) > MaxName:
		return fmt.Errorf("%w: the actor's id has %d bytes, at most %d", ErrInvalid, len(p.Actor.ID), MaxName)
	}
	paths := 0
	for i := range p.Changes {
		c := &p.Changes[i]
		paths += lenJSON(c.Path) + lenJSON(c.To) + lenJSON(c.Spelling)
	}
	if paths > MaxPaths {
		return fmt.Errorf("the paths of the changes have %d bytes, at most %d: %w", paths, MaxPaths, ErrTooLarge)
	}
	return nil
}

// lenJSON is how many bytes a text has at most in a record.
func lenJSON(text string) int {
	n := len(text)
	for i := range len(text) {
		if b := text[i]; b < ' ' || strings.IndexByte(`<>&"\`, b) >= 0 {
			n += 5
		}
	}
	return n
}

func (c *Change) paths() []string {
	if c.Action == Rename {
		return []string{c.Path, c.To}
	}
	return []string{c.Path}
}

func (c *Change) validate() error {
	for _, path := range c.paths() {
		if !IsPath(path) {
			return fmt.Errorf("%w: path %q", ErrInvalid, path)
		}
	}
	if !utf8.ValidString(c.Spelling) {
		return fmt.Errorf("%w: the spelling %q is not UTF-8", ErrInvalid, c.Spelling)
	}
	switch {
	case c.Expect.kind == 0:
		return fmt.Errorf("%w: %s: no expectation", ErrInvalid, c.Path)
	case c.Puts() && (c.Digest.IsZero() || c.Size < 0 || isDir(c.Path)):
		return fmt.Errorf("%w: %s: put without content, or to a directory", ErrInvalid, c.Path)
	case c.Content != nil && (!c.Puts() || int64(len(c.Content)) != c.Size):
		return fmt.Errorf("%w: %s: content of %d bytes, want %d", ErrInvalid, c.Path, len(c.Content), c.Size)
	case c.Action == MakeDir && !isDir(c.Path), c.Action == Rename && isDir(c.Path) != isDir(c.To):
		return fmt.Errorf("%w: path %q: the path of a directory ends in a slash, and no other", ErrInvalid, c.Path)
	case c.Action < Put || c.Action > MakeDir:
		return fmt.Errorf("%w: %s: no such action", ErrInvalid, c.Path)
	}
	return nil
}

// IsPath reports whether a log accepts a path, that of a memory or of a directory. Package
// memory has more rules.
func IsPath(path string) bool {
	name := strings.TrimSuffix(path, "/")
	return len(name) >= 2 && name[0] == '/' && name[len(name)-1] != '/' && utf8.ValidString(path)
}
