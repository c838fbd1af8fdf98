// Package gitstream writes the history of a store as the input of git fast-import: one
// commit of git for each commit of the store.
package gitstream

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"mneme/cas"
	"mneme/internal/quote"
	"mneme/memory"
	"mneme/versionlog"
)

// Options adjust Write; nil is the default.
type Options struct {
	// Branch is the branch to make. Default: main.
	Branch string
	// KeepGoing leaves out memories whose contents the store has lost, and says so in
	// the messages. Default: the first one ends Write.
	KeepGoing bool
	// Lost is called with a version of each content that is left out. Default: no call.
	Lost func(versionlog.Version)
	// Progress is called now and then with the number of commits written. Default: no calls.
	Progress func(step string, done, total int)
}

// Write writes the history of a store up to its newest commit as of the call, or to that of
// memory.Library.OpenAt. The same history gives the same bytes, and so the same commits of
// git. Git refuses a stream that is cut off, as after an error: it requires the last line.
//
// Paths are those of memories; names that git does not take, or gives a meaning of its own,
// are written with escapes, see Name. Empty directories are left out. Redacted contents are
// left out, and so are their paths.
//
// Errors: versionlog.ErrCorrupt, cas.ErrNotFound and cas.ErrCorrupt of a content that is
// lost, and those of the media and of w.
func Write(ctx context.Context, st *memory.Store, w io.Writer, opts *Options) error {
	s := stream{st: st, out: bufio.NewWriterSize(w, 1<<20), marks: map[cas.Digest]int{}, at: map[string]string{}}
	if opts != nil {
		s.opts = *opts
	}
	if s.opts.Branch == "" {
		s.opts.Branch = "main"
	}
	if err := s.write(ctx); err != nil {
		return fmt.Errorf("write the history of store %s for git: %w", st.Info().Slug, err)
	}
	return nil
}

// stream is one run of Write.
type stream struct {
	st    *memory.Store
	opts  Options
	out   *bufio.Writer
	marks map[cas.Digest]int // of contents that are written; 0: lost
	at    map[string]string  // paths of live memories by their ids
}

func (s *stream) write(ctx context.Context) error {
	tip, err := s.st.Tip(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(s.out, "feature done\nreset refs/heads/%s\n\n", s.opts.Branch)
	seq := uint64(0)
	for c, err := range s.st.Commits(ctx, 0) {
		if err != nil {
			return err
		}
		if c.Seq > tip.Seq {
			break
		}
		if err := s.commit(ctx, c); err != nil {
			return err
		}
		if seq = c.Seq; s.opts.Progress != nil {
			s.opts.Progress("commits", int(seq), int(tip.Seq))
		}
	}
	if seq != tip.Seq {
		return fmt.Errorf("%w: there is no record of commit %d", versionlog.ErrCorrupt, seq+1)
	}
	fmt.Fprint(s.out, "done\n")
	return s.out.Flush()
}

// commit writes a commit, behind the contents that it is the first to have.
func (s *stream) commit(ctx context.Context, c *versionlog.Commit) error {
	var lost []string
	for _, v := range c.Versions {
		there, err := s.content(ctx, v)
		if err != nil {
			return err
		}
		if !there {
			lost = append(lost, v.Path)
		}
	}
	message := messageOf(c, lost)
	by := identity(c.Actor, s.st.Info().Slug)
	at := max(c.Time.Unix(), 0) // git has no time before 1970
	fmt.Fprintf(s.out, "commit refs/heads/%s\nauthor %s %d +0000\ncommitter %s %d +0000\ndata %d\n%s\n", s.opts.Branch, by, at, by, at, len(message), message)
	s.changes(c)
	fmt.Fprint(s.out, "\n")
	return nil
}

// content writes the content of a version, once, and reports whether there is one.
func (s *stream) content(ctx context.Context, v versionlog.Version) (bool, error) {
	if v.Redacted() || v.Digest.IsZero() {
		return true, nil
	}
	if mark, known := s.marks[v.Digest]; known {
		return mark != 0, nil
	}
	data, err := s.st.Content(ctx, v)
	if s.opts.KeepGoing && (errors.Is(err, cas.ErrNotFound) || errors.Is(err, cas.ErrCorrupt)) {
		if s.marks[v.Digest] = 0; s.opts.Lost != nil {
			s.opts.Lost(v)
		}
		return false, nil
	}
	if err != nil {
		return false, err
	}
	s.marks[v.Digest] = len(s.marks) + 1
	fmt.Fprintf(s.out, "blob\nmark :%d\ndata %d\n", s.marks[v.Digest], len(data))
	_, _ = s.out.Write(data) // its error comes with the next flush
	fmt.Fprint(s.out, "\n")
	return true, nil
}

// changes writes what a commit does to the tree: first what goes, then what comes.
func (s *stream) changes(c *versionlog.Commit) {
	for _, v := range c.Versions {
		if before, known := s.at[v.MemoryID]; known && (v.Redacted() || !v.Live() || v.Op == versionlog.OpRenamed) {
			fmt.Fprintf(s.out, "D %s\n", quote.Git(quote.GitPath(before)))
			delete(s.at, v.MemoryID)
		}
	}
	for _, v := range c.Versions {
		switch {
		case v.Redacted() || !v.Live() || v.IsDir():
		case s.marks[v.Digest] == 0:
			fmt.Fprintf(s.out, "D %s\n", quote.Git(quote.GitPath(v.Path)))
			delete(s.at, v.MemoryID)
		default:
			fmt.Fprintf(s.out, "M 100644 :%d %s\n", s.marks[v.Digest], quote.Git(quote.GitPath(v.Path)))
			s.at[v.MemoryID] = v.Path
		}
	}
}

// messageOf is the message of a commit of git: what its author said, or what it does, and
// then what the store knows of it.
func messageOf(c *versionlog.Commit, lost []string) string {
	var b strings.Builder
	subject := c.Message
	if subject == "" {
		subject = subjectOf(c)
	}
	b.WriteString(strings.TrimRight(strings.ReplaceAll(subject, "\x00", "\ufffd"), "\n"))
	b.WriteString("\n\n")
	line := func(name, value string) { fmt.Fprintf(&b, "Mneme-%s: %s\n", name, value) }
	line("Seq", fmt.Sprint(c.Seq))
	line("Digest", c.Digest.String())
	line("Time", c.Time.UTC().Format(time.RFC3339Nano))
	line("Actor", quote.Cell(c.Actor.String()))
	if c.Session != "" {
		line("Session", quote.Cell(c.Session))
	}
	if c.Event != nil {
		line("Event", quote.Cell(string(c.Event.Kind)))
	}
	for i := range c.Versions {
		if i == maxOperations {
			line("Operations", fmt.Sprintf("%d more", len(c.Versions)-i))
			break
		}
		line("Operation", operation(&c.Versions[i]))
	}
	for _, path := range lost {
		line("Lost", quote.Name(path))
	}
	return b.String()
}

// maxOperations is how many operations of one commit a message lists.
const maxOperations = 100

func subjectOf(c *versionlog.Commit) string {
	switch {
	case c.Event != nil:
		return "store " + quote.Cell(string(c.Event.Kind))
	case len(c.Versions) == 1:
		return operation(&c.Versions[0])
	}
	return fmt.Sprintf("%d changes", len(c.Versions))
}

func operation(v *versionlog.Version) string {
	switch {
	case v.Redacted():
		return string(v.Op) + " (redacted)"
	case v.Op == versionlog.OpRenamed:
		return fmt.Sprintf("%s %s -> %s", v.Op, quote.Name(v.From), quote.Name(v.Path))
	}
	return fmt.Sprintf("%s %s", v.Op, quote.Name(v.Path))
}

// identity is an actor as git has authors: a name, and an address with its kind and the
// store.
func identity(a versionlog.Actor, slug string) string {
	id := strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || strings.ContainsRune("<>", r) {
			return '?'
		}
		return r
	}, a.ID)
	name := strings.Trim(id, " .,:;\"'\\") // of which git wants none at the ends
	if name == "" {
		name = "unknown"
	}
	local := strings.Map(func(r rune) rune {
		if r == ' ' || r == '@' {
			return '-'
		}
		return r
	}, name)
	kind := strings.ReplaceAll(string(a.Kind), "_", "-")
	return fmt.Sprintf("%s <%s@%s.%s.mneme.invalid>", name, local, kind, slug)
}
