package session

import (
	"strings"
	"testing"

	"mneme/memory"
	"mneme/versionlog"
)

// aKey is a credential that no service has issued. It is written here in parts, so that no
// scanner takes this file for one that holds any.
const aKey = "AK" + "IA" + "Q7XK2M5PLW3RT6ZB"

func (r *rig) setSecrets(rule versionlog.SecretsRule) {
	r.Helper()
	_, err := r.lib.UpdateStore(r.Context(), r.mine.Info().ID, versionlog.StoreUpdate{Secrets: (*string)(&rule)}, versionlog.Actor{Kind: versionlog.ActorUser, ID: "me"})
	r.must(err)
}

// TestSecretsAreToldOf holds that a session that brings a credential into a store that warns of
// them is told in the journal, until the memory has none, and by each way of writing.
func TestSecretsAreToldOf(t *testing.T) {
	var lines []string
	opts := keeping(t)
	opts.Warn = func(line string) { lines = append(lines, line) }
	r := newRig(t, opts, "/a")
	r.setSecrets(versionlog.SecretsWarn)
	told := func(path string, want bool) {
		t.Helper()
		text := `"notes:` + path + `" was saved, but line 1 has what looks like a credential (aws-access-key-id)`
		journal := string(r.s.Journal().Lines())
		if strings.Contains(journal, text) != want || strings.Contains(journal, aKey[4:]) {
			t.Errorf("%s: the journal has\n%swant %q there: %v", path, journal, text, want)
		}
		if got := len(lines) == 1 && strings.Contains(lines[0], text); got != want {
			t.Errorf("%s: told are %q, want one: %v", path, lines, want)
		}
		lines = nil
	}
	st := r.open("/a", false)
	st.write(aKey)
	r.must(st.save())
	told("/a", true)
	st.write(aKey + "\nmore")
	r.must(st.save())
	if journal := string(r.s.Journal().Lines()); !strings.Contains(journal, "/a") || len(lines) > 0 {
		t.Errorf("after another save of the same credential, told are %q, and the journal has\n%s", lines, journal)
	}
	_, err := r.s.Write(t.Context(), "/a", []byte("clean"), nil)
	r.must(err)
	told("/a", false)

	var found []memory.SecretsFound
	own := &WriteOptions{Warn: func(f memory.SecretsFound) { found = append(found, f) }}
	_, err = r.s.Write(t.Context(), "/w", []byte(aKey), own)
	r.must(err)
	told("/w", true)
	_, err = r.s.Append(t.Context(), "/p", []byte(aKey), own)
	r.must(err)
	told("/p", true)
	_, err = r.s.Edit(t.Context(), "/e", func(Seen) ([]byte, error) { return []byte(aKey), nil }, own)
	r.must(err)
	told("/e", true)
	if len(found) != 3 {
		t.Errorf("%d are told to the caller, want 3", len(found))
	}
}

// TestSecretsAreHeldBack holds that a text with a credential, in a store that refuses them, is
// kept once, that restoring an earlier version obeys the rule, and that confirming makes both.
func TestSecretsAreHeldBack(t *testing.T) {
	r := newRig(t, keeping(t))
	had := r.theirs("/f", aKey)
	r.theirs("/f", "without")
	r.follow()
	r.setSecrets(versionlog.SecretsRefuse)
	st := r.open("/f", false)
	st.write("key " + aKey)
	for range 2 {
		wantErr(t, st.save(), memory.ErrSecrets)
	}
	r.wantText("/f", "without")
	r.wantKept("key " + aKey)
	if journal := string(r.s.Journal().Lines()); !strings.Contains(journal, "line 1 has what looks like a credential (aws-access-key-id)") {
		t.Errorf("the journal has\n%s", journal)
	}
	_, err := r.s.Restore(t.Context(), "/f", had, nil)
	wantErr(t, err, memory.ErrSecrets)
	_, err = r.s.Conflicts().Resolve(t.Context(), 1, Resolution{Take: Yours, Confirmed: true})
	r.must(err)
	r.wantText("/f", "key "+aKey)
	_, err = r.s.Write(t.Context(), "/f", []byte("without"), nil)
	r.must(err)
	_, err = r.s.Restore(t.Context(), "/f", had, &WriteOptions{Confirmed: true})
	r.must(err)
	r.wantText("/f", aKey)
}
