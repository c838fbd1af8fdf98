package mcp

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"mneme/internal/testing/logfault"
)

// canAskForm are the capabilities of a client that can ask its user.
const canAskForm = `{"elicitation":{"form":{}}}`

// deleting are the arguments that delete a directory.
var deleting = []any{"command", "delete", "path", "/memories/d"}

// bulkRig is a rig whose store notes has two files in /d.
func bulkRig(t *testing.T) *rig {
	r := newRig(t, nil)
	r.theirs("/d/a.md", "a")
	r.theirs("/d/e/b.md", "b")
	return r
}

// reply are the parameters of a call that comes again with its state and an answer.
func reply(asked *toolResult, answer string) map[string]any {
	return map[string]any{"requestState": asked.RequestState, "inputResponses": map[string]any{"confirm": json.RawMessage(answer)}}
}

const (
	yes     = `{"action":"accept","content":{"confirm":true}}`
	no      = `{"action":"accept","content":{"confirm":false}}`
	decline = `{"action":"decline"}`
)

// TestConfirm asks the client's user before several files are deleted.
func TestConfirm(t *testing.T) {
	r := bulkRig(t)
	c := r.connect(newest(canAskForm))
	asked := c.tool("memory", deleting...)
	if asked.ResultType != "input_required" || asked.RequestState == "" || !strings.Contains(string(asked.InputRequests), "Delete the 2 files in /memories/d? Their history stays.") {
		t.Fatalf("asked %+v, %s", asked, asked.InputRequests)
	}
	for _, answer := range []string{no, decline, `{"action":"cancel"}`, `{"action":"accept"}`, `{"action":"accept","content":{"confirm":"true"}}`} {
		if got := c.toolWith("memory", reply(asked, answer), deleting...); got.IsError || got.text() != "Nothing was deleted." {
			t.Errorf("%s: %+v", answer, got)
		}
		c.holds("/d/a.md", "a")
	}
	if got := c.toolWith("memory", map[string]any{"requestState": asked.RequestState}, deleting...); got.ResultType != "input_required" {
		t.Errorf("without an answer: %+v, want the question again", got)
	}
	if got := c.toolWith("memory", reply(asked, yes), deleting...); got.IsError || got.text() != "Successfully deleted /memories/d" {
		t.Errorf("yes: %+v", got)
	}
	c.holds("/d/a.md", "")
	c.holds("/d/e/b.md", "")
}

// TestConfirmChanged asks again when the files to delete have changed.
func TestConfirmChanged(t *testing.T) {
	for name, change := range map[string]func(*rig){
		"one more": func(r *rig) { r.theirs("/d/c.md", "c") },
		"changed":  func(r *rig) { r.theirs("/d/a.md", "aa") },
	} {
		t.Run(name, func(t *testing.T) {
			c := bulkRig(t).connect(newest(canAskForm))
			asked := c.tool("memory", deleting...)
			change(c.rig)
			again := c.toolWith("memory", reply(asked, yes), deleting...)
			if again.ResultType != "input_required" || again.RequestState == asked.RequestState {
				t.Fatalf("answered %+v, want another question", again)
			}
			c.holds("/d/e/b.md", "b")
			c.toolWith("memory", reply(again, yes), deleting...)
			c.holds("/d/e/b.md", "")
		})
	}
}

// TestConfirmRaced checks that no file is deleted that has come or changed after the last
// look at the agreed files, or that was not part of the question.
func TestConfirmRaced(t *testing.T) {
	for _, tc := range []struct{ name, path, text string }{{"one more", "/d/c.md", "c"}, {"changed", "/d/a.md", "aa"}} {
		t.Run(tc.name, func(t *testing.T) {
			c := bulkRig(t).connect(newest(canAskForm))
			asked := c.tool("memory", deleting...)
			c.faults.Next(logfault.BeforeCommit, func() { c.theirs(tc.path, tc.text) })
			got := c.toolWith("memory", reply(asked, yes), deleting...)
			if !got.IsError || got.field("error", "kind") != "conflict" || got.field("error", "retry") != "after_view" || !strings.Contains(got.text(), "What is in /memories/d has changed meanwhile; nothing was deleted.") {
				t.Errorf("answered %q %s", got.text(), got.Fields)
			}
			c.holds(tc.path, tc.text)
			c.holds("/d/e/b.md", "b")
		})
	}
	t.Run("not asked", func(t *testing.T) {
		c := bulkRig(t).client()
		c.faults.Next(logfault.BeforeCommit, func() { c.theirs("/d/e/c.md", "c") })
		c.fails("What is in /memories/d/e has changed meanwhile; nothing was deleted.", "conflict", "memory", "command", "delete", "path", "/memories/d/e")
		c.holds("/d/e/b.md", "b")
		c.holds("/d/e/c.md", "c")
	})
}

// TestState refuses states that this server has not made for this call, or long ago.
func TestState(t *testing.T) {
	r := bulkRig(t)
	r.theirs("/f/a.md", "a")
	r.theirs("/f/b.md", "b")
	c := r.connect(newest(canAskForm))
	now := time.Now()
	r.face.now = func() time.Time { return now }
	asked := c.tool("memory", deleting...)
	data, err := base64.RawURLEncoding.DecodeString(asked.RequestState)
	r.must(err)
	refused := func(what, state string, args ...any) {
		t.Helper()
		params := map[string]any{"name": "memory", "arguments": arguments(args), "requestState": state, "inputResponses": map[string]any{"confirm": json.RawMessage(yes)}}
		if m := c.try("tools/call", params); m.Error == nil || m.Error.Code != -32602 || !strings.Contains(m.Error.Message, "the request state is not valid") {
			t.Errorf("%s: %s, %+v", what, m.Result, m.Error)
		}
		c.holds("/d/a.md", "a")
		c.holds("/f/a.md", "a")
	}
	for i := range data {
		data[i] ^= 1
		refused(fmt.Sprintf("byte %d", i), base64.RawURLEncoding.EncodeToString(data), deleting...)
		data[i] ^= 1
	}
	refused("garbage", "garbage", deleting...)
	refused("shorter", asked.RequestState[:40], deleting...)
	refused("another call", asked.RequestState, "command", "delete", "path", "/memories/f")
	other := bulkRig(t).connect(newest(canAskForm)).tool("memory", deleting...)
	refused("another server", other.RequestState, deleting...)
	now = now.Add(stateLife + time.Second)
	refused("expired", asked.RequestState, deleting...)
	now = now.Add(-time.Second)
	if got := c.toolWith("memory", reply(asked, yes), deleting...); got.IsError {
		t.Errorf("in time: %+v", got)
	}
}

// TestConfirmOld asks clients of 2025 by a request of the server.
func TestConfirmOld(t *testing.T) {
	for _, tc := range []struct {
		name, answer, want, left string
		meanwhile                func(*rig)
	}{
		{"yes", yes, "Successfully deleted /memories/d", "", nil},
		{"no", no, "Nothing was deleted.", "a", nil},
		{"decline", decline, "Nothing was deleted.", "a", nil},
		{"changed", yes, "has changed since it was asked about; nothing was deleted", "a", func(r *rig) { r.theirs("/d/c.md", "c") }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := bulkRig(t).oldClient(`{"elicitation":{}}`)
			line, id := c.line("tools/call", map[string]any{"name": "memory", "arguments": arguments(deleting)})
			c.send(line)
			asked := c.next()
			if asked.Method != "elicitation/create" {
				t.Fatalf("asked by %+v", asked)
			}
			if tc.meanwhile != nil {
				tc.meanwhile(c.rig)
			}
			c.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, asked.ID, tc.answer))
			var got toolResult
			m := c.answer(id)
			if m.Error != nil {
				t.Fatal(*m.Error)
			}
			c.must(json.Unmarshal(m.Result, &got))
			if !strings.Contains(got.text(), tc.want) {
				t.Errorf("answered %q, want %q", got.text(), tc.want)
			}
			c.holds("/d/a.md", tc.left)
		})
	}
}

// TestNameThem says that a client that cannot ask has to name files.
func TestNameThem(t *testing.T) {
	for name, connect := range map[string]func(*rig) *client{
		"today":        func(r *rig) *client { return r.client() },
		"in a browser": func(r *rig) *client { return r.connect(newest(`{"elicitation":{"url":{}}}`)) },
		"2025":         func(r *rig) *client { return r.oldClient("{}") },
	} {
		t.Run(name, func(t *testing.T) {
			c := connect(bulkRig(t))
			c.fails("/memories/d holds 2 files, and nothing was deleted. Delete files by naming them, in paths: command delete, paths [\"/memories/d/a.md\",\"/memories/d/e/b.md\"].", "invalid", "memory", deleting...)
			c.holds("/d/a.md", "a")
			got := c.ok(`Successfully deleted ["/memories/d/a.md","/memories/d/e/b.md"]`, "memory", "command", "delete", "paths", []string{"/memories/d/a.md", "/memories/d/e/b.md"})
			if made, _ := got.field("made").([]any); len(made) != 2 {
				t.Errorf("structured result: %s", got.Fields)
			}
			c.holds("/d/a.md", "")
		})
	}
}

// TestNameThemHostile: the name of a file looks like no other file.
func TestNameThemHostile(t *testing.T) {
	c := bulkRig(t).client()
	c.theirs("/d/a, /memories/keep.md", "x")
	c.theirs(`/d/a"], <b>.md`, "x")
	c.fails(`paths ["/memories/d/a\"], <b>.md","/memories/d/a, /memories/keep.md","/memories/d/a.md","/memories/d/e/b.md"].`, "invalid", "memory", deleting...)
	c.ok(`Successfully deleted ["/memories/d/a, /memories/keep.md"]`, "memory", "command", "delete", "paths", []string{"/memories/d/a, /memories/keep.md"})
}

// TestDeleteNamed deletes what is named, all or none.
func TestDeleteNamed(t *testing.T) {
	c := bulkRig(t).client()
	c.fails("does not exist", "not_found", "memory", "command", "delete", "paths", []string{"/memories/d/a.md", "/memories/none"})
	c.holds("/d/a.md", "a")
	c.ok("a", "read", "path", "/memories/d/a.md")
	c.theirs("/d/a.md", "theirs")
	c.fails("/memories/d/a.md", "conflict", "memory", "command", "delete", "paths", []string{"/memories/d/e/b.md", "/memories/d/a.md"})
	c.holds("/d/e/b.md", "b")
	c.fails("/memories/d/e/b.md is named twice", "invalid", "memory", "command", "delete", "paths", []string{"/memories/d/e/b.md", "/memories/d/e/b.md/"})
	c.fails("The field `paths` must be an array of 1 to 100 strings", "invalid", "memory", "command", "delete", "paths", []string{})
	c.fails("The field `paths` must be an array of 1 to 100 strings, not one of 101", "invalid", "memory", "command", "delete", "paths", make([]string, 101))
	c.fails("The field `path` is unknown", "invalid", "memory", "command", "delete", "paths", []string{"/memories/x"}, "path", "/memories/y")
	c.fails("The field `paths` is unknown", "invalid", "memory", "command", "view", "path", "/memories", "paths", []string{})
}

// TestNotBulk deletes without a question what is one file, and refuses a store.
func TestNotBulk(t *testing.T) {
	c := bulkRig(t).connect(newest(canAskForm))
	c.ok("Successfully deleted /memories/d/e", "memory", "command", "delete", "path", "/memories/d/e/")
	c.theirs("/g.md", "g")
	for _, path := range []string{"/memories", "/memories/"} {
		c.fails("Cannot delete the /memories directory itself", "invalid", "memory", "command", "delete", "path", path)
	}
	c.fails("does not exist", "not_found", "memory", "command", "delete", "path", "/memories/none")
}

// TestConfirmDown deletes nothing unasked when it cannot be told how much that would be.
func TestConfirmDown(t *testing.T) {
	r := bulkRig(t)
	c := r.connect(newest(canAskForm))
	r.faults.Next(logfault.BeforeTip, func() {
		r.faults.SetDown(true)
		r.faults.Next(logfault.AfterPage, func() {
			r.faults.Next(logfault.AfterPage, func() { r.faults.SetDown(false) })
		})
	})
	if got := c.tool("memory", deleting...); !got.IsError {
		t.Errorf("answered %+v, want an error", got)
	}
	r.faults.SetDown(false)
	c.holds("/d/a.md", "a")
	if got := c.tool("memory", deleting...); got.ResultType != "input_required" {
		t.Errorf("afterwards %+v, want the question", got)
	}
}
