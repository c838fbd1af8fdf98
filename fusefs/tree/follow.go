package tree

import (
	"context"

	"mneme/versionlog"
)

// ShownLocked notes that the tree shows c, the next commit of the log, and all before.
func (t *Tree) ShownLocked(c *versionlog.Commit) {
	t.applied, t.appliedDigest = c.Seq, c.Digest
	t.NoteFreedLocked(c)
	if t.followed != nil {
		close(t.followed)
		t.followed = nil
	}
}

// AwaitApplied waits until every commit up to seq is in the tree, or ctx ends.
func (t *Tree) AwaitApplied(ctx context.Context, seq uint64) error {
	for {
		t.mu.Lock()
		if t.applied >= seq {
			t.mu.Unlock()
			return nil
		}
		if t.followed == nil {
			t.followed = make(chan struct{})
		}
		followed := t.followed
		t.mu.Unlock()
		select {
		case <-followed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Shown is the commit that the tree has got to.
func (t *Tree) Shown() versionlog.Tip {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return versionlog.Tip{Seq: t.applied, Digest: t.appliedDigest}
}

// BeginAt notes that the tree begins as the log is at a tip: what comes after is followed.
func (t *Tree) BeginAt(tip versionlog.Tip) { t.applied, t.appliedDigest = tip.Seq, tip.Digest }

// IsAwaitedLocked reports whether a caller waits for the tree to show more.
func (t *Tree) IsAwaitedLocked() bool { return t.followed != nil }
