package plugin

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"mneme/memory"
)

// hostile are ids that would lead elsewhere, or cannot be names.
var hostile = []string{
	"..", ".", "../..", "../../etc/passwd", "/", "/etc", "a/b", "a\\b", "..\\..", "%2e%2e%2f", "a\x00b", "a\nb", "\x1b[31m", "a\u202eb", "\u200b", " ", "  ",
	".hidden", ".mneme", "CON", "e\u0301", "\u3164", "\ufffd", "\xff", "a\ufe0f", "👍", "a b", "agent://x/y?z", strings.Repeat("x", 121), strings.Repeat("x", 100_000), strings.Repeat("é", 61), strings.Repeat("\u0301", 300), strings.Repeat("..", 500),
}

// TestNames: every id becomes a name that a memory may have, which leads nowhere, and two ids
// become two.
func TestNames(t *testing.T) {
	for id, want := range map[string]string{"t1": "t1", "run_7-a.b@c+d=e": "run_7-a.b@c+d=e", "é": "é", "日本語": "日本語", strings.Repeat("x", 120): strings.Repeat("x", 120)} {
		if got := nameOf(id); got != want {
			t.Errorf("%q is %q, want %q", id, got, want)
		}
	}
	sum := sha256.Sum256([]byte("a/b"))
	if got := nameOf("a/b"); got != fmt.Sprintf("a-b-%x", sum[:16]) {
		t.Errorf("a/b is %q", got)
	}
	seen := map[string]string{}
	for _, id := range hostile {
		// A text in the form of such an id's name is not used as a name.
		for _, id := range []string{id, nameOf(id), strings.ToUpper(id) + "1"} {
			checkName(t, seen, id)
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		seen := map[string]string{}
		part := rapid.SampledFrom([]string{"a", "-", "/", ".", "..", "%2f", "é", "e\u0301", "\x00", "\u200d", "\u3164", "👍", strings.Repeat("z", 60)})
		for range 20 {
			checkName(rt, seen, strings.Join(rapid.SliceOfN(part, 1, 5).Draw(rt, "id"), ""))
		}
	})
}

func checkName(t rapid.TB, seen map[string]string, id string) {
	name := nameOf(id)
	canonical, err := memory.ParseName(name)
	if err != nil || canonical != name || memory.CheckNew(name) != nil || len(name) > maxName || name[0] == '.' || name[0] == '-' || strings.ContainsAny(name, "/\\% ") || !utf8.ValidString(name) {
		t.Errorf("%.60q is %q: %v, %v", id, name, err, memory.CheckNew(name))
	}
	if other, there := seen[name]; there && other != id {
		t.Errorf("%.60q and %.60q are both %q", id, other, name)
	}
	seen[name] = id
	if path := pathOf(id, id); len(path) > memory.MaxPathBytes || strings.Count(path, "/") != 3 {
		t.Errorf("the path of %.60q is %q", id, path)
	}
}

// TestHostileIDs: such turns are remembered, each for itself.
func TestHostileIDs(t *testing.T) {
	r := newRig(t, nil)
	number := uint64(0)
	for _, id := range hostile {
		b := turnOne(id, id, "text")
		if !utf8.ValidString(id) {
			r.result(r.Remember(t.Context(), b), Refused, 0, "invalid: field thread_id: it is not Unicode")
			continue
		}
		if len(id) > 50_000 {
			r.result(r.Remember(t.Context(), b), Refused, 0, "too_large: ")
			continue
		}
		receipt := r.result(r.Remember(t.Context(), b), Written, 1, "")
		if path := receipt.Entries[0].Path; !strings.HasPrefix(path, "/threads/") {
			t.Errorf("%q is at %s", id, path)
		}
		number++
		r.result(r.Remember(t.Context(), b), Already, 0, "")
	}
	r.commits(number)
}
