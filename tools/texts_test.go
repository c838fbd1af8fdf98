package tools

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files anew")

// answered is a call and what it is answered with.
type answered struct {
	Input json.RawMessage `json:"input"`
	Error bool            `json:"error"`
	Text  string          `json:"text"`
	Why   string          `json:"why,omitempty"` // it differs from the SDK
}

// TestTexts does calls with all texts of files and directories, in both forms of Texts.
func TestTexts(t *testing.T) {
	for name, texts := range map[string]Texts{"documentation": Documentation, "sdk": SDK} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, &rigOptions{tools: Options{Texts: texts}})
			var out bytes.Buffer
			for _, one := range append(readAnswers(t, "ts-1.14.0.jsonl"), readAnswers(t, "more.jsonl")...) {
				got := r.Call(t.Context(), one.Input)
				encode(t, &out, answered{Input: one.Input, Error: got.Error != nil, Text: got.Text})
			}
			golden := filepath.Join("testdata", name+".jsonl")
			if *update {
				if err := os.WriteFile(golden, out.Bytes(), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want := readAnswers(t, name+".jsonl")
			for i, got := range decode(t, out.Bytes()) {
				if i >= len(want) || got.Error != want[i].Error || got.Text != want[i].Text {
					t.Errorf("call %d, %s: %q is not as in %s", i+1, got.Input, got.Text, golden)
				}
			}
		})
	}
}

// difference is why a text is not that of the TypeScript SDK 1.14.0.
type difference struct {
	why   string
	after string // what /n.md holds there after the call, where ours does not; "" is the same
}

const (
	upwards      = "it leads upwards"
	outOfRange   = "it is out of range"
	hasText      = "there is a text for it"
	dirSize      = "a directory is as large as what is in it"
	replaceCall  = `{"command":"str_replace","path":"/memories/n.md",`
	viewOfMemory = `{"command":"view","path":"/memories`
)

var differences = map[string]difference{
	viewOfMemory + `"}`:                                                        {why: dirSize},
	viewOfMemory + `/a"}`:                                                      {why: dirSize},
	viewOfMemory + `/"}`:                                                       {why: "the slash at the end is nothing"},
	viewOfMemory + `x"}`:                                                       {why: "it is no path of a memory"},
	viewOfMemory + `/a/../b"}`:                                                 {why: upwards},
	viewOfMemory + `/%2e%2e/x"}`:                                               {why: upwards},
	viewOfMemory + `","extra":1}`:                                              {why: "unknown fields are refused"},
	`{"command":"view"}`:                                                       {why: "the field is named"},
	`{"command":"nope","path":"/memories"}`:                                    {why: "the commands are named"},
	viewOfMemory + `/n.md","view_range":[0,-1]}`:                               {why: outOfRange},
	viewOfMemory + `/n.md","view_range":[9,12]}`:                               {why: outOfRange},
	viewOfMemory + `/n.md","view_range":[3,1]}`:                                {why: outOfRange},
	`{"command":"create","path":"/memories/n.md/x","file_text":"x"}`:           {why: hasText},
	`{"command":"rename","old_path":"/memories/a","new_path":"/memories/a/x"}`: {why: hasText},
	`{"command":"insert","path":"/memories/n.md","insert_line":"1","insert_text":"x"}`: {
		why: "a string is no number", after: "top\nx\nX1\nX2\ny L2\nundefined\n"},
	replaceCall + `"old_str":"L2 L2\nL3","new_str":"Z"}`: {why: "several lines match", after: "X1\nX2\nL2 L2\nL3\n"},
	replaceCall + `"old_str":"L2","new_str":"Z"}`:        {why: "two on a line are two", after: "X1\nX2\nZ L2\nL3\n"},
	replaceCall + `"old_str":"L3"}`:                      {why: "without new_str, old_str is deleted", after: "X1\nX2\ny L2\nundefined\n"},
}

// TestSDK does the calls that the TypeScript SDK 1.14.0 was given, and differs from its
// answers only where that has a name.
func TestSDK(t *testing.T) {
	r := newRig(t, &rigOptions{tools: Options{Texts: SDK}})
	sizes := regexp.MustCompile(`\n[0-9.]+[BKM](\t[^\n]*/|\t/memories(/a)?)(\n|$)`)
	for _, one := range readAnswers(t, "ts-1.14.0.jsonl") {
		got := r.Call(t.Context(), one.Input)
		is := got.Text == one.Text && (got.Error != nil) == one.Error
		d := differences[string(one.Input)]
		if is == (d.why != "") {
			t.Errorf("%.200s\n got %q\n sdk %q", one.Input, got.Text, one.Text)
		}
		if d.why == dirSize {
			for range 3 { // rows share their line breaks
				got.Text, one.Text = sizes.ReplaceAllString(got.Text, "\n-$1$3"), sizes.ReplaceAllString(one.Text, "\n-$1$3")
			}
			if got.Text != one.Text && !strings.Contains(one.Text, "/memories/x/") {
				t.Errorf("%s: but for sizes, %q is not %q", one.Input, got.Text, one.Text)
			}
		}
		if d.after != "" {
			_, err := r.sessions[0].Write(t.Context(), "/n.md", []byte(d.after), nil)
			r.must(err)
		}
	}
}

func readAnswers(t *testing.T, name string) []answered {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return decode(t, data)
}

func decode(t *testing.T, data []byte) (all []answered) {
	t.Helper()
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if strings.TrimSpace(lines.Text()) == "" {
			continue
		}
		var one answered
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
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
