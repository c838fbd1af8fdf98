package agents

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"mneme/tests/harness"
)

// servers is a configuration of MCP with `mneme mcp`, as Claude Code and the Gemini CLI have it.
func servers(url, more string) string {
	return fmt.Sprintf(`{"mcpServers": {"mneme": {"command": %q, "args": ["--url", %q, "mcp", "--store", "notes"]}}%s}`, harness.Daemon, url, more)
}

// agentProgram is a program of an agent in a home of its own, where it finds no other settings
// and must ask no server outside.
func agentProgram(t *testing.T, program string, args ...string) (cmd *exec.Cmd, home string) {
	home = t.TempDir()
	cmd = exec.CommandContext(t.Context(), program, args...)
	cmd.Dir = home
	cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "NO_PROXY=127.0.0.1", "HTTPS_PROXY=http://127.0.0.1:9"}
	return cmd, home
}

// TestGeminiCLI has the Gemini CLI find `mneme mcp`.
func TestGeminiCLI(t *testing.T) {
	t.Parallel()
	node := harness.FindNode(t, lockFile)
	cmd, home := agentProgram(t, node.Program, filepath.Join(node.Modules, "@google", "gemini-cli", "bundle", "gemini.js"), "mcp", "list")
	cmd.Env = append(cmd.Env, "GEMINI_CLI_NO_RELAUNCH=true")
	settings := filepath.Join(home, ".gemini", "settings.json")
	err := os.Mkdir(filepath.Dir(settings), 0o700)
	if err == nil {
		err = os.WriteFile(settings, []byte(servers(newStore(t), `, "security": {"folderTrust": {"enabled": false}}`)), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "- Connected") {
		t.Errorf("%v: %s", err, out)
	}
}

// TestClaudeCode has Claude Code, whose model's answers are canned, write a memory by `mneme mcp`,
// and show the model the result.
func TestClaudeCode(t *testing.T) {
	t.Parallel()
	node := harness.FindNode(t, lockFile)
	url := newStore(t)
	results := make(chan string, 10)
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.URL.Path != "/v1/messages" {
			http.NotFound(w, r)
			return
		}
		block, delta, stop := `{"type":"text","text":""}`, `{"type":"text_delta","text":"done"}`, "end_turn"
		_, result, answered := strings.Cut(string(body), `"tool_result"`)
		switch {
		case answered:
			results <- result
		case strings.Contains(string(body), `"mcp__mneme__memory"`):
			input, _ := json.Marshal(`{"command":"create","path":"/memories/claude.md","file_text":"canned\n"}`)
			block, delta, stop = `{"type":"tool_use","id":"toolu_1","name":"mcp__mneme__memory","input":{}}`, `{"type":"input_json_delta","partial_json":`+string(input)+`}`, "tool_use"
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for _, event := range []string{
			`{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"usage":{"input_tokens":1,"output_tokens":1}}}`,
			`{"type":"content_block_start","index":0,"content_block":` + block + `}`,
			`{"type":"content_block_delta","index":0,"delta":` + delta + `}`,
			`{"type":"content_block_stop","index":0}`,
			`{"type":"message_delta","delta":{"stop_reason":"` + stop + `"},"usage":{"output_tokens":1}}`,
			`{"type":"message_stop"}`,
		} {
			var kind struct{ Type string }
			_ = json.Unmarshal([]byte(event), &kind)
			fmt.Fprintf(w, "event: %s\ndata: %s\n\n", kind.Type, event)
		}
	}))
	defer model.Close()
	cmd, _ := agentProgram(t, filepath.Join(node.Modules, "@anthropic-ai", "claude-code-linux-x64", "claude"),
		"-p", "remember", "--mcp-config", servers(url, ""), "--strict-mcp-config", "--allowedTools", "mcp__mneme__memory")
	cmd.Env = append(cmd.Env, "ANTHROPIC_BASE_URL="+model.URL, "ANTHROPIC_API_KEY=canned", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "ENABLE_TOOL_SEARCH=false")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "done") {
		t.Fatalf("%v: %s", err, out)
	}
	result := ""
	if len(results) > 0 {
		result = <-results
	}
	if !strings.Contains(result, "File created successfully at: /memories/claude.md") {
		t.Errorf("the model is shown %.2000s", result)
	}
}
