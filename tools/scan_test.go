package tools

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"mneme/cas"
	"mneme/memory"
	"mneme/versionlog"
)

// TestScan: memories are handed on in the order in which they were asked for, until there are
// enough, with what they hold or that they hold no text.
func TestScan(t *testing.T) {
	r := newRig(t, &rigOptions{stores: []string{"notes", "other"}, create: anyContent})
	for i := range 100 {
		r.theirs(fmt.Sprintf("/d/f%02d", i), fmt.Sprintf("text %d", i))
	}
	_, err := r.stores[0].MakeDir(t.Context(), "/made", versionlog.ExpectAny(), nil)
	r.must(err)
	r.theirs("/bin", "\x00")
	r.theirs("/empty", "")
	r.theirs("/d/f07", "text 7, again")
	r.theirs("/gone", "x")
	r.must(r.blobs.Delete(t.Context(), cas.Sum([]byte("x"))))
	scan := func(ctx context.Context, heads []*memory.Head, most int) (string, string) {
		var taken []string
		why, err := Scan(ctx, r.Memory, "notes", heads, func(h *memory.Head, text []byte, isRead bool) string {
			return fmt.Sprintf("%s %q %v %v", h.Path(), text, text != nil, isRead)
		}, func(h *memory.Head, found string) bool {
			if !strings.HasPrefix(found, h.Path()+" ") {
				t.Errorf("%s gets %s", h.Path(), found)
			}
			taken = append(taken, found)
			return len(taken) < most
		})
		r.must(err)
		return strings.Join(taken, "|"), why
	}
	heads, err := r.Newest(t.Context(), "notes")
	r.must(err)
	if len(heads) != 103 {
		t.Fatalf("%d memories", len(heads))
	}
	const first = `/gone "" false false|/d/f07 "text 7, again" true true|/empty "" true true|/bin "" false true|/d/f99 "text 99" true true`
	if got, why := scan(t.Context(), heads, 5); got != first || why != "limit" {
		t.Errorf("%s, %q", got, why)
	}
	if got, why := scan(t.Context(), heads, 1000); strings.Count(got, "|") != 102 || why != "" {
		t.Errorf("%d are taken, %q", strings.Count(got, "|")+1, why)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, why := scan(ended, heads, 1000); why != "deadline" {
		t.Errorf("it ends with %q", why)
	}
	if _, err := r.Newest(t.Context(), "none"); !errors.Is(err, versionlog.ErrNotFound) {
		t.Error(err)
	}
	if places := r.Places(); len(places) != 2 || places[0].Store.Info().Slug != "notes" {
		t.Errorf("%+v", places)
	}
}

// TestScanPanics: a panic of a worker is one of the goroutine that has called, which can end
// it there, and not of the process.
func TestScanPanics(t *testing.T) {
	r := newRig(t, nil)
	for i := range 10 {
		r.theirs(fmt.Sprintf("/f%d", i), "x")
	}
	heads, err := r.Newest(t.Context(), "notes")
	r.must(err)
	defer func() {
		if caught := recover(); caught == nil || strings.Contains(fmt.Sprint(caught), "secret") {
			t.Errorf("caught %v", caught)
		}
	}()
	_, _ = Scan(t.Context(), r.Memory, "notes", heads, func(*memory.Head, []byte, bool) int { panic("secret") }, func(*memory.Head, int) bool { return true })
}
