package app

import (
	"strings"
	"testing"
	"time"

	"mneme/versionlog"
)

// TestAdviseQuota: each bound of a quota has advice that names its option.
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
	// The advice for an agent names the person to ask. For other errors it is that for a person.
	if err := quota.CheckStore(versionlog.Tip{}, time.Now(), versionlog.Usage{Bytes: 2}); AdviseMount(err) != adviseQuota(err) {
		t.Errorf("in a mount: %q", AdviseMount(err))
	}
	if got := AdviseMount(versionlog.ErrCorrupt); got != advice(versionlog.ErrCorrupt) || got == "" {
		t.Errorf("in a mount, of damage: %q", got)
	}
	if got := adviseQuota(versionlog.ErrConflict); got != "" {
		t.Errorf("of another error: %q", got)
	}
}
