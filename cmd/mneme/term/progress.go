package term

import (
	"fmt"
	"strings"
	"time"
)

// Progress shows the progress of long work on a terminal. A nil *Progress shows nothing.
// Its methods must not run concurrently.
type Progress struct {
	c     *Console
	title string
	next  time.Time // when to draw again
	drawn bool
}

// Progress returns a bar on standard error, or nil if standard error is no terminal.
func (c *Console) Progress(title string) *Progress {
	if !c.ErrIsTerminal || c.JSON {
		return nil
	}
	return &Progress{c: c, title: title}
}

const (
	progressWidth  = 30
	progressPeriod = 100 * time.Millisecond
)

// Show draws the progress of a step. It does not draw for quick work.
func (p *Progress) Show(step string, done, total int) {
	if p == nil || total <= 0 {
		return
	}
	now := time.Now()
	if p.next.IsZero() {
		p.next = now.Add(3 * progressPeriod)
	}
	if now.Before(p.next) {
		return
	}
	p.next, p.drawn = now.Add(progressPeriod), true
	filled := min(done, total) * progressWidth / total
	_, _ = fmt.Fprintf(p.c.Err, "\r\x1b[K%s: %s [%s%s] %d/%d", p.title, step,
		strings.Repeat("#", filled), strings.Repeat("-", progressWidth-filled), done, total)
}

// Clear removes the bar, before other output.
func (p *Progress) Clear() {
	if p != nil && p.drawn {
		_, _ = fmt.Fprint(p.c.Err, "\r\x1b[K")
		p.drawn = false
	}
}
