package agents

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mneme/tests/harness"
)

// canary is in all that memories hold in TestCanary, and in all that is asked about it.
const canary = "kanarienvogel"

// inWhole are the forms of canary that a log could have.
var inWhole = []string{canary, hex.EncodeToString([]byte(canary)), strings.Trim(fmt.Sprint([]byte(canary)), "[]")}

// sings returns the lines of a text that have canary in any form.
func sings(text string) (lines []string) {
	for line := range strings.Lines(text) {
		for _, form := range inWhole {
			if strings.Contains(strings.ToLower(line), form) {
				lines = append(lines, line)
				break
			}
		}
	}
	return lines
}

// step is a line for a face, and what must be in its answer. Of a step without a line, theirs is
// what another session writes meanwhile to the file that has the name of the face.
type step struct{ line, want, theirs string }

// TestCanary makes all faces do calls that go well, that conflict, that are refused, damaged,
// late or no call at all, and log all they do. Not a word of the memories' contents, or of the
// questions about them, is anywhere but in results, memories and the kept copies of lost texts.
func TestCanary(t *testing.T) {
	e := harness.NewEnv(t)
	e.Store("notes")
	damaged := canary + " before\n"
	e.MustIn(t, damaged, "write", "notes:/damaged.md")
	e.Spoil(t, harness.SumOf(damaged), "UPDATE blobs SET data = CAST('"+canary+" damaged' AS BLOB) WHERE sha256 = ?")
	said := map[string]string{}
	face := func(name string, flags []string, steps []step) {
		args := append([]string{name, "--store=notes", "--session=" + name, "--log-level=debug"}, flags...)
		l := e.Lines(t, harness.Daemon, args...)
		for _, s := range steps {
			if s.line == "" {
				e.MustIn(t, s.theirs, "write", "notes:/"+name+".md")
			} else if answer := l.Ask(t, s.line); !strings.Contains(answer, s.want) {
				t.Errorf("%s: %.300s\n%s, want %s", name, s.line, answer, s.want)
			}
		}
		l.End(t)
		said["what "+strings.Join(args, " ")+" logs"] = l.Stderr.String()
		if !strings.Contains(l.Stderr.String(), "level=DEBUG") {
			t.Errorf("the test is blind: %s logs\n%s", name, l.Stderr)
		}
	}
	face("tool", []string{"--bytes=200000"}, toolSteps())
	face("mcp", nil, mcpSteps())
	face("plugin", nil, pluginSteps())
	face("plugin", []string{"--deadline=1ns"}, []step{
		{line: `{"id":1,"method":"recall","params":{"query_text":"kanarienvogel late"}}`, want: `"degraded":true`},
		{line: `{"id":2,"method":"remember","params":{"thread_id":"t","turn_id":"late","entries":[{"text":"kanarienvogel late"}]}}`, want: `"degraded":true`}, // late, or busy with the call before
	})
	mounted(t, e, said)
	said["what is kept beside lost texts"] = e.Must(t, "conflicts", "list", "notes", "--all", "--json")
	said["the history"] = e.Must(t, "log", "notes", "--json")
	for what, text := range said {
		if text == "" {
			t.Errorf("the test is blind: %s is nothing", what)
		}
		for _, line := range sings(text) {
			t.Errorf("%s has what a memory holds: %s", what, line)
		}
	}
	onDisk(t, e)
}

// tooLarge is a text that no memory may have here.
var tooLarge = strings.Repeat(canary+" ", 8000)

// toolCall is a line for `mneme tool`.
func toolCall(input string) string { return `{"id":1,"input":` + input + `}` }

func toolSteps() []step {
	return []step{
		{line: toolCall(`{"command":"create","path":"/memories/tool.md","file_text":"kanarienvogel made\n"}`), want: "File created"},
		{line: toolCall(`{"command":"create","path":"/memories/tool.md","file_text":"kanarienvogel again\n"}`), want: "already exists"},
		{line: toolCall(`{"command":"str_replace","path":"/memories/tool.md","old_str":"kanarienvogel made","new_str":"kanarienvogel changed"}`), want: "kanarienvogel changed"},
		{line: toolCall(`{"command":"str_replace","path":"/memories/tool.md","old_str":"kanarienvogel none","new_str":"kanarienvogel"}`), want: "No replacement"},
		{line: `{"type":"tool_use","id":"u1","name":"memory","input":{"command":"view","path":"/memories/tool.md"}}`, want: "kanarienvogel changed"},
		{theirs: "kanarienvogel theirs\n"},
		{line: toolCall(`{"command":"insert","path":"/memories/tool.md","insert_line":0,"insert_text":"kanarienvogel lost\n"}`), want: `"conflict":`},
		{line: toolCall(`{"command":"create","path":"/memories/large.md","file_text":"` + tooLarge + `"}`), want: `"kind":"too_large"`},
		{line: toolCall(`{"command":"view","path":"/memories/damaged.md"}`), want: `"kind":"corrupt"`},
		{line: toolCall(`{"command":"create","path":"/memories/tool.md","file_text":["kanarienvogel"]}`), want: "file_text"},
		{line: toolCall(`{"command":"create","path":"/memories/tool.md","file_text":"kanarienvogel","file_text":"kanarienvogel"}`), want: "file_text"},
		{line: toolCall(`{"command":"view","path":"/memories/tool.md","sudo":"kanarienvogel"}`), want: "sudo"},
		{line: `{"id":1,"input":{"command":"create","file_text":"kanarienvogel`, want: `"is_error":true`},
		{line: `{"id":1,"control":"kanarienvogel"}`, want: `"is_error":true`},
		{line: `kanarienvogel`, want: `"is_error":true`},
		{line: toolCall(`{"command":"create","path":"/memories/more.md","file_text":"` + tooLarge + `"}`), want: "budget"},
	}
}

// request is a line for `mneme mcp`, and call one for a tool.
func request(method, params string) string {
	return `{"jsonrpc":"2.0","id":2,"method":"` + method + `","params":` + params + `}`
}

func call(tool, arguments string) string {
	return request("tools/call", `{"name":"`+tool+`","arguments":`+arguments+`}`)
}

func mcpSteps() []step {
	return []step{
		{line: strings.TrimSuffix(hello, "\n"), want: "serverInfo"},
		{line: call("write", `{"path":"/memories/mcp.md","text":"kanarienvogel made\n"}`), want: `"created":true`},
		{line: call("write", `{"path":"/memories/mcp.md","text":"kanarienvogel again\n","if_version":"none"}`), want: `"isError":true`},
		{line: call("read", `{"path":"/memories/mcp.md"}`), want: "kanarienvogel made"},
		{line: call("memory", `{"command":"str_replace","path":"/memories/mcp.md","old_str":"kanarienvogel made","new_str":"kanarienvogel changed"}`), want: "kanarienvogel changed"},
		{theirs: "kanarienvogel theirs\n"},
		{line: call("write", `{"path":"/memories/mcp.md","text":"kanarienvogel lost\n"}`), want: `"conflict"`},
		{line: call("memory", `{"command":"insert","path":"/memories/mcp.md","insert_line":0,"insert_text":"kanarienvogel lost again\n"}`), want: `"conflict"`},
		{line: call("search", `{"query":"kanarienvogel theirs"}`), want: "kanarienvogel theirs"},
		{line: call("search", `{"query":"kanarienvogel [a-z]+","regex":true}`), want: "1 cannot be read"},
		{line: call("search", `{"query":"(kanarienvogel","regex":true}`), want: `"isError":true`},
		{line: call("diff", `{"path":"/memories/mcp.md"}`), want: "kanarienvogel"},
		{line: call("history", `{"path":"/memories/mcp.md"}`), want: `"versions"`},
		{line: call("conflicts", `{"action":"list"}`), want: "changed since you read it"},
		{line: call("conflicts", `{"action":"kanarienvogel"}`), want: `"isError":true`},
		{line: call("read", `{"path":"/memories/damaged.md"}`), want: "corrupt"},
		{line: call("write", `{"path":"/memories/large.md","text":"`+tooLarge+`"}`), want: "too_large"},
		{line: call("write", `{"path":"/memories/mcp.md","text":{"kanarienvogel":1}}`), want: "text"},
		{line: call("write", `{"path":"/memories/mcp.md","text":"kanarienvogel","text":"kanarienvogel"}`), want: `"error"`},
		{line: call("write", `{"path":"/memories/mcp.md","text":"","if_version":"kanarienvogel"}`), want: `"isError":true`},
		{line: request("resources/read", `{"uri":"mneme://notes/mcp.md"}`), want: "kanarienvogel"},
		{line: request("resources/read", `{"uri":"mneme://notes/damaged.md"}`), want: `"error"`},
		{line: request("completion/complete", `{"ref":{"type":"ref/resource","uri":"mneme://notes/{+path}"},"argument":{"name":"path","value":"kanarienvogel"}}`), want: `"completion"`},
		{line: request("no/such", `{"text":"kanarienvogel"}`), want: `"error"`},
		{line: `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":"kanarienvogel"}`, want: `"error"`},
		{line: `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"kanarienvogel`, want: `"error"`},
		{line: `kanarienvogel`, want: `"error"`},
	}
}

// pluginCall is a line for `mneme plugin`.
func pluginCall(method, params string) string {
	return `{"id":1,"method":"` + method + `","params":` + params + `}`
}

func pluginSteps() []step {
	const turn = `{"thread_id":"t","turn_id":"1","sender":"kanarienvogel","origin":"kanarienvogel","execution_strategy":"kanarienvogel","meta":{"m":"kanarienvogel"},"entries":[{"text":"kanarienvogel said","meta":{"m":"kanarienvogel"}}]}`
	return []step{
		{line: pluginCall("remember", turn), want: `"written":1`},
		{line: pluginCall("remember", turn), want: `"already"`},
		{line: pluginCall("remember", strings.Replace(turn, "said", "said otherwise", 1)), want: `"refused"`},
		{line: pluginCall("remember", strings.Replace(strings.Replace(turn, `"1"`, `"2"`, 1), "said", tooLarge, 1)), want: "too_large"},
		{line: pluginCall("recall", `{"query_text":"who is kanarienvogel?","sender":"kanarienvogel","meta":{"m":"kanarienvogel"}}`), want: "kanarienvogel said"},
		{line: pluginCall("recall", `{"query_text":["kanarienvogel"]}`), want: "query_text"},
		{line: pluginCall("recall", `{"query_text":"kanarienvogel","query_text":"kanarienvogel"}`), want: `"degraded":true`},
		{line: pluginCall("recall", `{"sudo":"kanarienvogel"}`), want: "sudo"},
		{line: pluginCall("recall", `"kanarienvogel"`), want: `"degraded":true`},
		{line: pluginCall("kanarienvogel", `{}`), want: `"degraded":true`},
		{line: `{"id":1,"method":"recall","params":{"query_text":"kanarienvogel`, want: `"degraded":true`},
		{line: `kanarienvogel`, want: `"degraded":true`},
	}
}

// mounted is the face of a mount.
func mounted(t *testing.T, e *harness.Env, said map[string]string) {
	t.Helper()
	m := e.Mount(t, "notes", "--log-level=debug", "--metrics-addr=:0")
	m.Lose(t, "mount.md", "'kanarienvogel base'", "kanarienvogel theirs", "kanarienvogel lost")
	for _, refused := range []string{`printf 'kanarienvogel\377' | dd of=no-text.md status=none`, "cat damaged.md"} {
		if r := m.Try(t, refused); r.Code == 0 {
			t.Errorf("%s: %v", refused, r)
		}
	}
	if text := m.Sh(t, "cat mount.md .mneme/pack/8000 && cat .mneme/conflicts/*/yours"); !strings.Contains(text, canary+" theirs") || !strings.Contains(text, canary+" lost") {
		t.Errorf("the test is blind: the mount has\n%s", text)
	}
	for what, script := range map[string]string{
		"errors": "cat .mneme/errors", "status": "cat .mneme/status", "what conflicts are about": "cat .mneme/conflicts/*/about", "note": "cat .mneme/note",
	} {
		said["the mount: "+what] = m.Sh(t, script)
	}
	said["the mount: metrics"] = m.Metrics(t)
	m.Stop(t)
	said["what the mount logs"] = m.Stderr.String()
}

// onDisk looks into every file that is left: what memories hold is in the database, and in what
// is kept of lost texts, of every face.
func onDisk(t *testing.T, e *harness.Env) {
	t.Helper()
	lost := map[string]bool{}
	err := filepath.WalkDir(e.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil || len(sings(string(data))) == 0 {
			return err
		}
		switch name := filepath.Base(path); {
		case strings.HasPrefix(name, "log.db"):
		case name == "yours" || name == "theirs" || name == "base":
			about, err := os.ReadFile(filepath.Join(filepath.Dir(path), "about"))
			if err != nil {
				return err
			}
			var a struct{ Path string }
			if err := json.Unmarshal(about, &a); err != nil {
				return fmt.Errorf("%s: %w", about, err)
			}
			lost[name+" of "+a.Path] = true
		default:
			t.Errorf("%s has what a memory holds", path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, face := range []string{"tool", "mcp", "mount"} {
		for _, side := range []string{"yours", "theirs"} {
			if want := side + " of /" + face + ".md"; !lost[want] {
				t.Errorf("the test is blind: nothing is kept as %s, but %v", want, lost)
			}
		}
	}
}
