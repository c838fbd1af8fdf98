package tools

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"mneme/errkind"
	"mneme/history"
	"mneme/versionlog"
)

// The bounds of a history and a comparison.
const (
	DefaultVersions = 20
	MaxVersions     = 200
	MaxDiff         = 64 << 10 // bytes
)

// HistoryQuery is what to tell the history of.
type HistoryQuery struct {
	Path   string // of a file that is or was there, or of a directory; "": everything, of one store
	Before uint64 // versions below that sequence number; 0: from the newest on
	Limit  int    // 0: DefaultVersions; at most MaxVersions
}

// HistoryPage is a part of a history, newest first.
type HistoryPage struct {
	Versions []VersionInfo
	Next     uint64 // Before of the next page; 0: that was all
}

// History tells the versions of a file, also those that it had under other names, or those of
// all files below a directory. Its error is an *Error.
func (m *Memory) History(ctx context.Context, q HistoryQuery) (HistoryPage, error) {
	if err := m.opts.Budget.Take(1, 0); err != nil {
		return HistoryPage{}, m.explain(err, "", false)
	}
	a, e := m.address(ctx, cmp.Or(q.Path, Root))
	limit := min(cmp.Or(q.Limit, DefaultVersions), MaxVersions)
	switch {
	case e != nil:
		return HistoryPage{}, e
	case limit < 1:
		return HistoryPage{}, failed(errkind.Invalid, m.opts.Texts.say(refusedRequest, errors.New("limit must be at least 1")))
	case a.place == nil && !a.nobody:
		return HistoryPage{}, failed(errkind.Invalid, m.opts.Texts.say(refusedRequest, errors.New("history is of one store; pass path, such as "+m.storePaths())))
	case a.nobody:
		return HistoryPage{}, failed(errkind.NotFound, m.opts.Texts.say(missing, a.shown))
	}
	page := HistoryPage{}
	known, err := a.versions(ctx, q.Before, func(v *versionlog.Version) bool {
		if n := len(page.Versions); n >= limit && page.Versions[n-1].Seq != v.Seq { // versions of one commit stay together
			page.Next = page.Versions[n-1].Seq
			return false
		}
		page.Versions = append(page.Versions, a.info(v))
		return true
	})
	switch {
	case err != nil:
		return HistoryPage{}, m.explain(err, a.shown, false)
	case !known && a.path != "/":
		return HistoryPage{}, failed(errkind.NotFound, m.opts.Texts.say(missing, a.shown))
	}
	return page, nil
}

// versions calls take with the versions of a file or below a directory that are below a
// sequence number, newest first, until take returns false. It reports whether anything ever
// was there.
func (a *address) versions(ctx context.Context, before uint64, take func(*versionlog.Version) bool) (known bool, err error) {
	if a.path != "/" {
		for v, err := range history.Versions(ctx, a.Store, a.path) {
			if isNotFound(err) {
				break
			}
			if err != nil {
				return known, err
			}
			known = true
			if (before == 0 || v.Seq < before) && !take(&v) {
				return known, nil
			}
		}
	}
	if known {
		return known, nil
	}
	below := strings.TrimSuffix(a.path, "/") + "/"
	for c, err := range a.Store.CommitsBefore(ctx, before, versionlog.Filter{}) {
		if err != nil {
			return known, err
		}
		for i := range c.Versions {
			v := &c.Versions[i]
			if v.IsDir() || v.Redacted() || !strings.HasPrefix(v.Path, below) && !strings.HasPrefix(v.From, below) {
				continue
			}
			if known = true; !take(v) {
				return known, nil
			}
		}
	}
	return known, nil
}

// Difference is what two versions of a file differ in.
type Difference struct {
	From, To VersionInfo
	Text     string // a unified diff; "" where they are the same
	Cut      bool   // Text is the beginning of a longer one
}

// Diff compares two versions of a file, which are ids or sequence numbers: by default the
// newest, and the one before to. Its error is an *Error.
func (m *Memory) Diff(ctx context.Context, path, from, to string) (Difference, error) {
	a, e := m.toRead(ctx, path, 1)
	if e != nil {
		return Difference{}, e
	}
	d, err := a.diff(ctx, from, to)
	if err != nil {
		return Difference{}, m.explain(err, a.shown, false)
	}
	if err := m.opts.Budget.Take(0, int64(len(d.Text))); err != nil {
		return Difference{}, m.explain(err, a.shown, false)
	}
	return d, nil
}

func (a *address) diff(ctx context.Context, from, to string) (d Difference, err error) {
	next, newer, err := a.versionOf(ctx, to)
	if err != nil {
		return d, err
	}
	d.To = a.info(&next)
	var older []byte
	if from != "" {
		v, data, err := a.versionOf(ctx, from)
		if err != nil {
			return d, err
		}
		d.From, older = a.info(&v), data
	} else if v, there, err := history.Replaced(ctx, a.Store, a.path, next); err != nil {
		return d, err
	} else if there {
		if older, err = a.Store.Content(ctx, v); err != nil {
			return d, err
		}
		d.From = a.info(&v)
	}
	d.Text = history.Diff(cmp.Or(d.From.Version, "nothing"), d.To.Version, older, newer)
	if d.Cut = len(d.Text) > MaxDiff; d.Cut {
		d.Text = d.Text[:strings.LastIndexByte(d.Text[:MaxDiff], '\n')+1]
	}
	return d, nil
}
