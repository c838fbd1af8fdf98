package tools

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mneme/session"
)

var update = flag.Bool("update", false, "write the golden files anew")

// answered is a call and what it is answered with.
type answered struct {
	Input json.RawMessage `json:"input"`
	Error bool            `json:"error"`
	Text  string          `json:"text"`
}

// TestOneOfAKind: texts that count say one of one.
func TestOneOfAKind(t *testing.T) {
	r := newRig(t, &rigOptions{tools: Options{Budget: session.NewBudget(1, 0)}})
	r.do("File created", "create", "path", "/memories/a", "file_text", "x")
	r.fail("Error: The budget of 1 memory call for this quest is used up;", "view", "path", "/memories")
	r = newRig(t, &rigOptions{tools: Options{Budget: session.NewBudget(0, 1)}})
	r.fail("Error: The budget of 1 byte for this quest is used up;", "view", "path", "/memories")
	r = newRig(t, &rigOptions{tools: Options{ViewChars: 72}})
	r.theirs("/f", "1234567890123")
	if got := r.call("view", "path", "/memories/f"); !strings.HasSuffix(got.Text, "has 1 character more, which a view does not show.]") {
		t.Errorf("%q", got.Text)
	}
	r = newRig(t, &rigOptions{tools: Options{ViewChars: 128}})
	r.theirs("/a", "")
	r.theirs("/b", "")
	if got := r.call("view", "path", "/memories"); !strings.Contains(got.Text, "[1 more entry is not shown. Nothing here is a directory: move files into some to see them all.]") {
		t.Errorf("%q", got.Text)
	}
}

// TestTexts does the calls of the golden files, which are all texts of files and directories, in both
// forms of Texts. How the SDK's own tool answers them is in tests/agents.
func TestTexts(t *testing.T) {
	for name, texts := range map[string]Texts{"documentation": Documentation, "sdk": SDK} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, &rigOptions{tools: Options{Texts: texts}})
			golden := filepath.Join("testdata", name+".jsonl")
			var out bytes.Buffer
			for i, want := range readAnswers(t, golden) {
				got := r.Call(t.Context(), want.Input)
				if !*update && ((got.Error != nil) != want.Error || got.Text != want.Text) {
					t.Errorf("call %d, %s: %q is not as in %s", i+1, want.Input, got.Text, golden)
				}
				encode(t, &out, answered{Input: want.Input, Error: got.Error != nil, Text: got.Text})
			}
			if *update {
				if err := os.WriteFile(golden, out.Bytes(), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func readAnswers(t *testing.T, file string) (all []answered) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(data) {
		var one answered
		if err := json.Unmarshal(line, &one); err != nil {
			t.Fatal(err)
		}
		all = append(all, one)
	}
	return all
}

func encode(t *testing.T, out *bytes.Buffer, one answered) {
	t.Helper()
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	if err := e.Encode(one); err != nil {
		t.Fatal(err)
	}
}
