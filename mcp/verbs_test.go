package mcp

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"mneme/history"
	"mneme/memory"
	"mneme/session"
	"mneme/tools"
	"mneme/versionlog"
)

// TestMemory does the commands of the memory tool.
func TestMemory(t *testing.T) {
	c := newRig(t, nil).client()
	made := c.ok("File created successfully at: /memories/plan.md", "memory", "command", "create", "path", "/memories/plan.md", "file_text", "one\ntwo\n")
	if made.field("text") != made.text() || !strings.Contains(string(made.Fields), `"path":"/memories/plan.md","version":"memver_`) {
		t.Errorf("structured result: %s", made.Fields)
	}
	c.ok("     1\tone\n     2\ttwo", "memory", "command", "view", "path", "/memories/plan.md")
	c.ok("The memory file has been edited.", "memory", "command", "str_replace", "path", "/memories/plan.md", "old_str", "two", "new_str", "2")
	c.ok("The file /memories/plan.md has been edited.", "memory", "command", "insert", "path", "/memories/plan.md", "insert_line", 0, "insert_text", "zero")
	c.holds("/plan.md", "zero\none\n2\n")
	c.ok("Successfully renamed", "memory", "command", "rename", "old_path", "/memories/plan.md", "new_path", "/memories/done.md")
	c.ok("Successfully deleted /memories/done.md", "memory", "command", "delete", "path", "/memories/done.md")
	c.holds("/done.md", "")
	c.fails("Unknown command \"sudo\"", "invalid", "memory", "command", "sudo")
	c.fails("The field `file_text` is missing; create needs it.", "invalid", "memory", "command", "create", "path", "/memories/x")
	c.fails("would escape /memories directory", "invalid", "memory", "command", "view", "path", "/memories/../x")
	c.fails("The field `command` is missing", "invalid", "memory")
	c.fails("The field `path` must be a string, not a number", "invalid", "memory", "command", "delete", "path", 1)
}

// TestPicture shows one.
func TestPicture(t *testing.T) {
	c := newRig(t, &rigOptions{create: memory.StoreOptions{Content: versionlog.ContentAny}}).client()
	c.theirs("/a.png", "\x89PNG\r\n\x1a\n\x00")
	got := c.ok("/memories/a.png", "memory", "command", "view", "path", "/memories/a.png")
	if len(got.Content) != 2 || got.Content[1].Type != "image" || got.Content[1].MIMEType != "image/png" || string(got.Content[1].Data) != "\x89PNG\r\n\x1a\n\x00" {
		t.Errorf("shown as %+v", got.Content)
	}
}

// TestMemoryConflict says that an edit that another session has overtaken keeps its text, and
// names the conflict, which can be settled.
func TestMemoryConflict(t *testing.T) {
	c := newRig(t, nil).client()
	c.theirs("/a.md", "one\ntwo\n")
	c.ok("one", "memory", "command", "view", "path", "/memories/a.md")
	c.theirs("/a.md", "one\n2\n")
	lost := c.fails("/memories/a.md", "conflict", "memory", "command", "str_replace", "path", "/memories/a.md", "old_str", "two", "new_str", "mine")
	if lost.field("error", "retry") != "after_view" || lost.field("error", "conflict") != 1.0 {
		t.Errorf("structured error: %s", lost.Fields)
	}
	c.ok("1 /memories/a.md", "conflicts", "action", "list")
	shown := c.ok("yours:\none\nmine\n", "conflicts", "action", "show", "id", 1)
	if text := shown.text(); !strings.Contains(text, "base:\none\ntwo\n|theirs, now there, version ") || !strings.Contains(text, "):\none\n2\n|yours:\none\nmine\n") {
		t.Errorf("texts: %s", text)
	}
	c.fails("cannot be merged", "conflict", "conflicts", "action", "resolve", "id", 1, "take", "merge")
	c.ok("/memories/a.md has version", "conflicts", "action", "resolve", "id", 1, "take", "text", "text", "both\n")
	c.holds("/a.md", "both\n")
	c.ok("There are no conflicts.", "conflicts", "action", "list")
	c.fails("There is no conflict 1", "not_found", "conflicts", "action", "dismiss", "id", 1)
	c.fails("The field `take` must be one of yours, theirs, merge, text", "invalid", "conflicts", "action", "resolve", "id", 1, "take", "mine")
	c.fails("The field `text` is missing", "invalid", "conflicts", "action", "resolve", "id", 1, "take", "text")
	c.fails("The field `id` is missing", "invalid", "conflicts", "action", "show")
	c.fails("The field `id` is unknown", "invalid", "conflicts", "action", "list", "id", 1)
}

// TestConflictOfMovedOn says that a conflict whose file has changed since is settled by what the
// answers say.
func TestConflictOfMovedOn(t *testing.T) {
	c := newRig(t, nil).client()
	c.theirs("/a.md", "1\n")
	c.ok("1\n", "read", "path", "/memories/a.md")
	c.theirs("/a.md", "1\n2a\n")
	c.fails("/memories/a.md changed", "conflict", "write", "path", "/memories/a.md", "text", "1\n2b\n")
	c.ok("theirs, now there, version 2 (memver_", "conflicts", "action", "show", "id", 1)
	c.theirs("/a.md", "1\n2a\n3a\n")
	c.fails("/memories/a.md has changed since it was kept, version 3 (memver_", "conflict", "conflicts", "action", "resolve", "id", 1, "take", "yours", "if_version", 2)
	c.fails("/memories/a.md has changed since it was kept, version 3 (memver_", "conflict", "conflicts", "action", "resolve", "id", 1, "take", "yours")
	c.ok("now there, version 3 (memver_", "conflicts", "action", "show", "id", 1)
	c.ok("Conflict 1 is settled", "conflicts", "action", "resolve", "id", 1, "take", "text", "text", "1\n2a\n2b\n3a\n")
	c.ok("Conflict 1 is settled: /memories/a.md has version", "conflicts", "action", "resolve", "id", 1, "take", "text", "text", "1\n2a\n2b\n3a\n")
	c.fails("There is no conflict 1", "not_found", "conflicts", "action", "resolve", "id", 1, "take", "text", "text", "other")
	c.holds("/a.md", "1\n2a\n2b\n3a\n")
	c.fails("/memories is a directory", "invalid", "read", "path", "/memories")
	c.ok("No line matches. Searched 1 of 1 memory.", "search", "query", "nothing")
}

// TestDismiss settles conflicts without a change.
func TestDismiss(t *testing.T) {
	c := newRig(t, &rigOptions{stores: []string{"notes", "docs:ro"}}).client()
	for i, settle := range []string{"dismiss", "resolve"} {
		c.theirs("/a.md", fmt.Sprintf("one %d\n", i))
		c.ok("one", "read", "path", "/memories/notes/a.md")
		c.theirs("/a.md", fmt.Sprintf("theirs %d\n", i))
		c.fails("/memories/notes/a.md", "conflict", "write", "path", "/memories/notes/a.md", "text", "mine")
		args := []any{"action", settle, "store", "notes", "id", i + 1}
		if settle == "resolve" {
			args = append(args, "take", "theirs")
		}
		if got := c.ok("onflict", "conflicts", args...); got.field("settled") != float64(i+1) {
			t.Errorf("%s: %s", settle, got.Fields)
		}
		c.holds("/a.md", fmt.Sprintf("theirs %d\n", i))
	}
	c.ok("There are no conflicts.", "conflicts", "action", "list", "store", "notes")
	c.ok("There are no conflicts.", "conflicts", "action", "list")
	c.fails("There is no store none; the stores are docs and notes.", "not_found", "conflicts", "action", "list", "store", "none")
	c.fails("read-only here", "read_only", "conflicts", "action", "list", "store", "docs")
}

// TestWrite writes under conditions.
func TestWrite(t *testing.T) {
	c := newRig(t, nil).client()
	first := c.ok("Wrote /memories/a.md", "write", "path", "/memories/a.md", "text", "one", "if_version", "none", "message", "because")
	if first.field("created") != true || first.field("path") != "/memories/a.md" {
		t.Errorf("structured result: %s", first.Fields)
	}
	id := first.field("version").(string)
	second := c.ok("Wrote", "write", "path", "/memories/a.md", "text", "two", "if_version", id)
	if second.field("created") != false {
		t.Errorf("structured result: %s", second.Fields)
	}
	c.fails("/memories/a.md", "conflict", "write", "path", "/memories/a.md", "text", "three", "if_version", id)
	c.fails("/memories/a.md", "conflict", "write", "path", "/memories/a.md", "text", "three", "if_version", "none")
	c.fails("The field `if_version` must be none, a version id (memver_…) or a sequence number, not empty", "invalid", "write", "path", "/memories/a.md", "text", "three", "if_version", "")
	c.fails("The field `if_version` must be none, a version id (memver_…) or a sequence number, not another word", "invalid", "write", "path", "/memories/a.md", "text", "three", "if_version", "latest")
	c.holds("/a.md", "two")
	c.ok("Wrote", "write", "path", "/memories/a.md", "text", "three", "if_version", fmt.Sprint(second.field("seq")))
	c.holds("/a.md", "three")
	c.ok(`"because"`, "history", "path", "/memories/a.md")
}

// TestWriters says that of two that write a file on the same condition one succeeds, over and
// over, also if both write the same.
func TestWriters(t *testing.T) {
	r := newRig(t, nil)
	r.theirs("/n", "0")
	done := make(chan int)
	for range 2 {
		c := r.client()
		go func() {
			n := 0
			for n < 20 {
				got := c.tool("read", "path", "/memories/n")
				if !c.tool("write", "path", "/memories/n", "text", got.Content[1].Text+"+", "if_version", versionIn(got)).IsError {
					n++
				}
			}
			done <- n
		}()
	}
	<-done
	<-done
	r.holds("/n", "0"+strings.Repeat("+", 40))
}

// versionIn returns the id of the version of which a text tells first.
func versionIn(got *toolResult) string {
	return regexp.MustCompile(`memver_[0-9a-z]+`).FindString(got.text())
}

// TestRead reads files in parts, and earlier versions.
func TestRead(t *testing.T) {
	c := newRig(t, &rigOptions{create: memory.StoreOptions{MaxMemoryBytes: 1 << 20}}).client()
	old := c.theirs("/a.md", "old\n")
	c.theirs("/a.md", "1\n2\n3\n")
	got := c.ok("/memories/a.md, version memver_", "read", "path", "/memories/a.md", "from_line", 2, "lines", 1)
	if len(got.Content) != 2 || got.Content[1].Text != "2\n" || !strings.HasSuffix(got.Content[0].Text, ", line 2 of 3. Go on with from_line 3.") || got.Fields != nil {
		t.Errorf("the text is %+v", got.Content)
	}
	for _, version := range []string{old.ID, fmt.Sprint(old.Seq)} {
		if got := c.ok("old", "read", "path", "/memories/a.md", "version", version); versionIn(got) != old.ID {
			t.Errorf("version %s: %s", version, got.text())
		}
	}
	c.theirs("/long", strings.Repeat("0123456789\n", 20_000))
	long := c.ok("Go on with from_line", "read", "path", "/memories/long")
	next := 0
	if _, err := fmt.Sscanf(long.text()[strings.Index(long.text(), "Go on"):], "Go on with from_line %d.", &next); err != nil || next < 1000 || next > 10_000 {
		t.Errorf("of a long file, the next line is %v, %v", next, err)
	}
	c.theirs("/line", strings.Repeat("ü", tools.MaxReadChars+1)+"\nnext\n")
	if got := c.ok("The line is longer than what is shown of it.", "read", "path", "/memories/line"); !strings.Contains(got.Content[0].Text, "Go on with from_line 2.") {
		t.Errorf("of a long line: %.200s", got.text())
	}
	if got := c.ok("next", "read", "path", "/memories/line", "from_line", 2); strings.Contains(got.text(), "longer than") {
		t.Errorf("of a short line: %s", got.text())
	}
	for text, want := range map[string]string{"": "empty.", "one": "1 line.", "one\n": "1 line.", "\n": "1 line.", "one\n\n": "lines 1 to 2 of 2.", "one\ntwo": "lines 1 to 2 of 2."} {
		c.theirs("/lines", text)
		if got := c.ok(want, "read", "path", "/memories/lines"); got.Content[1].Text != text || strings.Contains(got.text(), "Go on") {
			t.Errorf("of %q: %s", text, got.text())
		}
	}
	c.ok("line 2 of 2.", "read", "path", "/memories/line", "from_line", 9)
	c.fails("does not exist", "not_found", "read", "path", "/memories/none")
	for _, one := range []any{1, json.RawMessage("1.0"), nil} { // as some hosts write numbers, and what they leave out
		c.ok("lines 1 to 3 of 3.", "read", "path", "/memories/a.md", "from_line", one, "version", json.RawMessage("2.0"), "lines", nil)
	}
	c.ok("There are no conflicts.", "conflicts", "action", "list", "store", nil, "id", nil, "take", nil)
	c.ok("1\n", "memory", "command", "view", "path", "/memories/a.md", "view_range", []any{json.RawMessage("1.0"), -1}, "file_text", nil, "paths", nil)
	c.ok("Successfully deleted", "memory", "command", "delete", "path", "/memories/lines", "paths", nil)
	c.fails("The field `path` is missing", "invalid", "read", "path", nil)
	c.fails("The field `from_line` is out of range", "invalid", "read", "path", "/memories/a.md", "from_line", -1)
}

// TestList lists and goes on.
func TestList(t *testing.T) {
	c := newRig(t, nil).client()
	for _, path := range []string{"/a.md", "/d/e/f.md", "/d/g.md", "/z.md"} {
		c.theirs(path, "text")
	}
	c.ok("/memories/a.md 4 bytes, version 1 of ", "list")
	got := c.ok("/memories/d/ 2 files, 8 bytes", "list", "path", "/memories", "depth", 1, "limit", 2)
	if got.field("next") != "/memories/d/" {
		t.Errorf("structured result: %s", got.Fields)
	}
	c.ok("/memories/z.md", "list", "depth", 1, "after", got.field("next"))
	c.theirs("/one/h.md", "h")
	c.ok("/memories/one/ 1 file, 1 byte", "list", "path", "/memories", "depth", 1)
	c.ok("/memories/one/h.md 1 byte, version 5 of ", "list", "path", "/memories/one")
	c.ok("5 created /memories/one/h.md, 1 byte, by ", "history", "path", "/memories/one/h.md")
	c.fails("does not exist", "not_found", "list", "path", "/memories/none")
}

// TestSearch says what was searched and what was not.
func TestSearch(t *testing.T) {
	c := newRig(t, &rigOptions{create: memory.StoreOptions{Content: versionlog.ContentAny}}).client()
	c.theirs("/a.md", "apple\nbanana\nApple pie\n")
	c.theirs("/b.md", strings.Repeat("apple\n", 10))
	c.theirs("/raw", "apple\x00")
	got := c.ok("/memories/a.md, version 1:\n1: apple\n/memories/b.md, version 2:\n1: apple\n2: apple\n", "search", "query", "apple")
	if !strings.HasSuffix(got.text(), "Searched 3 of 3 memories. In 1 memory more lines match than are shown. 1 is not text.") {
		t.Errorf("text: %q", got.text())
	}
	c.ok("/memories/a.md, version 1:\n1: apple\n3: Apple pie\n", "search", "query", "^app.*e$", "regex", true, "ignore_case", true)
	c.ok(`Stopped (limit) after 1 of 3 memories; go on with after "/memories/a.md".`, "search", "query", "apple", "limit", 1)
	c.ok("/memories/b.md, version 2:\n1: apple", "search", "query", "apple", "after", "/memories/a.md")
	c.ok("No line matches. Searched 3 of 3 memories. 1 is not text.", "search", "query", "cherry")
	c.fails("", "invalid", "search", "query", "(", "regex", true)
}

// TestPast tells the history, compares and restores.
func TestPast(t *testing.T) {
	c := newRig(t, nil).client()
	first := c.theirs("/a.md", "one\n")
	c.theirs("/a.md", "two\n")
	c.ok("2 modified /memories/a.md, 4 bytes, by session:other", "history", "path", "/memories/a.md")
	page := c.ok("go on with before 2", "history", "limit", 1)
	if page.field("next") != 2.0 {
		t.Errorf("structured result: %s", page.Fields)
	}
	c.ok("1 created /memories/a.md", "history", "before", page.field("next"))
	if got := c.ok("-one\n+two\n", "diff", "path", "/memories/a.md"); got.field("from") != first.ID {
		t.Errorf("structured result: %s", got.Fields)
	}
	c.ok("They are the same.", "diff", "path", "/memories/a.md", "from", "2", "to", "2")
	c.ok("They are the same.", "diff", "path", "/memories/a.md", "from", 2, "to", 2)
	c.ok("-one\n+two\n", "diff", "path", "/memories/a.md", "from", nil, "to", nil)
	c.ok("one", "read", "path", "/memories/a.md", "version", 1)
	c.ok("Wrote", "write", "path", "/memories/a.md", "text", "three", "if_version", 2)
	c.ok("Restored", "restore", "path", "/memories/a.md", "version", 1)
	for _, odd := range []any{-1, 1.5, true, []int{1}, 1e30} {
		c.fails("The field `from` must be a version id (memver_…) or a sequence number, not another value", "invalid", "diff", "path", "/memories/a.md", "from", odd)
	}
	c.fails("The field `version` must be a version id (memver_…) or a sequence number, not another word", "invalid", "restore", "path", "/memories/a.md", "version", "foo")
	c.fails("The field `version` is missing", "invalid", "restore", "path", "/memories/a.md")
	several := newRig(t, &rigOptions{stores: []string{"docs", "notes"}}).client()
	several.fails("history is of one store; pass path, such as /memories/docs and /memories/notes", "invalid", "history")
}

// TestRestore makes an earlier version current again, unless another session has changed the
// file since it was read.
func TestRestore(t *testing.T) {
	c := newRig(t, nil).client()
	first := c.theirs("/a.md", "one\n")
	c.theirs("/a.md", "two\n")
	c.ok("two", "read", "path", "/memories/a.md")
	c.theirs("/a.md", "three\n")
	c.fails("/memories/a.md", "conflict", "restore", "path", "/memories/a.md", "version", first.ID)
	c.holds("/a.md", "three\n")
	c.ok("three", "read", "path", "/memories/a.md")
	c.ok("Restored /memories/a.md", "restore", "path", "/memories/a.md", "version", first.ID)
	c.holds("/a.md", "one\n")
}

// TestRestoreDirectory says how the files of a directory come back.
func TestRestoreDirectory(t *testing.T) {
	c := newRig(t, nil).client()
	first := c.theirs("/d/a.md", "one\n")
	for _, when := range []string{"there", "gone"} {
		c.fails("Error: /memories/d is or was a directory, and nothing was restored. Restore its files one by one: history of it names them with their versions.", "invalid", "restore", "path", "/memories/d", "version", first.ID)
		if when == "there" {
			c.ok("Successfully deleted", "memory", "command", "delete", "path", "/memories/d")
		}
	}
	c.ok("1 created /memories/d/a.md", "history", "path", "/memories/d")
	c.ok("Restored /memories/d/a.md", "restore", "path", "/memories/d/a.md", "version", "1")
	c.holds("/d/a.md", "one\n")
	c.fails("The path /memories/none does not exist", "not_found", "restore", "path", "/memories/none", "version", first.ID)
}

// TestStoreGone says that the other stores are served on when one is deleted.
func TestStoreGone(t *testing.T) {
	r := newRig(t, &rigOptions{stores: []string{"docs", "notes"}})
	r.theirs("/a.md", "apple")
	c := r.oldClient("{}")
	c.do("resources/subscribe", map[string]any{"uri": "mneme://docs/"})
	r.must(r.lib.DeleteStore(t.Context(), r.stores["docs"].Info().ID))
	c.ok("/memories/notes/a.md", "list")
	c.ok("apple", "search", "query", "apple")
	c.ok("a.md", "memory", "command", "view", "path", "/memories/notes")
	c.ok("/memories/notes", "memory", "command", "view", "path", "/memories")
	c.fails("/memories/docs", "not_found", "list", "path", "/memories/docs")
	c.fails("/memories/docs/x", "not_found", "write", "path", "/memories/docs/x", "text", "x")
	if list := string(c.do("resources/list", nil)); !strings.Contains(list, "mneme://notes/a.md") {
		t.Errorf("resources: %s", list)
	}
	if m := c.try("resources/read", map[string]any{"uri": "mneme://docs/"}); m.Error == nil || m.Error.Message != "Resource not found" {
		t.Errorf("the resource of a deleted store is %s, %+v", m.Result, m.Error)
	}
}

// TestReadOnly says that nothing writes to a read-only store.
func TestReadOnly(t *testing.T) {
	t.Run("all", func(t *testing.T) {
		c := newRig(t, &rigOptions{stores: []string{"notes:ro"}}).client()
		c.theirs("/a.md", "text")
		c.ok("text", "read", "path", "/memories/a.md")
		c.fails("read-only here", "read_only", "memory", "command", "delete", "path", "/memories/a.md")
		for _, name := range []string{"write", "restore", "conflicts"} {
			if m := c.try("tools/call", map[string]any{"name": name, "arguments": arguments(requiredOf(name))}); m.Error == nil || m.Error.Code != -32602 {
				t.Errorf("%s answered %s, %+v", name, m.Result, m.Error)
			}
		}
		c.holds("/a.md", "text")
	})
	t.Run("one", func(t *testing.T) {
		c := newRig(t, &rigOptions{stores: []string{"docs", "notes:ro"}}).client()
		v := c.theirs("/d/a.md", "text")
		c.theirs("/d/b.md", "text")
		c.fails("read-only here", "read_only", "write", "path", "/memories/notes/d/a.md", "text", "x")
		c.fails("read-only here", "read_only", "restore", "path", "/memories/notes/d/a.md", "version", v.ID)
		c.fails("read-only here", "read_only", "memory", "command", "delete", "path", "/memories/notes/d")
		c.fails("read-only here", "read_only", "memory", "command", "delete", "paths", []string{"/memories/notes/d/a.md"})
		c.ok("Wrote", "write", "path", "/memories/docs/a.md", "text", "x")
		c.holds("/d/a.md", "text")
	})
}

// TestBudget says that calls that are over are refused, and make no change.
func TestBudget(t *testing.T) {
	c := newRig(t, &rigOptions{tools: tools.Options{Budget: session.NewBudget(2, 0)}}).client()
	c.ok("Nothing is there", "list")
	c.ok("Wrote", "write", "path", "/memories/a.md", "text", "x")
	c.fails("The budget of 2 memory calls", "over_quota", "write", "path", "/memories/a.md", "text", "y")
	c.fails("The budget of 2 memory calls", "over_quota", "memory", "command", "delete", "path", "/memories/a.md")
	c.holds("/a.md", "x")
}

// TestErased: the history of a file has its erased versions without the path, and reading one says what it is.
func TestErased(t *testing.T) {
	c := newRig(t, nil).client()
	c.theirs("/a.md", "secret")
	c.theirs("/a.md", "clean")
	first, err := history.Resolve(t.Context(), c.stores["notes"], "/a.md", "1")
	if err != nil {
		t.Fatal(err)
	}
	info := c.stores["notes"].Info()
	_, err = c.faults.Commit(t.Context(), info.ID, &versionlog.Proposal{
		Key: versionlog.NewKey(), Actor: versionlog.Actor{Kind: versionlog.ActorUser, ID: "root"}, Message: "a test", Epoch: info.Epoch, Event: versionlog.StoreRedacted(first.ID),
	})
	if err != nil {
		t.Fatal(err)
	}
	got := c.ok("\n1 created, erased, by session:other", "history", "path", "/memories/a.md")
	if !strings.Contains(string(got.Fields), `"path":"","size":0`) || !strings.Contains(string(got.Fields), `"erased":true`) {
		t.Errorf("%s", got.Fields)
	}
	c.fails("was erased, and nobody can bring it back", "not_found", "read", "path", "/memories/a.md", "version", "1")
	c.fails("was erased, and nobody can bring it back", "not_found", "restore", "path", "/memories/a.md", "version", "1")
}
