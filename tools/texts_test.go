package tools

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files anew")

// answered is a call and what it is answered with.
type answered struct {
	Input json.RawMessage `json:"input"`
	Error bool            `json:"error"`
	Text  string          `json:"text"`
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
