package use

import (
	"strings"
	"testing"

	"mneme/tests/harness"
)

// TestSecrets holds that a store which is made by the command line tells a program's user in
// .mneme/errors that a file was saved with a credential in it, and that one which refuses them,
// from when that is set on, fails with EPERM, keeps the bytes, for the session and for people, and
// lets all else pass: files that had one before, too.
func TestSecrets(t *testing.T) {
	t.Parallel()
	e := harness.NewEnv(t)
	e.Must(t, "store", "create", "notes")
	m := e.Mount(t, "notes")
	// In parts, so that no scanner takes this file for one that holds any.
	m.Sh(t, `echo fine > other.md; printf 'first\nkey: %s%s\n' AKI AQ7XK2M5PLW3RT6ZB > keys.md
		grep -q '"notes:/keys.md" was saved, but line 2 has what looks like a credential (aws-access-key-id)' .mneme/errors
		echo more >> keys.md; grep -q '"notes:/keys.md" was saved' .mneme/errors; ! grep -q Q7XK2 .mneme/errors`)
	e.Must(t, "store", "update", "notes", "--secrets", "refuse")
	for what, script := range map[string]string{
		"shell":  `{ ! cp keys.md copy.md; } 2>&1`,
		"editor": `{ cp keys.md .other.md.swp; ! mv .other.md.swp other.md; } 2>&1`,
	} {
		if message := m.Sh(t, script); !strings.Contains(message, "Operation not permitted") {
			t.Errorf("%s: it is told %q", what, message)
		}
	}
	// Another session is shown nothing of a refused text; people are.
	other := e.Mount(t, "notes")
	other.Sh(t, `test -z "$(ls .mneme/conflicts)"; ! cat .mneme/conflicts/1/yours; ! cat .mneme/conflicts/1/about.json; ! grep copy.md .mneme/errors; echo mine > other.md`)
	m.Sh(t, `test "$(ls .mneme/conflicts)" = "$(printf '1\n2')"`)
	if list := e.Must(t, "conflicts", "list", "notes"); !strings.Contains(list, "/copy.md") {
		t.Errorf("people are told %s", list)
	}
	m.Sh(t, `test "$(cat other.md)" = mine; grep -q "/copy.md.*held back by the store's rule for secrets.*line 2 has what looks like a credential (aws-access-key-id)" .mneme/errors
		grep -q 'mneme conflicts resolve' .mneme/errors; cmp .mneme/conflicts/1/yours keys.md; ! grep -q Q7XK2 .mneme/errors
		echo again >> keys.md; mv keys.md moved.md; mv moved.md keys.md; echo 'no key' > keys.md; ! grep -q '"notes:/keys.md" was saved' .mneme/errors`)
}
