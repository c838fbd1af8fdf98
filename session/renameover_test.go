package session

import (
	"testing"

	"mneme/internal/testing/logfault"
	"mneme/memory"
	"mneme/versionlog"
)

// renamed is a file that is renamed over a memory: the memory's next version, with the
// removal of the file's own in the same commit.
type renamed struct {
	*staged
	from  string
	newer *versionlog.Version
}

func (m *renamed) LostReply() *LostReply { return nil }

func (m *renamed) Draft(decided string) (*Draft, error) {
	d, err := m.staged.Draft(decided)
	if d != nil {
		d.Unchanged = false
		d.Also = []memory.Change{{Action: versionlog.Remove, Path: m.from, Expect: versionlog.ExpectExists()}}
	}
	return d, err
}

func (m *renamed) Committed(d *Draft, v *versionlog.Version, c *versionlog.Commit) {
	if m.newer = d.Newer; c != nil {
		m.r.brought(c)
	}
	m.staged.Committed(d, v, c)
}

// TestRenameOver: a file renamed over a memory is its next version. Where the memory has
// the same bytes already, only the file goes; what has replaced them since is told.
func TestRenameOver(t *testing.T) {
	for name, theirs := range map[string]string{"other bytes": "", "same bytes": "/a", "same bytes, changed since": "newer"} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil, "/a", "/b")
			r.read("/a")
			r.read("/b")
			if theirs != "" {
				r.theirs("/b", "/a")
				r.follow()
				r.read("/b")
			}
			m := &renamed{staged: r.open("/b", false), from: "/a"}
			m.write("/a")
			m.base = r.heads["/b"]
			if theirs == "newer" {
				r.log.Next(logfault.AfterCommit, func() { r.theirs("/b", "newer") })
			}
			r.must(r.s.Save(t.Context(), m, nil))
			if (m.newer != nil) != (theirs == "newer") {
				t.Errorf("newer is %v", m.newer)
			}
			r.wantText("/a", "")
			r.wantAsLog()
			r.wantSettled()
			if k := r.s.Known().Of("/a"); !k.IsKnown() || k.Head() != nil {
				t.Error("the session does not know that it has left nothing behind")
			}
		})
	}
}

// TestRenameOverInDoubt: a rename whose reply was lost is not repeated; when it turns up it is
// the session's own.
func TestRenameOverInDoubt(t *testing.T) {
	r := newRig(t, nil, "/a", "/b")
	m := &renamed{staged: r.open("/b", false), from: "/a"}
	m.write("/a's")
	r.log.SetFates(logfault.Unheard)
	wantErr(t, r.s.Save(t.Context(), m, nil), errDown)
	if r.s.IsInDoubt(m.LostReply()) {
		t.Error("somebody is to repeat it")
	}
	r.follow()
	if r.s.Admit("/b", r.heads["/b"]) != nil {
		t.Error("the session does not know its own commit")
	}
	r.wantAsLog()
	r.wantSettled()
}
