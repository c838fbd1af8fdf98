package virtual

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"syscall"
	"time"

	"mneme/history"
	"mneme/versionlog"
)

// At is the path of the directory of points in time in the store.
const At = Root + "/at"

// at is .mneme/at. It lists nothing: a name is a point in the history, and it names the store as
// it was right after a commit.
//
// A sequence number always means the same, and so does a time once the store has a later commit.
// Other names are looked up each time. So that no directory is at two places, and none changes,
// the place of a directory says which commit its name meant: it is HEAD@140.
type at struct {
	place
	store Store
	past  *past
}

func newAt(s Store, p *past, made time.Time) *at {
	return &at{
		place: place{path: At, mode: syscall.S_IFDIR | 0o555, made: made, lasting: true},
		store: s, past: p,
	}
}

func (a *at) Fixed() bool                           { return true }
func (a *at) List(context.Context) ([]Entry, error) { return nil, nil }
func (a *at) Remove(string, bool) error             { return syscall.EROFS }

// Lookup resolves a point.
func (a *at) Lookup(ctx context.Context, name string) (Node, error) {
	n, err := a.lookup(ctx, name)
	switch {
	case err == nil:
		return n, nil
	case !looksLikePoint(name):
		return nil, syscall.ENOENT // a program that looks for its own files
	case errors.Is(err, history.ErrBadPoint), errors.Is(err, versionlog.ErrNotFound):
		return nil, &MissingError{path.Join(a.path, name), err}
	}
	return nil, err
}

// looksLikePoint reports whether a name may be meant for a point in time.
func looksLikePoint(name string) bool {
	return strings.ContainsAny(name[:min(1, len(name))], "0123456789+-") || len(name) >= 4 && strings.EqualFold(name[:4], "HEAD")
}

func (a *at) lookup(ctx context.Context, name string) (*pastDir, error) {
	point, err := history.ParsePoint(name, time.Now().UTC())
	if err != nil {
		return nil, err
	}
	n, isNumber := parseNumber(name)
	if _, err := strconv.ParseUint(name, 10, 64); err == nil && !isNumber {
		return nil, fmt.Errorf("%w: a sequence number is written without leading zeros", history.ErrBadPoint)
	}
	st := a.store.Memory()
	tip, err := st.Tip(ctx)
	if err != nil {
		return nil, err
	}
	seq := n
	if !isNumber || n > tip.Seq {
		if seq, err = history.ResolvePoint(ctx, st, point); err != nil {
			return nil, err
		}
	}
	lasting := isNumber || isDate(name) && seq < tip.Seq
	if !lasting {
		name += "@" + strconv.FormatUint(seq, 10)
	}
	return a.dirOf(ctx, name, seq, lasting)
}

// isDate reports whether the name of a point is a time that does not depend on the time at
// which it is asked for.
func isDate(name string) bool { return len(name) > 4 && name[4] == '-' }

// dirOf returns the root of the store as it was after a commit.
func (a *at) dirOf(ctx context.Context, name string, seq uint64, lasting bool) (*pastDir, error) {
	made, err := a.past.timeOf(ctx, seq)
	if err != nil {
		return nil, err
	}
	d := &pastDir{place: a.dir(name).copied(), past: a.past, seq: seq, of: "/"}
	d.made, d.lasting = made, lasting
	return d, nil
}

// again is part of placing.
func (a *at) again(ctx context.Context, name string) (Node, error) {
	if _, number, ok := strings.Cut(name, "@"); ok {
		seq, ok := parseNumber(number)
		if !ok {
			return nil, syscall.ENOENT
		}
		return a.dirOf(ctx, name, seq, false)
	}
	return a.Lookup(ctx, name)
}
