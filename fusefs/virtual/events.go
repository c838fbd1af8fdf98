package virtual

import (
	"context"
	"sync"
	"time"

	"mneme/versionlog"
)

// Bounds of .mneme/events. There is always the newest commit.
const (
	eventCommits  = 256
	eventVersions = 1000
)

// events is .mneme/events: the newest commits, a line each, as Store.Event writes them, the
// newest first.
//
// Where files are not opened, the kernel asks for the length first. There the text is kept,
// as of the commit that was the newest then.
type events struct {
	place
	store  Store
	shared bool

	mu   sync.Mutex // guards what follows, which only a shared one has
	text []byte     // nil: it has not been asked for
	tip  versionlog.Tip
}

func (e *events) Constant() bool { return false }

// eventPatience bounds how long the length may take: no request for it can be interrupted.
const eventPatience = 5 * time.Second

func (e *events) Stat() (int64, time.Time) {
	if !e.shared {
		return 0, e.made
	}
	ctx, cancel := context.WithTimeout(context.Background(), eventPatience)
	defer cancel()
	text, tip := e.kept()
	if now, err := e.store.Memory().Tip(ctx); err == nil && (text == nil || now.Seq != tip.Seq) {
		if text, err = e.read(ctx, now.Seq); err == nil {
			tip = now
			e.keep(text, tip)
		}
	}
	return int64(len(text)), changedAt(tip, e.made)
}

func (e *events) kept() ([]byte, versionlog.Tip) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.text, e.tip
}

func (e *events) keep(text []byte, tip versionlog.Tip) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.text, e.tip = text, tip
}

func (e *events) Text(ctx context.Context) ([]byte, error) {
	if text, _ := e.kept(); e.shared && text != nil {
		return text, nil
	}
	return e.read(ctx, 0)
}

// read returns the lines of the commits up to one; 0 is the newest.
func (e *events) read(ctx context.Context, upTo uint64) ([]byte, error) {
	text := []byte{}
	before := uint64(0)
	if upTo != 0 {
		before = upTo + 1
	}
	commits, versions := 0, 0
	for c, err := range e.store.Memory().CommitsBefore(ctx, before, versionlog.Filter{}) {
		if err != nil {
			return nil, err
		}
		commits++
		versions += len(c.Versions)
		if commits > 1 && (commits > eventCommits || versions > eventVersions) {
			break
		}
		line, err := e.store.Event(c)
		if err != nil {
			return nil, err
		}
		text = append(text, line...)
	}
	return text, nil
}
