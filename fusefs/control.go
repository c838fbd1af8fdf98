package fusefs

import (
	"fmt"
	"strings"
	"syscall"
	"time"

	"mneme/internal/quote"
	"mneme/memory"
)

// makeControl makes .mneme with its files. They are generated when they are
// opened; nothing below it can be changed.
func (s *store) makeControl() {
	s.control = s.fs.newNode(s, syscall.S_IFDIR|s.fs.perm(0o555), s.fs.since)
	s.control.parent, s.control.name = s.root, memory.ReservedName
	for name, generate := range map[string]func() []byte{"README": s.readmeText, "status": s.statusText, "errors": s.errors.Lines} {
		n := s.fs.newNode(s, syscall.S_IFREG|s.fs.perm(0o444), s.fs.since)
		n.generate = generate
		attach(s.control, name, n)
	}
	s.makeKept()
}

// statusText is the content of .mneme/status: "key: value" lines.
func (s *store) statusText() []byte {
	info := s.memory.Info()
	access := "read-write"
	if s.readOnly() {
		access = "read-only"
	}
	s.fs.mu.RLock()
	tally := s.tally
	applied, blind, state := s.applied, s.blind, s.state()
	held := fmt.Sprintf("%d of %d", s.fs.budget.held, s.fs.budget.limit)
	s.fs.mu.RUnlock()
	var b strings.Builder
	for _, line := range [][2]any{
		{"store", info.Slug}, {"id", info.ID}, {"access", access}, {"session", s.fs.opts.Session},
		{"state", state}, {"sequence", applied}, {"memories", tally.memories}, {"uncommitted", tally.uncommitted}, {"blind-overwrites", blind},
		{"held-bytes", held},
		{"max-memory-bytes", info.Limits.MaxMemoryBytes}, {"content", info.Limits.Content},
		{"mounted", s.fs.since.UTC().Format(time.RFC3339)},
	} {
		b.WriteString(quote.Line(fmt.Sprintf("%s: %v", line[0], line[1])) + "\n")
	}
	if s.fs.opts.Status != nil {
		for _, line := range s.fs.opts.Status() {
			b.WriteString(quote.Line(line) + "\n")
		}
	}
	return []byte(b.String())
}

// state says in one line how the store is. Caller holds fs.mu.
func (s *store) state() string {
	switch err := s.rewrittenBy(); {
	case err != nil:
		return "rewritten: " + s.withAdvice(err.Error(), err)
	case s.degraded != nil:
		return "degraded: " + s.withAdvice(s.degraded.Error(), s.degraded)
	case s.loading.err != nil:
		return "degraded: the list of memories is not complete yet: " + s.withAdvice(s.loading.err.Error(), s.loading.err)
	case !s.loading.done:
		return "loading the list of memories"
	}
	return "ok"
}
