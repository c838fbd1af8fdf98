package bench

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mneme/memory"
	"mneme/pack"
	"mneme/session"
	"mneme/tests/harness"
	"mneme/tools"
)

//go:embed testdata/agents.md
var agentsPage string

// BenchmarkAgents measures what agents without a shell have of a store, beside the servers of
// others that give them files or a memory, and writes docs/BENCHMARKS-AGENTS.md.
func BenchmarkAgents(b *testing.B) {
	for range b.N {
		r := newReport(b)
		harness.NeedTools(b, "findmnt", "git", "strace")
		node := harness.FindNode(b, filepath.Join("..", "agents", "node", "package-lock.json"))
		fillWith(b, r.env, "notes", r.notes(), noteText)
		r.toolCalls()
		r.toolProcess()
		all := r.servers(node)
		r.serverStarts(all)
		r.serverCalls(all)
		r.serverMemory(all)
		r.lostUpdates(all)
		r.write("BENCHMARKS-AGENTS.md", agentsPage)
		b.ReportMetric(0, "ns/op")
	}
}

// notes are the paths of the store's memories, 100 in each directory.
func (r *report) notes() []string {
	paths := make([]string, r.files)
	for i := range paths {
		paths[i] = noteAt(i)
	}
	return paths
}

// anyNote is the path of one of them, another for each i, far from the one before.
func (r *report) anyNote(i int) string { return noteAt(i * 7919 % r.files) }

// noteAt is the path of a memory, noteText what it holds: about 5 KB.
func noteAt(i int) string { return fmt.Sprintf("d%02d/n%05d.md", i/100, i) }

func noteText(path string) string {
	return strings.Repeat("- of "+path+": the quick brown fox jumps over the lazy dog\n", 90)
}

// counter is a memory that is edited again and again.
const counter = "counter.md"

// countedTo is what the counter says.
func countedTo(n int) string { return fmt.Sprintf("at %d\n", n) }

// toolInput is the input of the memory tool for a call by fields and values.
func toolInput(fields ...any) json.RawMessage {
	input := map[string]any{}
	for i := 0; i < len(fields); i += 2 {
		input[fields[i].(string)] = fields[i+1]
	}
	data, err := json.Marshal(input)
	if err != nil {
		panic(err)
	}
	return data
}

// toolCall is a call that is measured: how often a round makes it, and its target in ms; 0 is none.
type toolCall struct {
	name  string
	often int
	limit float64
	run   func(i int) error
}

// toolCalls times calls of the tools inside one process.
func (r *report) toolCalls() {
	m, st := r.openTools()
	tool := func(fields ...any) error {
		if got := m.Call(context.Background(), toolInput(fields...)); got.Error != nil {
			return got.Error
		}
		return nil
	}
	search := func(found bool, q tools.Query) func(int) error {
		return func(int) error {
			matches, c, err := m.Search(context.Background(), q)
			if err == nil && (c.Why == "deadline" || found != (len(matches) > 0)) {
				err = fmt.Errorf("%d matches, %+v", len(matches), c)
			}
			return err
		}
	}
	literal := noteAt(r.files * 2 / 3)
	edits := 0
	r.must(tool("command", "create", "path", "/memories/"+counter, "file_text", countedTo(0)))
	disk := r.diskSync()
	r.timeCalls("in one process", []toolCall{
		{"`view` of a file", 200, 1, func(i int) error {
			return tool("command", "view", "path", "/memories/"+r.anyNote(i))
		}},
		{fmt.Sprintf("`str_replace` (2 ms and one fsync, which took %s ms)", figure(disk)), 100, 2 + disk, func(int) error {
			edits++
			return tool("command", "str_replace", "path", "/memories/"+counter, "old_str", countedTo(edits-1), "new_str", countedTo(edits))
		}},
		{"`view` of two levels", 30, 10, func(int) error { return tool("command", "view", "path", "/memories") }},
		{"search of a literal, found", 5, 150, search(true, tools.Query{Text: tools.NewSecret(literal)})},
		{"search of a literal, absent", 5, 150, search(false, tools.Query{Text: tools.NewSecret("a needle in a haystack")})},
		{"search of a regular expression, absent", 5, 0, search(false, tools.Query{Text: tools.NewSecret(`needle \d+ in`), Regexp: true})},
		{"pack of 8,000 bytes", 5, 0, func(int) error {
			_, err := pack.Render(context.Background(), st, 8000, nil)
			return err
		}},
	})
}

// openTools opens the store for this process.
func (r *report) openTools() (*tools.Memory, *memory.Store) {
	lib, err := harness.OpenEmbedded(context.Background(), r.env.Stores)
	r.must(err)
	r.Cleanup(func() { r.must(lib.Close()) })
	st, err := lib.OpenNamed(context.Background(), "notes")
	r.must(err)
	s := session.New(st, &session.Options{ID: "bench", Name: tools.PathName("notes", false)})
	r.Cleanup(s.Close)
	return tools.New([]tools.Place{{Store: st, Session: s}}, nil), st
}

func (r *report) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// diskSync is how long the disk takes to make 4 KB durable, in ms.
func (r *report) diskSync() float64 {
	var took series
	for range r.rounds {
		took = append(took, float64(timed(r.B, r.env, "sync", "100", "4096")(r.env.Dir).Microseconds())/1000)
	}
	return took.median()
}

// timeCalls times calls in rounds, in turns, after each was made once, and adds them to the table.
func (r *report) timeCalls(where string, calls []toolCall) {
	singles, rounds := map[string]series{}, map[string]series{}
	for _, c := range calls {
		r.must(c.run(0))
	}
	made := 0
	for range r.rounds {
		for _, c := range calls {
			var round series
			for range r.either(c.often, min(c.often, 20)) {
				made++
				began := time.Now()
				err := c.run(made)
				round = append(round, float64(time.Since(began).Nanoseconds())/1e6)
				r.must(err)
			}
			rounds[c.name] = append(rounds[c.name], round.median())
			singles[c.name] = append(singles[c.name], round...)
		}
	}
	t := r.table("calls", "call", "where", "p50, ms (least–most of the rounds)", "p99, ms", "target of p50", "met")
	for _, c := range calls {
		verdict := []string{"", ""}
		if c.limit > 0 {
			verdict = r.goal(c.name+" "+where, rounds[c.name].median(), rounds[c.name].least(), floor{}, c.limit, " ms")
		}
		t.row(append([]string{c.name, where, rounds[c.name].withSpread(), figure(singles[c.name].at(0.99))}, verdict...)...)
	}
}

// toolProcess times calls over `mneme tool`, and counts its fsyncs.
func (r *report) toolProcess() {
	l := r.env.Lines(r.B, harness.Binary, "tool", "--store=notes", "--session=process", "--calls=0")
	tool := func(fields ...any) error {
		answer, err := l.Try(`{"id":1,"input":` + string(toolInput(fields...)) + `}`)
		if err == nil && !strings.Contains(answer, `"is_error":false`) {
			err = fmt.Errorf("it answers %.300s", answer)
		}
		return err
	}
	const name = "process-" + counter
	r.must(tool("command", "create", "path", "/memories/"+name, "file_text", countedTo(0)))
	at := 0
	replace := func(int) error {
		at++
		return tool("command", "str_replace", "path", "/memories/"+name, "old_str", countedTo(at-1), "new_str", countedTo(at))
	}
	r.timeCalls("over `mneme tool`", []toolCall{
		{"`view` of a file", 200, 1, func(i int) error {
			return tool("command", "view", "path", "/memories/"+r.anyNote(i))
		}},
		{"`str_replace`", 100, 2 + r.diskSync(), replace},
		{"`view` of two levels", 30, 10, func(int) error { return tool("command", "view", "path", "/memories") }},
	})
	const edits = 5
	var syncs series
	for range r.rounds {
		made := r.env.Fsyncs(r.B, l.PID, func() {
			for i := range edits {
				r.must(replace(i))
			}
		})
		syncs = append(syncs, float64(made)/edits)
	}
	verdict := r.goal("fsyncs of a `str_replace`", syncs.median(), syncs.least(), floor{}, 1, "")
	r.table("calls").row(append([]string{"fsyncs of a `str_replace`", "over `mneme tool`", syncs.withSpread(), ""}, verdict...)...)
	l.End(r.B)
}
