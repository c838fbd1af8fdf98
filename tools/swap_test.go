package tools

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"

	"mneme/errkind"
)

// TestSwap says that of two that make a file the same under one condition one succeeds, also
// where both write the same bytes.
func TestSwap(t *testing.T) {
	r := newRig(t, nil)
	r.do("File created", "create", "path", "/memories/a.md", "file_text", "same")
	r.fail("Error: File /memories/a.md already exists", "create", "path", "/memories/a.md", "file_text", "same")
	base := r.theirs("/b.md", "0")
	write := func() error {
		_, err := r.Write(t.Context(), WriteQuery{Path: "/memories/b.md", Text: NewSecret("1"), IfVersion: base.ID})
		return err
	}
	if err := write(); err != nil {
		t.Error(err)
	}
	if err := write(); err == nil {
		t.Error("the second write of the same succeeded, too")
	}
	made, err := r.Write(t.Context(), WriteQuery{Path: "/memories/c.md", Text: NewSecret("same"), IfVersion: IfNone})
	r.must(err)
	again, err := r.Write(t.Context(), WriteQuery{Path: "/memories/c.md", Text: NewSecret("same"), IfVersion: made.Version})
	if err != nil || again.Version != made.Version {
		t.Errorf("a write that changes nothing made %+v, %v; want version %s", again, err, made.Version)
	}
	if _, err := r.Write(t.Context(), WriteQuery{Path: "/memories/c.md", Text: NewSecret("same"), IfVersion: IfNone}); err == nil {
		t.Error("a write that wants no file succeeded where one is")
	}
}

// TestManySwaps: of sessions that count in one file, each with the version that it has read as
// the condition, none takes back what another has counted.
func TestManySwaps(t *testing.T) {
	const sessions = 50
	o := &rigOptions{}
	r := newRig(t, o)
	r.theirs("/n", "0")
	var all sync.WaitGroup
	for i := range sessions {
		m := r.tool(fmt.Sprintf("s%d", i), o)
		all.Go(func() {
			for {
				page, err := m.Read(t.Context(), ReadQuery{Path: "/memories/n"})
				if err != nil {
					t.Error(err)
					return
				}
				n, _ := strconv.Atoi(page.Text)
				var e *Error
				_, err = m.Write(t.Context(), WriteQuery{Path: "/memories/n", Text: NewSecret(strconv.Itoa(n + 1)), IfVersion: page.Version})
				switch {
				case err == nil:
					return
				case !errors.As(err, &e) || e.Kind != errkind.Conflict || e.Retry != AfterView:
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	r.holds("/n", strconv.Itoa(sessions))
	if tip, err := r.stores[0].Tip(t.Context()); err != nil || tip.Seq != 1+sessions {
		t.Errorf("%d commits, %v", tip.Seq, err)
	}
}
