package mnemetool_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/option"

	"mneme/cas"
	"mneme/cas/memcas"
	mnemetool "mneme/integrations/anthropic-go"
	"mneme/memory"
	"mneme/session"
	"mneme/tools"
	"mneme/versionlog/memlog"
)

// calls are the inputs that the model sends, one after the other.
var calls = []string{
	`{"command":"create","path":"/memories/plan.md","file_text":"ship"}`,
	`{"command":"create","path":"/memories/plan.md","file_text":"again"}`,
	`{"command":"view","path":"/memories/plan.md"}`,
}

// TestLoop: the SDK's loop does what a model asks for, and sends the answers back.
func TestLoop(t *testing.T) {
	var results []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var request struct {
			Tools    []map[string]any
			Messages []struct {
				Content json.RawMessage
			}
		}
		if err := json.Unmarshal(body, &request); err != nil {
			t.Error(err)
		}
		if n := len(request.Messages); n > 0 && strings.Contains(string(request.Messages[n-1].Content), "tool_result") {
			results = append(results, string(request.Messages[n-1].Content))
		}
		for _, tool := range request.Tools {
			if tool["type"] != "memory_20250818" || tool["name"] != "memory" || len(tool) != 2 {
				t.Errorf("the tool is declared as %v", tool)
			}
		}
		content, stop := `{"type":"text","text":"done"}`, "end_turn"
		if len(results) < len(calls) {
			content, stop = fmt.Sprintf(`{"type":"tool_use","id":"toolu_%d","name":"memory","input":%s}`, len(results), calls[len(results)]), "tool_use"
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"id":"msg_%d","type":"message","role":"assistant","model":"m","content":[%s],"stop_reason":%q,"usage":{"input_tokens":1,"output_tokens":1}}`, len(results), content, stop)
	}))
	defer server.Close()
	m := newMemory(t)
	client := anthropic.NewClient(option.WithAPIKey("none"), option.WithBaseURL(server.URL))
	params := anthropic.BetaToolRunnerParams{MaxIterations: 10, DisableThread: true}
	params.Model, params.MaxTokens = "m", 100
	params.Tools = []anthropic.BetaToolUnionParam{mnemetool.Definition()}
	params.Messages = []anthropic.BetaMessageParam{anthropic.NewBetaUserMessage(anthropic.NewBetaTextBlock("go"))}
	runner := client.Beta.Messages.NewToolRunner([]anthropic.BetaTool{mnemetool.Tool{Memory: m}}, params)
	if _, err := runner.RunToCompletion(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"File created successfully at: /memories/plan.md", `"Error: File /memories/plan.md already exists"`, `Here's the content of /memories/plan.md with line numbers:\n     1\tship`} {
		if i >= len(results) || !strings.Contains(results[i], want) || strings.Contains(results[i], "Error: Error:") || strings.Contains(results[i], `"is_error":true`) != (i == 1) {
			t.Errorf("result %d is not %s: %v", i, want, results)
		}
	}
}

func newMemory(t *testing.T) *tools.Memory {
	t.Helper()
	ctx := context.Background()
	blobs := memcas.New()
	lib := memory.NewLibrary(memlog.New(nil), func(string) (cas.Store, error) { return blobs, nil })
	info, err := lib.CreateStore(ctx, "notes", nil)
	if err != nil {
		t.Fatal(err)
	}
	store, err := lib.Open(ctx, info.ID, memory.SessionAuthor("s1"))
	if err != nil {
		t.Fatal(err)
	}
	s := session.New(store, &session.Options{ID: "s1", Name: tools.PathName("notes", false)})
	t.Cleanup(s.Close)
	return tools.New([]tools.Place{{Store: store, Session: s}}, nil)
}
