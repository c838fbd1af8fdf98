package history

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"mneme/errkind"
	"mneme/internal/quote"
	"mneme/memory"
	"mneme/versionlog"
)

// ErrBadPoint says that a text names no point in the history of a store, or no time.
var ErrBadPoint = errkind.New(errkind.Invalid, "bad point in time")

// Point is a point in the history of a store, as a person names it: after the commit of a
// sequence number, after the one that is n before the newest, or at a time.
type Point struct {
	text string
	kind pointKind
	n    uint64    // a sequence number, or how many commits before the newest
	at   time.Time // the last moment that is meant
}

type pointKind int

const (
	pointSeq pointKind = iota
	pointBack
	pointTime
)

// ParsePoint reads a sequence number, HEAD, HEAD~n, or what ParseTime reads, of which it
// takes the end: a day with all that was committed on it. ErrBadPoint.
func ParsePoint(text string, now time.Time) (Point, error) {
	p := Point{text: text}
	if n, err := strconv.ParseUint(text, 10, 64); err == nil {
		p.n = n
		return p, nil
	}
	if back, isHead := strings.CutPrefix(text, "HEAD"); isHead {
		p.kind = pointBack
		if back == "" {
			return p, nil
		}
		number, isBack := strings.CutPrefix(back, "~")
		if number == "" {
			number = "1"
		}
		n, err := strconv.ParseUint(number, 10, 64)
		if !isBack || err != nil {
			return p, fmt.Errorf("%w: %s; want HEAD, or HEAD~n for n commits before it", ErrBadPoint, quote.Name(text))
		}
		p.n = n
		return p, nil
	}
	_, last, err := ParseTime(text, now)
	if err != nil {
		return p, fmt.Errorf("%w: %s; want a sequence number, HEAD~n, a time (2026-11-20T15:04:05Z, 2026-11-20 15:04, 2026-11-20, yesterday), or an age (2h, 3d)", ErrBadPoint, quote.Name(text))
	}
	p.kind, p.at = pointTime, last
	return p, nil
}

// String returns the text that the point was read from.
func (p Point) String() string { return p.text }

// Fixed reports whether the point stays the same whenever it is read again: a sequence
// number, or a time in the past with its day.
func (p Point) Fixed(now time.Time) bool {
	if p.kind != pointTime {
		return p.kind == pointSeq
	}
	_, later, err := ParseTime(p.text, now.AddDate(1, 0, 1))
	return err == nil && later.Equal(p.at) && p.at.Before(now)
}

// ResolvePoint returns the sequence number of the newest commit that a point has, 0 before the
// first. A time in the future has the newest commit. versionlog.ErrNotFound: the store has
// no such commit.
func ResolvePoint(ctx context.Context, s *memory.Store, p Point) (uint64, error) {
	if p.kind == pointTime {
		return s.SeqAt(ctx, p.at)
	}
	tip, err := s.Tip(ctx)
	if err != nil {
		return 0, err
	}
	if p.n > tip.Seq {
		return 0, fmt.Errorf("%s: %s: %w; the newest commit has sequence number %d", s.Info().Slug, p, versionlog.ErrNotFound, tip.Seq)
	}
	if p.kind == pointBack {
		return tip.Seq - p.n, nil
	}
	return p.n, nil
}

// AsOf returns the newest version in the History of a path that the commit of a sequence number
// made, or one before it; of several of one commit the one that its number means.
// versionlog.ErrNotFound.
func AsOf(ctx context.Context, s *memory.Store, path string, seq uint64) (versionlog.Version, error) {
	for v, err := range Versions(ctx, s, path) {
		if err != nil {
			return v, err
		}
		if v.Seq <= seq {
			return Resolve(ctx, s, path, strconv.FormatUint(v.Seq, 10))
		}
	}
	return versionlog.Version{}, noVersion(ctx, s, path, strconv.FormatUint(seq, 10))
}

// times are the forms of a time that name a day, a minute or a second, whole.
var times = []struct {
	layout string
	add    func(time.Time) time.Time // to where the next one begins
}{
	{time.DateOnly, func(t time.Time) time.Time { return t.AddDate(0, 0, 1) }},
	{"2006-01-02T15:04", plus(time.Minute)},
	{"2006-01-02T15:04Z07:00", plus(time.Minute)},
	{"2006-01-02T15:04Z0700", plus(time.Minute)},
	{"2006-01-02T15:04:05", plus(time.Second)},
	{time.RFC3339, plus(time.Second)},
	{"2006-01-02T15:04:05Z0700", plus(time.Second)},
}

// spellTime returns a time as the forms have it: with a day, T before the time of that day, and Z.
func spellTime(text string, now time.Time) string {
	if len(text) > len("15:") && text[2] == ':' && !strings.ContainsAny(text, "Zz+-") { // the day of another zone might be another
		text = now.Format(time.DateOnly) + "T" + text
	}
	if day := len(time.DateOnly); len(text) > day && (text[day] == ' ' || text[day] == 't') {
		text = text[:day] + "T" + text[day+1:]
	}
	if zone := len(text) - 1; zone > 0 && text[zone] == 'z' {
		text = text[:zone] + "Z"
	}
	return text
}

func plus(d time.Duration) func(time.Time) time.Time {
	return func(t time.Time) time.Time { return t.Add(d) }
}

// ParseTime reads what names a time, and returns the first and the last moment of it: of
// RFC 3339, also without seconds and with an offset without a colon; of a date, of a date
// with a time of the day, and of a time of today, in now's time zone; of
// today, yesterday and now; and of an age, such as 90s, 2h, 3d and 1w, before now. A time in
// whole seconds, as mneme prints it, is that whole second. ErrBadPoint.
func ParseTime(text string, now time.Time) (first, last time.Time, err error) {
	day := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, now.Location())
	switch text {
	case "now":
		return now, now, nil
	case "today":
		return day, lastBefore(day.AddDate(0, 0, 1)), nil
	case "yesterday":
		return day.AddDate(0, 0, -1), lastBefore(day), nil
	}
	if age, ok := parseAge(text); ok {
		return now.Add(-age), now.Add(-age), nil
	}
	spelled := spellTime(text, now)
	for _, form := range times {
		t, err := time.ParseInLocation(form.layout, spelled, now.Location())
		switch {
		case err != nil:
		case strings.ContainsAny(text, ".,"): // a fraction, which any layout takes behind seconds
			return t, t, nil
		default:
			return t, lastBefore(form.add(t)), nil
		}
	}
	return first, last, fmt.Errorf("%w: %s; want a time (2026-11-20T15:04:05Z, 2026-11-20 15:04, 2026-11-20, yesterday) or an age (2h, 3d)", ErrBadPoint, quote.Name(text))
}

// lastBefore returns the last moment before t.
func lastBefore(t time.Time) time.Time { return t.Add(-1) }

// parseAge reads a duration with its unit, as Go writes it or in whole days or weeks.
func parseAge(text string) (time.Duration, bool) {
	for unit, hours := range map[string]int64{"d": 24, "w": 7 * 24} {
		if number, ok := strings.CutSuffix(text, unit); ok {
			n, err := strconv.ParseUint(number, 10, 31)
			age := time.Duration(n) * time.Duration(hours) * time.Hour
			return age, err == nil && n <= uint64(maxAge/(time.Duration(hours)*time.Hour))
		}
	}
	age, err := time.ParseDuration(text)
	return age, err == nil && age >= 0 && text != "0"
}

// maxAge is the longest duration there is.
const maxAge = time.Duration(1<<63 - 1)
