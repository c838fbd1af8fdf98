package tools

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"time"

	"mneme/errkind"
)

// run are the commands.
var run = map[string]func(*Memory, context.Context, *request) (Result, error){
	"view":        (*Memory).view,
	"create":      (*Memory).create,
	"str_replace": (*Memory).replace,
	"insert":      (*Memory).insert,
	"delete":      (*Memory).remove,
	"rename":      (*Memory).rename,
}

// Call does one call of the memory tool: input is its JSON. It never fails: an error is a
// Result that describes it. Each call takes one out of the budget, whatever its result.
func (m *Memory) Call(ctx context.Context, input json.RawMessage) Result {
	return m.call(ctx, input, nil)
}

// CallAgreed is Call for a caller that has looked at the files of a directory: its deletion
// is refused unless the directory has exactly these files, in these versions. Files that
// come later stay.
func (m *Memory) CallAgreed(ctx context.Context, input json.RawMessage, agreed []Entry) Result {
	versions := make(map[string]bool, len(agreed))
	for _, file := range agreed {
		versions[file.Version] = true
	}
	return m.call(ctx, input, versions)
}

func (m *Memory) call(ctx context.Context, input json.RawMessage, agreed map[string]bool) (result Result) {
	began, command := time.Now(), ""
	defer func() {
		if caught := recover(); caught != nil {
			m.logPanic(caught)
			result = m.failure(&Error{Kind: errkind.Unknown, Retry: AfterView, Unsure: true, text: m.opts.Texts.say(broken)})
		}
		m.logCall(command, result, time.Since(began))
	}()
	if err := m.opts.Budget.Take(1, int64(len(input))); err != nil {
		return m.failure(m.explain(err, "", false))
	}
	r, e := m.opts.Texts.decode(input, m.opts.MaxInput)
	if e != nil {
		return m.failure(e)
	}
	command, r.agreed = r.command, agreed
	result, err := run[r.command](m, ctx, r)
	result.Text += r.told
	if err == nil {
		err = m.opts.Budget.Take(0, int64(len(result.Text)+sizeOf(result.Image)))
	}
	if err != nil && result.Made == nil { // what was made is told
		e := m.explain(err, "", false)
		if e.Kind == errkind.NotFound {
			e = cmp.Or(m.gone(ctx, cmp.Or(r.path, r.oldPath)), e)
		}
		return m.failure(e)
	}
	return result
}

// gone is the error of a call about a path of a store that no longer exists; nil: it
// exists.
func (m *Memory) gone(ctx context.Context, path string) *Error {
	for _, p := range m.places {
		if !strings.HasPrefix(path+"/", p.top+"/") && strings.TrimSuffix(path, "/") != Root {
			continue
		}
		if _, err := p.Store.Tip(ctx); isNotFound(err) {
			return failed(errkind.NotFound, m.opts.Texts.say(storeGone, p.top))
		}
	}
	return nil
}

func sizeOf(i *Image) int {
	if i == nil {
		return 0
	}
	return len(i.Data)
}

// failure is the result of a call that has failed.
func (m *Memory) failure(err error) Result {
	var e *Error
	if !errors.As(err, &e) {
		e = failed(errkind.Unknown, m.opts.Texts.say(noAnswer))
	}
	return Result{Text: e.text, Error: e}
}

// logCall logs a call without its paths and texts.
func (m *Memory) logCall(command string, r Result, took time.Duration) {
	kind := errkind.None
	if r.Error != nil {
		kind = r.Error.Kind
	}
	m.opts.Logger.LogAttrs(context.Background(), slog.LevelDebug, "call",
		slog.String("command", command), slog.String("kind", kind.String()), slog.Duration("took", took), slog.Int("bytes", len(r.Text)))
}
