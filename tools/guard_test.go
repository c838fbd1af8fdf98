package tools

import (
	"strings"
	"testing"

	"mneme/errkind"
	"mneme/memory"
	"mneme/session"
	"mneme/versionlog"
)

// TestGuardedEdit replaces most of a file, which the guard of its store holds back: the model is
// told, and what it would have made of the file is kept, so that a person can confirm it. The model
// cannot, by resolving the conflict.
func TestGuardedEdit(t *testing.T) {
	policy := versionlog.Policy{Guard: versionlog.Guard{ShrinkPercent: 50}}
	r := newRig(t, &rigOptions{create: memory.StoreOptions{Policy: policy}})
	long := strings.Repeat("x", 1100)
	r.theirs("/f", long)
	got := r.fail("Error: The policy of the store holds back this change", "str_replace", "path", "/memories/f", "old_str", long, "new_str", "short")
	if got.Error.Kind != errkind.Policy || got.Error.Retry != Never || got.Error.Conflict != 1 {
		t.Errorf("it fails with %+v", got.Error)
	}
	for _, resolution := range []session.Resolution{{Take: session.Yours}, {Take: session.Given, Data: []byte("short")}} {
		_, err := r.Resolve(t.Context(), "notes", 1, resolution)
		wantError(t, err, errkind.Policy, "Error: The policy of the store holds back")
	}
	r.holds("/f", long)
	r.kept("short")
}
