package tools

import (
	"fmt"
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
		_, err := r.Resolve(t.Context(), "notes", 1, resolution, "")
		wantError(t, err, errkind.Policy, "Error: The policy of the store holds back")
	}
	r.holds("/f", long)
	r.kept("short")
}

// aKey is a credential that no service has issued. It is in parts here, so that no scanner
// reports this file.
const aKey = "AK" + "IA" + "Q7XK2M5PLW3RT6ZB"

// TestSecretsAreTold writes a credential in each way into a store that warns of them: the model
// is told in the result, by the rule and the line.
func TestSecretsAreTold(t *testing.T) {
	r := newRig(t, &rigOptions{create: memory.StoreOptions{Policy: versionlog.Policy{Secrets: versionlog.SecretsWarn}}})
	r.theirs("/f", "one\ntwo\n")
	note := func(path string, line int) string {
		return fmt.Sprintf("Note: /memories/%s was saved, but line %d has what looks like a credential (aws-access-key-id). The history keeps it", path, line)
	}
	for _, result := range []Result{
		r.call("create", "path", "/memories/c", "file_text", "\n"+aKey),
		r.call("str_replace", "path", "/memories/f", "old_str", "two", "new_str", aKey),
	} {
		if result.Error != nil || !strings.Contains(result.Text, note("c", 2)) && !strings.Contains(result.Text, note("f", 2)) || strings.Contains(result.Text, note("", 0)) {
			t.Errorf("the result is %+v", result)
		}
	}
	if got := r.call("insert", "path", "/memories/f", "insert_line", 0, "insert_text", "zero\n"); strings.Contains(got.Text, "Note:") {
		t.Errorf("another change of the file ends with %q", got.Text)
	}
	made, err := r.Write(t.Context(), WriteQuery{Path: "/memories/w", Text: NewSecret(aKey)})
	if r.must(err); !strings.HasPrefix(made.Note, note("w", 1)) {
		t.Errorf("the note is %q", made.Note)
	}
}

// TestSecretsAreRefused writes a credential into a store that refuses them: the model gets
// the reason, and the text is kept for a person. A person can confirm it, and the model
// cannot.
func TestSecretsAreRefused(t *testing.T) {
	r := newRig(t, &rigOptions{create: memory.StoreOptions{Policy: versionlog.Policy{Secrets: versionlog.SecretsRefuse}}})
	r.theirs("/f", "one\n")
	got := r.fail("Error: The policy of the store holds back this change of /memories/f: line 1 has what looks like a credential (aws-access-key-id); nothing was changed", "str_replace", "path", "/memories/f", "old_str", "one", "new_str", aKey)
	if got.Error.Kind != errkind.Policy || got.Error.Retry != Never || got.Error.Conflict != 1 {
		t.Errorf("it fails with %+v", got.Error)
	}
	_, err := r.Resolve(t.Context(), "notes", 1, session.Resolution{Take: session.Yours}, "")
	wantError(t, err, errkind.Policy, "Error: The policy of the store holds back")
	r.holds("/f", "one\n")
	r.kept(aKey + "\n")
}
