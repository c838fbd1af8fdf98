package conflict

import (
	"slices"
	"strings"
	"syscall"
)

// A session that has only read another's change is refused once when it then takes that back. The
// texts that the calls of an episode write have no line in common with any other, so that every
// text that is written over a line of another session takes that back, except an appended one.

// foreign returns the lines of a text that another session wrote.
func (e *episode) foreign(text, session string) (lines []string) {
	own := ""
	for i := range e.calls {
		if c := &e.calls[i]; c.session == session && c.Token != "" {
			own, _, _ = strings.Cut(c.Token, ".")
		}
	}
	for line := range strings.Lines(text) {
		if by, _, _ := strings.Cut(line, "."); by != own {
			lines = append(lines, line)
		}
	}
	return lines
}

// target is the path at which a call replaces or removes something.
func (c *mountCall) target() string {
	if c.Op == opRename {
		return c.To
	}
	return c.place()
}

// replaces reports whether a call writes over what is at its target, or removes
// that.
func (c *mountCall) replaces() bool {
	return c.Op == opOverwrite || c.Op == opSave || c.Op == opRename || c.Op == opUnlink
}

// textOf returns what some bytes are that a path held.
func (e *episode) textOf(path, sum string) (string, bool) {
	for _, h := range e.held[path] {
		if h.sum == sum {
			return h.text, true
		}
	}
	return "", false
}

// mayTakeBack reports whether the session of a call may have read, for something
// else that it knew, a line of another session's that is still there when it
// makes the call; and has not read the file since the call was last refused.
func (e *episode) mayTakeBack(c *mountCall, known []knowledge) bool {
	if !c.replaces() || c.Stage == stageOpen || len(known) < 2 { // nothing but this
		return false
	}
	var sums []string
	for _, one := range known {
		if one.begin < c.End && one.sum != "" {
			sums = append(sums, one.sum)
		}
	}
	path := c.target()
	there := func(h holding) bool {
		if m := e.maker[h.seq]; m != nil && m.session != c.session && slices.Contains(sums, h.sum) {
			return true // or its own, which another session has moved here
		}
		return slices.ContainsFunc(e.foreign(h.text, c.session), func(line string) bool {
			return slices.ContainsFunc(sums, func(sum string) bool {
				text, _ := e.textOf(path, sum)
				return strings.Contains(text, line)
			})
		})
	}
	_, ok := e.some(path, e.ended(c.Begin, anyCall), e.began(c.End), there)
	return ok && !e.again(c)
}

// again reports whether it is certain that the session of a call has read the
// file after it was refused to write it, and that nothing has happened to the
// file since: now the write is meant.
func (e *episode) again(c *mountCall) bool {
	path, refused, read := c.target(), int64(-1), (*mountCall)(nil)
	for _, m := range e.of(c.session) {
		switch {
		case m.End > c.Begin || m.target() != path && m.Path != path:
		case m.Errno == syscall.EBUSY && (m.Stage == stageClose || m.Stage == stageFsync || m.Stage == stageRename):
			refused, read = m.End, nil
		case m.Op == opRead && m.Errno == 0 && !m.Beside && refused >= 0:
			read = m
		case m.Op != opRead && m.Errno == 0:
			refused, read = -1, nil
		}
	}
	if read == nil || e.head(path, e.began(c.End)).sum != read.Sum {
		return false
	}
	for seq, m := range e.maker {
		if m.touches(path) && m.End >= read.Begin && seq <= e.began(c.End) && m != c {
			return false
		}
	}
	return true
}

// checkTakenBack: what a session replaces or removes shows no change by another
// session that it certainly has only read, and was not refused for.
func (e *episode) checkTakenBack(c *mountCall, seq uint64) {
	if !c.replaces() || seq == 0 {
		return
	}
	path := c.target()
	was := e.head(path, seq-1)
	knew, read, steps := "", (*mountCall)(nil), 0 // "": not known
	moved := func(m *mountCall) bool { return m.Op == opRename || m.Op == opUnlink }
	for i := range e.calls {
		if m := &e.calls[i]; moved(m) && m.touches(path) && m.Begin < c.End && m != c {
			return // and with it what is known
		}
	}
	var lines []string
	for _, m := range e.of(c.session) {
		switch {
		case m == c || m.End >= c.Begin || m.place() != path:
		case m.Errno == syscall.EBUSY:
			knew, read, lines = "", nil, nil
		case m.Errno != 0 || m.Beside || m.Op == opAppend:
		case m.Op == opRead && knew == "" && e.head(path, e.began(m.End)).sum != m.Sum:
			// It may not count, and the next one says that the write is meant.
		case m.Op != opRead:
			knew, read, lines, steps = m.text(), nil, nil, 0
		default:
			text, _ := e.textOf(path, m.Sum)
			if knew != "" && text != knew {
				for _, line := range e.foreign(text, c.session) {
					if !strings.Contains(knew, line) {
						lines = append(lines, line)
					}
				}
				steps++
				read = m
			}
			knew = text
		}
	}
	if read == nil || steps > 3 || c.Op == opUnlink && read.Sum != was.sum {
		return
	}
	for _, line := range lines {
		if strings.Contains(was.text, line) {
			e.fault(c, "takes back {%s}, which the session has only read in %v", looks(line), read)
			return
		}
	}
}
