package main

import (
	"fmt"
	"strings"
	"time"
)

// progress shows on a terminal how far long work has come. A nil *progress
// shows nothing. Its methods must not be called at once.
type progress struct {
	a     *app
	title string
	next  time.Time // when to draw again
	drawn bool
}

// progress returns a bar on standard error, or nil when nobody would see it.
func (a *app) progress(title string) *progress {
	if !a.errTerminal || a.json {
		return nil
	}
	return &progress{a: a, title: title}
}

const (
	progressWidth  = 30
	progressPeriod = 100 * time.Millisecond
)

// Show draws how much of a step is done. What is quick is never drawn.
func (p *progress) Show(step string, done, total int) {
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
	_, _ = fmt.Fprintf(p.a.err, "\r\x1b[K%s: %s [%s%s] %d/%d", p.title, step,
		strings.Repeat("#", filled), strings.Repeat("-", progressWidth-filled), done, total)
}

// Clear takes the bar away, before something else is written.
func (p *progress) Clear() {
	if p != nil && p.drawn {
		_, _ = fmt.Fprint(p.a.err, "\r\x1b[K")
		p.drawn = false
	}
}
