package tools

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"mneme/errkind"
	"mneme/history"
	"mneme/memory"
	"mneme/versionlog"
)

// MaxReadChars is how many characters of a file one Read returns at most.
const MaxReadChars = 100_000

// VersionInfo describes a version. Message, By and Session are words of others.
type VersionInfo struct {
	Path    string // as the tool has it; "" of a version that was erased
	From    string // where the file was before, of a rename
	Version string // its id
	Seq     uint64
	Op      string // created, modified, renamed, deleted
	Size    int64  // of the content in bytes
	By      string
	Session string
	Time    time.Time
	Message string
	Erased  bool // its path and content are gone
}

func (p *place) info(v *versionlog.Version) VersionInfo {
	i := VersionInfo{
		Path: join(p.top, v.Path), Erased: v.Redacted(), Version: v.ID, Seq: v.Seq, Op: string(v.Op), Size: v.Size,
		By: v.Actor.String(), Session: v.Session, Time: v.Time, Message: v.Message,
	}
	if i.Erased {
		i.Path = ""
	}
	if v.From != "" {
		i.From = join(p.top, v.From)
	}
	return i
}

// ReadQuery is what to read.
type ReadQuery struct {
	Path     string
	Version  string // an id or sequence number; "": the newest
	FromLine int    // from 1 on; 0: the first
	Lines    int    // 0: all
	MaxChars int    // 0, and at most: MaxReadChars
}

// ReadPage is a file, or lines of it.
type ReadPage struct {
	VersionInfo
	Text     string // whole lines, unless one line alone is longer than is returned
	From, To int    // the first and last line of Text
	Of       int    // how many lines the file has: of an empty one all three are 0
}

// Read returns a file as it is or as it was in a version. The session knows it then, if that
// is the newest.
func (m *Memory) Read(ctx context.Context, q ReadQuery) (ReadPage, error) {
	a, e := m.toRead(ctx, q.Path, 1)
	if e != nil {
		return ReadPage{}, e
	}
	v, data, err := a.versionOf(ctx, q.Version)
	switch {
	case err != nil:
		return ReadPage{}, m.notRead(ctx, a, err)
	case !isText(data):
		return ReadPage{}, failed(errkind.NotText, m.opts.Texts.say(notText, a.shown))
	}
	page := ReadPage{VersionInfo: a.info(&v)}
	page.cut(string(data), q)
	if err := m.opts.Budget.Take(0, int64(len(page.Text))); err != nil {
		return ReadPage{}, m.explain(err, a.shown, false)
	}
	if len(page.Text) == len(data) {
		a.viewed(&v)
	}
	return page, nil
}

// Content returns a file as it is, whatever it holds, for another reader than the agent: the
// session does not know it then.
func (m *Memory) Content(ctx context.Context, path string) (VersionInfo, []byte, error) {
	a, e := m.toRead(ctx, path, 1)
	if e != nil {
		return VersionInfo{}, nil, e
	}
	v, data, err := a.Store.Read(ctx, a.path)
	if err == nil {
		err = m.opts.Budget.Take(0, int64(len(data)))
	}
	if err != nil {
		return VersionInfo{}, nil, m.notRead(ctx, a, err)
	}
	return a.info(&v), data, nil
}

// toRead takes calls out of the budget, and returns the address of a file.
func (m *Memory) toRead(ctx context.Context, path string, calls int) (*address, *Error) {
	if err := m.opts.Budget.Take(calls, 0); err != nil {
		return nil, m.explain(err, "", false)
	}
	a, e := m.address(ctx, path)
	switch {
	case e != nil:
		return nil, e
	case a.nobody:
		return nil, failed(errkind.NotFound, m.opts.Texts.say(missing, a.shown))
	case a.isRoot():
		return nil, failed(errkind.Invalid, m.opts.Texts.say(directoryToRead, a.shown))
	}
	return a, nil
}

// notRead is the error of a file that was not read.
func (m *Memory) notRead(ctx context.Context, a *address, err error) *Error {
	var none *memory.NoVersionError
	if isNotFound(err) && !errors.As(err, &none) {
		if isDir, err := a.isThere(ctx); err == nil && isDir {
			return failed(errkind.Invalid, m.opts.Texts.say(directoryToRead, a.shown))
		}
	}
	return m.explain(err, a.shown, false)
}

// versionOf returns the version that ref means, "" is the newest, and its content.
func (a *address) versionOf(ctx context.Context, ref string) (v versionlog.Version, data []byte, err error) {
	if ref == "" {
		return a.read(ctx, a.path)
	}
	if v, err = history.Resolve(ctx, a.Store, a.path, ref); err != nil {
		return v, nil, err
	}
	if head, err := a.Store.Head(ctx, a.path); err == nil && head.ID == v.ID {
		return a.read(ctx, a.path)
	}
	data, err = a.Store.Content(ctx, v)
	return v, data, err
}

// cut takes the lines that a query asks for, as far as they are not too many.
func (p *ReadPage) cut(text string, q ReadQuery) {
	lines := slices.Collect(strings.Lines(text))
	if p.Of = len(lines); p.Of == 0 {
		return
	}
	p.From = min(max(1, q.FromLine), p.Of)
	p.To = p.Of
	if q.Lines > 0 {
		p.To = min(p.From+q.Lines-1, p.Of)
	}
	room := min(cmp.Or(max(0, q.MaxChars), MaxReadChars), MaxReadChars)
	var b strings.Builder
	for i := p.From; i <= p.To; i++ {
		line := lines[i-1]
		takes := utf8.RuneCountInString(line)
		if takes > room && i == p.From {
			line = cutRunes(line, room)
		}
		if takes > room && i > p.From {
			p.To = i - 1
			break
		}
		room -= min(room, takes)
		b.WriteString(line)
		if takes > utf8.RuneCountInString(line) {
			p.To = i
			break
		}
	}
	p.Text = b.String()
}
