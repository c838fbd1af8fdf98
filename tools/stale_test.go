package tools

import (
	"regexp"
	"strings"
	"testing"

	"mneme/errkind"
	"mneme/internal/testing/logfault"
	"mneme/versionlog"
)

// since is how a text tells of another session's change of /memories/f.
const since = `/memories/f changed since you read it \(version [0-9]+ by session "other", [0-9]+s ago\)`

func matches(t *testing.T, text, pattern string) {
	t.Helper()
	if !regexp.MustCompile("^" + pattern + "$").MatchString(text) {
		t.Errorf("%q does not match %s", text, pattern)
	}
}

// TestStaleReplace: old_str that is once in the newest version is replaced there, however old
// the view is, and the answer says so. If it was once in what was viewed, and is not any
// more, the text is kept.
func TestStaleReplace(t *testing.T) {
	r := newRig(t, nil)
	r.theirs("/f", "one\ntwo\nthree\n")
	r.do("Here's", "view", "path", "/memories/f")
	r.theirs("/f", "zero\none\ntwo\nthree\n")
	got := r.do("The memory file", "str_replace", "path", "/memories/f", "old_str", "two", "new_str", "2")
	matches(t, got.Text, "The memory file has been edited.\n     1\tzero\n     2\tone\n     3\t2\n     4\tthree\n     5\t\n\n"+
		"Note: "+since+`\. Your edit was made on the newest version; view the file again before you rely on the rest\.`)
	r.holds("/f", "zero\none\n2\nthree\n")

	r.do("Here's", "view", "path", "/memories/f")
	r.theirs("/f", "zero\nONE\n2\nthree\n")
	refused := r.fail("Error: ", "str_replace", "path", "/memories/f", "old_str", "one", "new_str", "1")
	matches(t, refused.Text, "Error: "+since+"; read it again and redo your edit; your text is kept in conflict 1")
	if e := *refused.Error; e.Kind != errkind.Conflict || e.Retry != AfterView || e.Conflict != 1 || e.Unsure {
		t.Errorf("%+v", e)
	}
	r.kept("zero\n1\n2\nthree\n")
	r.holds("/f", "zero\nONE\n2\nthree\n")
	r.fail("No replacement was performed, old_str `four` did not", "str_replace", "path", "/memories/f", "old_str", "four", "new_str", "4")
	r.do("Here's", "view", "path", "/memories/f")
	plain := r.do("The memory file", "str_replace", "path", "/memories/f", "old_str", "ONE", "new_str", "1")
	if strings.Contains(plain.Text, "Note:") {
		t.Errorf("after a view there is nothing to note: %q", plain.Text)
	}
}

// TestStaleInsert: a line number is one of the version that was viewed.
func TestStaleInsert(t *testing.T) {
	r := newRig(t, nil)
	r.theirs("/f", "one\ntwo\n")
	r.do("The file", "insert", "path", "/memories/f", "insert_line", 0, "insert_text", "never viewed")
	r.holds("/f", "never viewed\none\ntwo\n")
	r.do("Here's", "view", "path", "/memories/f")
	r.theirs("/f", "zero\nnever viewed\none\ntwo\n")
	for range 2 {
		got := r.fail("Error: ", "insert", "path", "/memories/f", "insert_line", 2, "insert_text", "mine")
		matches(t, got.Text, "Error: "+since+"; read it again and redo your edit; your text is kept in conflict 1")
	}
	r.kept("never viewed\none\nmine\ntwo\n")
	r.holds("/f", "zero\nnever viewed\none\ntwo\n")
	r.do("Here's", "view", "path", "/memories/f", "view_range", []int{1, 1})
	r.do("The file", "insert", "path", "/memories/f", "insert_line", 3, "insert_text", "mine")
	r.holds("/f", "zero\nnever viewed\none\nmine\ntwo\n")
	r.fail("Error: Invalid `insert_line` parameter: 9.", "insert", "path", "/memories/f", "insert_line", 9, "insert_text", "x")
}

// TestStaleAfterReplace: a file that a str_replace has changed on top of another session's
// version is not known by that, so that an insert behind a line is refused.
func TestStaleAfterReplace(t *testing.T) {
	r := newRig(t, nil)
	r.theirs("/f", "one\ntwo\n")
	r.do("Here's", "view", "path", "/memories/f")
	r.theirs("/f", "zero\none\ntwo\n")
	r.do("The memory file", "str_replace", "path", "/memories/f", "old_str", "two", "new_str", "2")
	r.fail("Error: ", "insert", "path", "/memories/f", "insert_line", 1, "insert_text", "mine")
	r.kept("one\nmine\ntwo\n")
	r.fail("Error: ", "delete", "path", "/memories/f")
	r.holds("/f", "zero\none\n2\n")
}

// TestStaleRace: another session is faster during the call itself.
func TestStaleRace(t *testing.T) {
	r := newRig(t, nil)
	r.theirs("/f", "one\ntwo\n")
	r.do("Here's", "view", "path", "/memories/f")
	r.log.Next(logfault.BeforeCommit, func() { r.theirs("/f", "one\ntwo\nthree\n") })
	got := r.do("The memory file", "str_replace", "path", "/memories/f", "old_str", "one", "new_str", "1")
	matches(t, got.Text[strings.Index(got.Text, "Note:"):], "Note: "+since+`\. Your edit.*`)
	r.holds("/f", "1\ntwo\nthree\n")
	r.do("Here's", "view", "path", "/memories/f")
	r.log.Next(logfault.BeforeCommit, func() { r.theirs("/f", "1\nthree\n") })
	r.fail("Error: ", "insert", "path", "/memories/f", "insert_line", 2, "insert_text", "mine")
	r.kept("1\ntwo\nmine\nthree\n")
	r.do("Here's", "view", "path", "/memories/f")
	r.log.Next(logfault.BeforeCommit, func() { r.must(remove(r, "/f")) })
	got = r.fail("Error: /memories/f was removed or renamed since you read it; ", "str_replace", "path", "/memories/f", "old_str", "three", "new_str", "3")
	if got.Error.Conflict != 2 {
		t.Errorf("%+v", got.Error)
	}
	r.theirs("/never", "x")
	r.log.Next(logfault.BeforeCommit, func() { r.must(remove(r, "/never")) })
	r.fail("The file /memories/never no longer exists (may have been", "str_replace", "path", "/memories/never", "old_str", "x", "new_str", "y")
}

func remove(r *rig, path string) error {
	_, err := r.stores[0].Remove(r.Context(), path, versionlog.ExpectAny())
	return err
}

// TestStaleMerge: a Memory that merges brings changes of other lines together.
func TestStaleMerge(t *testing.T) {
	r := newRig(t, &rigOptions{tools: Options{Merge: true}})
	r.theirs("/f", "one\ntwo\nthree\nfour\nfive\n")
	r.do("Here's", "view", "path", "/memories/f")
	r.theirs("/f", "ONE\ntwo\nthree\nfour\nfive\n")
	got := r.do("The file /memories/f has been edited.\n\nNote: ", "insert", "path", "/memories/f", "insert_line", 4, "insert_text", "mine")
	r.holds("/f", "ONE\ntwo\nthree\nfour\nmine\nfive\n")
	if got.Made[0].Seq != 3 || got.Made[0].Path != "/memories/f" {
		t.Errorf("%+v", got.Made)
	}
	r.do("Here's", "view", "path", "/memories/f")
	r.theirs("/f", "ONE\ntwo\nthree\nFOUR\nmine\nfive\n")
	r.fail("Error: ", "insert", "path", "/memories/f", "insert_line", 4, "insert_text", "again")
	r.kept("ONE\ntwo\nthree\nfour\nagain\nmine\nfive\n")
}

// TestStaleDelete: what another session has changed is not deleted, alone or with its
// directory; what is renamed goes along with that change.
func TestStaleDelete(t *testing.T) {
	r := newRig(t, nil)
	r.theirs("/d/f", "one")
	r.theirs("/d/g", "one")
	r.do("Here's", "view", "path", "/memories/d/f")
	r.theirs("/d/f", "two")
	for _, path := range []string{"/memories/d/f", "/memories/d"} {
		got := r.fail("Error: /memories/d/f changed since you read it (version 3 ", "delete", "path", path)
		if got.Error.Retry != AfterView || got.Error.Conflict != 0 {
			t.Errorf("%+v", got.Error)
		}
	}
	r.do("Successfully renamed", "rename", "old_path", "/memories/d", "new_path", "/memories/e")
	r.holds("/e/f", "two")
	r.do("Here's", "view", "path", "/memories/e/f")
	got := r.do("Successfully deleted /memories/e", "delete", "path", "/memories/e")
	if len(got.Made) != 2 || got.Made[0].Path != "/memories/e/f" {
		t.Errorf("%+v", got.Made)
	}
}

// TestViewedIsMeant: what the agent was shown whole it replaces or deletes at once, whatever that
// takes back of another session. Lines of a file, and what a search shows, are not that.
func TestViewedIsMeant(t *testing.T) {
	for name, look := range map[string]struct {
		at    func(*rig)
		whole bool
	}{
		"view":         {func(r *rig) { r.do("Here's", "view", "path", "/memories/f") }, true},
		"view of all":  {func(r *rig) { r.do("Here's", "view", "path", "/memories/f", "view_range", []int{1, -1}) }, true},
		"view of some": {func(r *rig) { r.do("Here's", "view", "path", "/memories/f", "view_range", []int{1, 1}) }, false},
		"read":         {func(r *rig) { _, err := r.Read(r.Context(), ReadQuery{Path: "/memories/f"}); r.must(err) }, true},
		"read of some": {func(r *rig) { _, err := r.Read(r.Context(), ReadQuery{Path: "/memories/f", Lines: 1}); r.must(err) }, false},
		"read, cut":    {func(r *rig) { _, err := r.Read(r.Context(), ReadQuery{Path: "/memories/f", MaxChars: 5}); r.must(err) }, false},
		"search": {func(r *rig) {
			r.do("Here's", "view", "path", "/memories/f", "view_range", []int{1, 1})
			_, _, err := r.Search(r.Context(), Query{Text: NewSecret("e")})
			r.must(err)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, &rigOptions{tools: Options{Overwrite: true}})
			r.theirs("/f", "one\n")
			r.do("Here's", "view", "path", "/memories/f")
			r.theirs("/f", "one\ntheirs\n")
			look.at(r)
			wants := map[bool]string{true: "", false: "Error: /memories/f"}[look.whole]
			got := r.call("create", "path", "/memories/f", "file_text", "one\nmine\n")
			if (got.Error == nil) != look.whole || !strings.HasPrefix(got.Text, wants) {
				t.Errorf("%q, %+v", got.Text, got.Error)
			}
			if look.whole {
				r.holds("/f", "one\nmine\n")
				r.kept()
			} else {
				r.holds("/f", "one\ntheirs\n")
			}
		})
	}
}

// TestOverwrite: create replaces what the session has seen, and nothing else.
func TestOverwrite(t *testing.T) {
	r := newRig(t, &rigOptions{tools: Options{Overwrite: true}})
	r.do("File created", "create", "path", "/memories/f", "file_text", "one")
	r.do("File created", "create", "path", "/memories/f", "file_text", "two")
	r.holds("/f", "two")
	r.theirs("/f", "theirs")
	r.fail("Error: /memories/f changed since you read it", "create", "path", "/memories/f", "file_text", "three")
	r.kept("three")
}
