package fusefs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"mneme/fusefs/virtual"
	"mneme/internal/quote"
	"mneme/memory"
	"mneme/pack"
	"mneme/versionlog"
)

// told is what .mneme tells of a store (virtual.Store).
type told struct{ *store }

func (t told) README() []byte { return t.readmeText() }
func (t told) Note() []byte   { return t.noteText() }
func (t told) Status() []byte { return t.statusText() }
func (t told) Errors() []byte { return t.errors.Lines() }

// Memory is the store itself.
func (t told) Memory() *memory.Store { return t.memory }

// Event writes a commit as the options say, or else its number.
func (t told) Event(c *versionlog.Commit) ([]byte, error) {
	if t.fs.opts.Event != nil {
		return t.fs.opts.Event(c)
	}
	return fmt.Appendf(nil, "%d\n", c.Seq), nil
}

// packPatience bounds how long a pack may take, for which a program waits.
const packPatience = 30 * time.Second

// Pack renders a pack of the store.
func (t told) Pack(ctx context.Context, ask virtual.PackRequest) ([]byte, uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, packPatience)
	defer cancel()
	p, err := pack.Render(ctx, t.memory, ask.MaxBytes, &pack.Options{Seq: ask.Seq, Since: ask.Since})
	if errors.Is(err, pack.ErrOptions) || errors.Is(err, versionlog.ErrNotFound) {
		return nil, 0, &virtual.MissingError{Err: err}
	}
	return p.Text, p.Seq, err
}

// Pin pins the commit as of which packs show the store.
func (t told) Pin(seq uint64) uint64 {
	t.pinned.CompareAndSwap(0, seq)
	return t.pinned.Load()
}

// Conflicts are shown where the store can be written.
func (t told) Conflicts() virtual.Conflicts {
	if t.kept == nil || t.readOnly() {
		return nil
	}
	return shownConflicts{t.kept, t.store}
}

// statusText is the content of .mneme/status: "key: value" lines.
func (s *store) statusText() []byte {
	info := s.memory.Info()
	access := "read-write"
	if s.readOnly() {
		access = "read-only"
	}
	s.fs.mu.RLock()
	tally := s.tree.CountsLocked()
	applied, blind, state := s.tree.AppliedLocked(), s.session.Blind(), s.stateLocked()
	held := fmt.Sprintf("%d of %d", s.fs.budget.held, s.fs.budget.limit)
	used, quota := s.usageLocked()
	s.fs.mu.RUnlock()
	end, past := s.memory.EndsAt()
	if past { // behind the end the tree has heard of redactions alone
		applied = min(applied, end)
	}
	lines := [][2]any{
		{"store", info.Slug}, {"id", info.ID}, {"access", access}, {"session", s.fs.opts.Session},
		{"state", state}, {"sequence", applied}, {"memories", tally.Memories}, {"uncommitted", tally.Uncommitted}, {"blind-overwrites", blind},
		{"held-bytes", held},
		{"max-memory-bytes", info.Limits.MaxMemoryBytes}, {"content", info.Limits.Content},
		{"mounted", s.fs.since.UTC().Format(time.RFC3339)},
	}
	if !past { // the bytes that were used then were not counted
		lines = append(lines, usageLines(used, quota)...)
	}
	var b strings.Builder
	for _, line := range lines {
		b.WriteString(quote.Line(fmt.Sprintf("%s: %v", line[0], line[1])) + "\n")
	}
	if past {
		fmt.Fprintf(&b, "as-of: %d\n", end)
	}
	if s.fs.opts.Flat {
		b.WriteString("flat: yes\n")
	}
	if s.fs.opts.Status != nil {
		for _, line := range s.fs.opts.Status() {
			b.WriteString(quote.Line(line) + "\n")
		}
	}
	return []byte(b.String())
}

// stateLocked says in one line how the store is.
func (s *store) stateLocked() string {
	loaded, loadErr := s.tree.LoadedLocked()
	switch err := s.rewrittenBy(); {
	case err != nil:
		return "rewritten: " + s.withAdvice(err.Error(), err)
	case s.degraded != nil:
		return "degraded: " + s.withAdvice(s.degraded.Error(), s.degraded)
	case loadErr != nil:
		return "degraded: the list of memories is not complete yet: " + s.withAdvice(loadErr.Error(), loadErr)
	case !loaded:
		return "loading the list of memories"
	}
	if err := s.unsaved.Load(); err != nil {
		return "degraded: the last write failed: " + s.withAdvice((*err).Error(), *err)
	}
	if held := s.heldUpLocked(); len(held) > 0 {
		return "degraded: a program holds " + strings.Join(held, ", ") + "; until it goes on, changes of other sessions show late there, and nowhere else"
	}
	return "ok"
}

// heldUpLocked returns the paths whose changes the kernel has not taken in for a while, at most a
// few, and for how long.
func (s *store) heldUpLocked() (paths []string) {
	const most = 3
	for _, held := range s.fs.notify.HeldUp() {
		n := s.fs.nodes[held.Inode]
		if n == nil || storeOf(n) != s {
			continue
		}
		if len(paths) == most {
			return append(paths, "and more")
		}
		path, _ := n.PathLocked()
		paths = append(paths, fmt.Sprintf("%s for %v", quote.Name(cmp.Or(path, "/")), time.Since(held.Since).Round(time.Second)))
	}
	return paths
}
