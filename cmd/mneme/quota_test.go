package main

import (
	"strings"
	"testing"
	"time"

	"mneme/versionlog"
)

// Each bound of a quota has advice that names its option.
func TestAdviseQuota(t *testing.T) {
	quota := versionlog.Quota{Bytes: 1, Memories: 1, PerHour: 1}
	for option, more := range map[string]versionlog.Usage{
		"--quota-bytes`": {Bytes: 2}, "--quota-memories`": {Memories: 2}, "--quota-versions`": {LastHour: 2},
	} {
		if got := adviseQuota(quota.CheckSession(versionlog.Usage{}, more)); !strings.HasSuffix(got, "`mneme mount "+option) {
			t.Errorf("%+v of a session: %q, want %s", more, got, option)
		}
		if got := adviseQuota(quota.CheckStore(versionlog.Tip{}, time.Now(), more)); !strings.HasSuffix(got, "`mneme store update "+option) {
			t.Errorf("%+v of a store: %q, want %s", more, got, option)
		}
	}
	if got := adviseQuota(versionlog.ErrConflict); got != "" {
		t.Errorf("of another error: %q", got)
	}
}
