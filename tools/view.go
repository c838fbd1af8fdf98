package tools

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"mneme/errkind"
	"mneme/internal/plural"
	"mneme/versionlog"
)

// maxLines is how many lines a view numbers.
const maxLines = 999_999

// view shows a file with line numbers, a picture, or the content of a directory.
func (m *Memory) view(ctx context.Context, r *request) (Result, error) {
	a, e := m.address(ctx, r.path)
	switch {
	case e != nil:
		return Result{}, e
	case a.nobody:
		return Result{}, failed(errkind.NotFound, m.opts.Texts.say(missing, a.shown))
	case a.isRoot():
		return m.viewDirectory(ctx, a, r.lines)
	}
	v, data, err := a.read(ctx, a.path)
	switch {
	case isNotFound(err):
		return m.viewDirectory(ctx, a, r.lines)
	case err != nil:
		return Result{}, m.explain(err, a.shown, false)
	}
	if picture := pictureOf(a.path, data); picture != nil {
		return Result{Text: m.opts.Texts.say(fileHead, a.shown), Image: picture}, nil
	}
	if !isText(data) {
		return Result{}, failed(errkind.NotText, m.opts.Texts.say(notText, a.shown))
	}
	shown, whole, err := m.viewText(a, string(data), r.lines)
	if whole {
		a.viewed(&v)
	}
	return shown, err
}

// viewed notes that the agent was shown all of the content that was read.
func (a *address) viewed(v *versionlog.Version) {
	if a.Session != nil {
		a.Session.Viewed(a.path, v)
	}
}

// isText reports whether a view can show data.
func isText(data []byte) bool { return utf8.Valid(data) && bytes.IndexByte(data, 0) < 0 }

// pictureOf returns the content at a path if it is a picture by its name and by its bytes.
func pictureOf(at string, data []byte) *Image {
	if !slices.Contains([]string{".png", ".jpg", ".jpeg"}, strings.ToLower(path.Ext(at))) {
		return nil
	}
	if kind := http.DetectContentType(data); kind == "image/png" || kind == "image/jpeg" {
		return &Image{MediaType: kind, Data: data}
	}
	return nil
}

// viewText numbers lines, and reports whether all of the content is shown. A line break at the end
// begins a last line, which is empty.
func (m *Memory) viewText(a *address, content string, lines []int64) (r Result, whole bool, err error) {
	t := m.opts.Texts
	total := strings.Count(content, "\n") + 1
	if total > maxLines {
		args := []any{a.shown, total}
		if t == Documentation {
			args = args[:1]
		}
		return Result{}, false, failed(errkind.TooLarge, t.say(tooManyLines, args...))
	}
	first, last := 1, total
	if lines != nil {
		from, to := lines[0], lines[1]
		if from < 1 || to < from && to != -1 || from > int64(total) {
			return Result{}, false, failed(errkind.Invalid, t.say(badRange, from, to, total))
		}
		if first = int(from); to != -1 {
			last = int(min(to, int64(total)))
		}
	}
	head := t.say(fileHead, a.shown) + "\n"
	shown, end, rest := numbered(content, first, last, m.room(head))
	if rest > 0 {
		shown += t.say(lineCut, end, plural.Of(rest, "character"))
	}
	if end < last {
		shown += t.say(viewCut, end, total, end+1)
	}
	return Result{Text: head + shown}, first == 1 && end == total && rest == 0, nil
}

// numbered returns the lines from first to last with their numbers, as far as room has
// characters left for them; a room below 0 is unlimited. It returns the last line that is
// shown, and how many characters of it are not: a first line is cut, others are left out.
func numbered(content string, first, last, room int) (shown string, end, rest int) {
	for range first - 1 {
		content = content[strings.IndexByte(content, '\n')+1:]
	}
	var b strings.Builder
	for n := first; n <= last; n++ {
		line, behind, _ := strings.Cut(content, "\n")
		content = behind
		number := fmt.Sprintf("%6d\t", n)
		if n > first {
			number = "\n" + number
		}
		if room >= 0 {
			takes := utf8.RuneCountInString(line) + len(number)
			if takes > room && n > first {
				return b.String(), n - 1, 0
			}
			if takes > room {
				kept := cutRunes(line, max(0, room-len(number)))
				return number + kept, n, utf8.RuneCountInString(line[len(kept):])
			}
			room -= takes
		}
		b.WriteString(number)
		b.WriteString(line)
	}
	return b.String(), last, 0
}

// cutRunes returns the first characters of s.
func cutRunes(s string, number int) string {
	for i := range s {
		if number == 0 {
			return s[:i]
		}
		number--
	}
	return s
}
