package use

import (
	"fmt"
	"strings"
	"testing"

	"mneme/tests/harness"
)

// agents are processes that give an agent memory without a mount.
type agents []*harness.Lines

// startAgents starts each such command, which writes a text to a memory, reads and searches it, and writes another
// one in its place.
func startAgents(t *testing.T, e *harness.Env, text string) (all agents) {
	t.Helper()
	var l *harness.Lines
	ask := func(line, want string) {
		t.Helper()
		if answer := l.Ask(t, line); !strings.Contains(answer, want) {
			t.Fatalf("%s answers %s, want %s", line, answer, want)
		}
	}
	start := func(command string, args ...string) {
		l = e.Lines(t, e.Daemon, append([]string{command, "--store=notes", "--session=lasting-" + command}, args...)...)
		all = append(all, l)
	}
	start("tool", "--calls=0")
	call := func(input, want string) {
		t.Helper()
		ask(`{"id":1,"input":`+input+`}`, want)
	}
	call(`{"command":"create","path":"/memories/lasting-tool.md","file_text":"`+text+`"}`, `"is_error":false`)
	call(`{"command":"view","path":"/memories/lasting-tool.md"}`, text)
	call(`{"command":"str_replace","path":"/memories/lasting-tool.md","old_str":"`+text+`","new_str":"clean"}`, `"is_error":false`)
	start("plugin")
	ask(`{"id":1,"method":"remember","params":{"thread_id":"lasting","turn_id":"1","entries":[{"text":"`+text+`"}]}}`, `"written"`)
	ask(`{"id":2,"method":"recall","params":{"query_text":"`+text+`"}}`, text)
	e.MustIn(t, "clean", "write", "notes:/threads/lasting/1.md")
	start("mcp")
	ask(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`, "serverInfo")
	if err := l.Tell(`{"jsonrpc":"2.0","method":"notifications/initialized"}`); err != nil {
		t.Fatal(err)
	}
	use := func(tool, arguments, want string) {
		t.Helper()
		ask(fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, tool, arguments), want)
	}
	use("write", `{"path":"/memories/lasting-mcp.md","text":"`+text+`"}`, `"version":"memver_`)
	use("read", `{"path":"/memories/lasting-mcp.md"}`, text)
	use("search", `{"query":"`+text+`"}`, text)
	use("write", `{"path":"/memories/lasting-mcp.md","text":"clean"}`, `"version":"memver_`)
	return all
}

// forget waits until a text is nowhere in the memory of the processes.
func (all agents) forget(t *testing.T, text string) {
	t.Helper()
	for _, l := range all {
		harness.Forget(t, text, l.PID)
	}
}
