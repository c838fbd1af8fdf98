package fusefs

import (
	"context"
	"fmt"
	"time"

	"mneme/versionlog"
)

// recount returns the tip of a log in which c has erased versions, whose sizes are no longer
// known. It returns nil for other commits, and if the log cannot be asked: the erased bytes then
// count until the next time.
func (s *store) recount(ctx context.Context, c *versionlog.Commit) *versionlog.Tip {
	if !c.Erases() {
		return nil
	}
	tip, err := s.tip(ctx)
	if err != nil {
		return nil
	}
	return &tip
}

// useLocked takes in the next commit. One that a recount has seen is in it.
func (s *store) useLocked(c *versionlog.Commit, recounted *versionlog.Tip) {
	switch {
	case recounted != nil:
		s.used.tip = *recounted
	case c.Seq > s.used.tip.Seq:
		s.used.tip = s.used.tip.After(c)
	}
	s.used.store = s.used.store.After(c, false)
}

// usageLocked is what has been used, and the quota.
func (s *store) usageLocked() (versionlog.Usage, versionlog.Quota) {
	return s.used.tip.UsedAt(time.Now()), s.used.store.Quota
}

// usageLines are lines of a status; of a quota, those of its bounds that are set.
func usageLines(used versionlog.Usage, quota versionlog.Quota) [][2]any {
	lines := [][2]any{{"history-bytes", used.Bytes}, {"versions-this-hour", used.LastHour}}
	for _, bound := range []struct {
		key string
		n   int64
	}{{"quota-bytes", quota.Bytes}, {"quota-memories", quota.Memories}, {"quota-versions", quota.PerHour}} {
		if bound.n > 0 {
			lines = append(lines, [2]any{bound.key, fmt.Sprint(bound.n)})
		}
	}
	return lines
}
