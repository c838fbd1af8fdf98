package agents

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"mneme/tests/harness"
)

var update = flag.Bool("update", false, "write the golden file anew, but for what must be said by hand")

// goldenRow is a call of the memory tool, and what becomes of it.
type goldenRow struct {
	Call  json.RawMessage `json:"call"`
	SDK   *answer         `json:"sdk,omitempty"`   // by the TypeScript SDK's own tool on ext4; nil: the line makes a file
	Mount *answer         `json:"mount,omitempty"` // by the same on a mount; nil: as on ext4
	Tool  *answer         `json:"tool,omitempty"`  // by mneme tool behind the SDK's helper; nil: as the SDK's own
	Why   string          `json:"why,omitempty"`   // they differ
}

type answer struct {
	Error bool   `json:"error"`
	Text  string `json:"text"`
}

// TestMemoryToolGolden does the calls of testdata/golden.jsonl three times: by the TypeScript
// SDK's own memory tool on ext4, by the same on a mount, and by `mneme tool` behind the SDK's
// helper. They answer alike but where the file says why not.
func TestMemoryToolGolden(t *testing.T) {
	node := harness.FindNode(t, lockFile)
	file := filepath.Join("testdata", "golden.jsonl")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var rows []goldenRow
	for line := range strings.Lines(string(data)) {
		var row goldenRow
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row)
	}
	e := harness.NewEnv(t)
	e.Store("tool")
	program := node.Beside(t, filepath.Join("node", "golden.mjs"))
	do := func(args ...string) []answer {
		return doCalls(t, e, rows, node.Program, append([]string{program}, args...)...)
	}
	local := func(dir string) []answer {
		all := do("local", dir)
		for i := range all {
			all[i].Text = strings.ReplaceAll(all[i].Text, dir, "DIR")
		}
		return all
	}
	sdk, mount := local(t.TempDir()), local(e.Mount(t, "mounted").Dir)
	tool := do("tool", harness.Daemon, "tool", "--store", "tool", "--calls", "0", "--texts", "sdk")

	var now bytes.Buffer
	lines := json.NewEncoder(&now)
	lines.SetEscapeHTML(false)
	i := 0
	for _, row := range rows {
		row.SDK, row.Mount, row.Tool = nil, nil, nil
		if !isFile(row.Call) {
			row.SDK, row.Mount, row.Tool = &sdk[i], other(&sdk[i], mount[i]), other(&sdk[i], tool[i])
			i++
		}
		if differ := row.Mount != nil || row.Tool != nil; differ != (row.Why != "") {
			t.Errorf("%s: say why mount or tool differ from the SDK, if they do: %+v, %+v, %+v", row.Call, row.SDK, row.Mount, row.Tool)
		}
		if err := lines.Encode(row); err != nil {
			t.Fatal(err)
		}
	}
	if *update {
		if err := os.WriteFile(file, now.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	was := strings.Split(string(data), "\n")
	for i, line := range strings.Split(now.String(), "\n") {
		if line != was[i] {
			t.Errorf("%s:%d: now\n%s\nwas\n%s", file, i+1, line, was[i])
		}
	}
}

// isFile reports whether a line is no call, but makes a file, so that all go on from the same.
func isFile(call json.RawMessage) bool { return bytes.HasPrefix(call, []byte(`{"file":`)) }

// other returns b if it is not a.
func other(a *answer, b answer) *answer {
	if *a == b {
		return nil
	}
	return &b
}

// withoutDirectorySizes leaves out what every file system says in its own way. (The tool says how
// large the files in a directory are.)
func withoutDirectorySizes(text string) string {
	head, rest, ok := strings.Cut(text, "\n")
	if !ok || !strings.HasPrefix(head, "Here're the files") {
		return text
	}
	lines := strings.Split(rest, "\n")
	for i, line := range lines {
		if size, path, ok := strings.Cut(line, "\t"); ok && size != "" && (i == 0 || strings.HasSuffix(path, "/")) {
			lines[i] = "-\t" + path
		}
	}
	return head + "\n" + strings.Join(lines, "\n")
}

// doCalls has a program do the calls of all rows.
func doCalls(t *testing.T, e *harness.Env, rows []goldenRow, program string, args ...string) (answers []answer) {
	t.Helper()
	var calls bytes.Buffer
	want := 0
	for _, row := range rows {
		calls.Write(append(row.Call, '\n'))
		if !isFile(row.Call) {
			want++
		}
	}
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Env, cmd.Stdin, cmd.Stderr = e.Environ(), &calls, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	for line := range strings.Lines(string(out)) {
		var one answer
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			t.Fatalf("%v: %v: %q", args, err, line)
		}
		one.Text = withoutDirectorySizes(one.Text)
		answers = append(answers, one)
	}
	if len(answers) != want {
		t.Fatalf("%v: %d answers to %d calls", args, len(answers), want)
	}
	return answers
}
