package fusefs

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"mneme/versionlog"
)

// otherHistory is a log whose tip, or whose commits, are of another history when the
// test says so.
type otherHistory struct {
	versionlog.Log
	tip    func(versionlog.Tip) versionlog.Tip
	commit atomic.Pointer[error] // of the mount's commits
}

func (l *otherHistory) Tip(ctx context.Context, store string) (versionlog.Tip, error) {
	tip, err := l.Log.Tip(ctx, store)
	if l.tip != nil {
		tip = l.tip(tip)
	}
	return tip, err
}

func (l *otherHistory) Commit(ctx context.Context, store string, p *versionlog.Proposal) (*versionlog.Commit, error) {
	if err := l.commit.Load(); err != nil && p.Session != "" {
		return nil, *err
	}
	return l.Log.Commit(ctx, store, p)
}

// TestRewritten holds that a mount takes no writes, and says why, once it finds that
// the history is not the one it shows.
func TestRewritten(t *testing.T) {
	lost := error(versionlog.ErrRewritten)
	for name, happen := range map[string]func(r *rig, l *otherHistory){
		"the tip is behind": func(r *rig, l *otherHistory) {
			l.tip = func(tip versionlog.Tip) versionlog.Tip { tip.Seq--; return tip }
			_ = r.s.catchUp(t.Context())
		},
		"the tip is another commit": func(r *rig, l *otherHistory) {
			l.tip = func(tip versionlog.Tip) versionlog.Tip { tip.Digest[0] ^= 1; return tip }
			_ = r.s.catchUp(t.Context())
		},
		"a commit follows another": func(r *rig, _ *otherHistory) {
			shown := r.s.tree.Shown()
			shown.Digest[0] ^= 1
			r.s.tree.BeginAt(shown)
			r.write("/b", "text")
			r.s.follow(r.Context()) // which ends by itself
			if r.s.tree.Root().ChildLocked("b") != nil {
				r.Error("the commit of the other history is shown")
			}
		},
		"a commit is refused": func(r *rig, l *otherHistory) {
			l.commit.Store(&lost)
			if status := r.rename("/a", "/c", 0); status.Ok() {
				r.Error("renamed all the same")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "/a")
			r.options().Advise = func(error) string { return "look with fsck" }
			r.must(r.s.tree.Walk(t.Context()))
			l := &otherHistory{Log: r.log.Log}
			r.log.Log = l
			happen(r, l)
			l.tip = nil
			l.commit.Store(nil)
			status, entries := string(r.s.statusText()), r.errorsSay()
			if !strings.Contains(status, "access: read-only\n") || !regexp.MustCompile(`\nstate: rewritten: .*; look with fsck\n`).MatchString(status) {
				t.Errorf("status:\n%s", status)
			}
			if !strings.Contains(entries, versionlog.ErrRewritten.Error()) || !strings.Contains(entries, "takes no more writes") || !strings.Contains(entries, "; look with fsck (") {
				t.Errorf("errors: %q", entries)
			}
			if status := r.rename("/a", "/d", 0); syscall.Errno(status) != syscall.EROFS {
				t.Errorf("a rename: %v, want EROFS", status)
			}
			if err := r.s.commit(nil, nil); !errors.Is(err, versionlog.ErrRewritten) {
				t.Errorf("a commit: %v, want ErrRewritten", err)
			}
		})
	}
}
