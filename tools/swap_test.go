package tools

import "testing"

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
