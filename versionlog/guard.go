package versionlog

import (
	"cmp"
	"fmt"

	"mneme/errkind"
)

// ErrGuarded matches every *GuardError, under errors.Is.
var ErrGuarded = errkind.New(errkind.Policy, "held back by the store's guard")

// GuardedSize is the least size in bytes of a memory that Guard.ShrinkPercent protects.
const GuardedSize = 1024

// GuardError says which bound of a store's guard a commit would pass. The same commit
// passes if it is confirmed.
type GuardError struct {
	// Path is that of the memory which would shrink; "" where too many would be deleted.
	Path         string
	Before, Then int64 // its size in bytes

	Deleted, More int64 // what the session has deleted within a minute, and would delete
	Limit         int64 // percent, or deletions a minute
}

// Error gives the figures.
func (e *GuardError) Error() string {
	if e.Path != "" {
		return fmt.Sprintf("%v: %s would go from %d to %d bytes, and one version may take away at most %d percent", ErrGuarded, e.Path, e.Before, e.Then, e.Limit)
	}
	return fmt.Sprintf("%v: this deletes %s, and the session has deleted %d within a minute; it may delete %d", ErrGuarded, memories(e.More), e.Deleted, e.Limit)
}

func memories(n int64) string {
	if n == 1 {
		return "1 memory"
	}
	return fmt.Sprintf("%d memories", n)
}

// Is makes every *GuardError an ErrGuarded.
func (e *GuardError) Is(target error) bool { return target == ErrGuarded }

// Kind is errkind.Policy.
func (e *GuardError) Kind() errkind.Kind { return errkind.Policy }

// DeletionsOf counts the memories that versions of one commit delete.
func DeletionsOf(versions []Version) (n int64) {
	for i := range versions {
		if versions[i].Op == OpDeleted && !versions[i].IsDir() {
			n++
		}
	}
	return n
}

// check refuses versions that take the place of heads, by path, as a *GuardError. deleted
// is how many memories their author has deleted within the last minute.
func (g *Guard) check(versions []Version, heads map[string]*Version, deleted int64) error {
	if more := DeletionsOf(versions); g.DeletesPerMinute > 0 && more > 0 && deleted+more > g.DeletesPerMinute {
		return &GuardError{Deleted: deleted, More: more, Limit: g.DeletesPerMinute}
	}
	if g.ShrinkPercent == 0 {
		return nil
	}
	for i := range versions {
		v := &versions[i]
		head := heads[cmp.Or(v.From, v.Path)]
		if v.Op == OpDeleted || head == nil || head.Size < GuardedSize {
			continue
		}
		if float64(head.Size-v.Size)*100 > float64(head.Size)*float64(g.ShrinkPercent) {
			return &GuardError{Path: v.Path, Before: head.Size, Then: v.Size, Limit: g.ShrinkPercent}
		}
	}
	return nil
}
