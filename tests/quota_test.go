package tests

import (
	"strings"
	"testing"
)

// TestQuotas holds that a mount adds to a store's history what its quota allows, and
// leaves the disk's reserve alone; that what it is refused changes nothing; and that
// deleting, and people, are not bounded.
func TestQuotas(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		flags   []string
		fill    string // what is allowed
		over    string // what is not
		message string
	}{
		"bytes":    {[]string{"--quota-bytes=300"}, `for i in 1 2 3; do head -c 90 /dev/zero | tr '\0' $i > f; done`, `head -c 90 /dev/zero | cat > f`, "Disk quota exceeded"},
		"memories": {[]string{"--quota-memories=2"}, `echo 1 > f; echo 2 > g; echo 3 > f`, `echo 4 | cat > h`, "Disk quota exceeded"},
		"versions": {[]string{"--quota-versions=3"}, `echo 1 > f; echo 2 > f; mv f g; cp g f 2>/dev/null || true`, `mv g h`, "Disk quota exceeded"},
		"reserve":  {[]string{"--min-free=1000000TiB"}, `true`, `echo 1 | cat > f`, "No space left on device"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			e.store("notes")
			e.mustIn(t, "old\n", "write", "notes:/old")
			m := e.mount(t, append([]string{"notes"}, test.flags...)...)
			m.sh(t, test.fill)
			before := m.sh(t, `ls; cat *`)
			if message := m.sh(t, `{ ! `+test.over+`; } 2>&1`); !strings.Contains(message, test.message) {
				t.Errorf("what is over the quota is told %q, want %q", message, test.message)
			}
			if after := m.sh(t, `ls; cat *`); after != before {
				t.Errorf("what was refused has left %q, want %q", after, before)
			}
			m.sh(t, `grep -q -e quota -e min-free .mneme/errors; rm old; ! ls old 2> /dev/null`)
			e.mustIn(t, "by a person\n", "write", "notes:/people")
		})
	}
}
