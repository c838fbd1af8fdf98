package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"mneme/backend"
	"mneme/memory"
	"mneme/session"
	"mneme/versionlog"
)

// benchMemories is how many memories the embedded store has that is measured.
const benchMemories = 10_000

// embedded returns a Memory of an embedded store of 10,000 memories of 56 MB.
func embedded(b *testing.B) *Memory {
	b.Helper()
	ctx := context.Background()
	must := func(err error) {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
	}
	at, err := backend.Locate("file://" + b.TempDir())
	must(err)
	lib, err := at.Open(ctx, &backend.Options{Create: true})
	must(err)
	b.Cleanup(func() { _ = lib.Close() })
	info, err := lib.CreateStore(ctx, "notes", nil)
	must(err)
	st, err := lib.Open(ctx, info.ID, memory.SessionAuthor("s"))
	must(err)
	var changes []memory.Change
	for i := range benchMemories {
		text := strings.Repeat(fmt.Sprintf("- note %d of many: the quick brown fox jumps over the lazy dog\n", i), 84)
		changes = append(changes, memory.Change{Action: versionlog.Put, Path: fmt.Sprintf("/d%02d/n%05d.md", i%100, i), Content: []byte(text), Expect: versionlog.ExpectAbsent()})
		if len(changes) == 500 {
			_, err := st.Batch(ctx, changes, nil)
			must(err)
			changes = nil
		}
	}
	s := session.New(st, &session.Options{ID: "s"})
	b.Cleanup(s.Close)
	return New([]Place{{Store: st, Session: s}}, nil)
}

// cpu returns how much processor time this process has taken.
func cpu() time.Duration {
	var used syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// BenchmarkTools measures calls on an embedded store; p50 and p99 are of single calls.
func BenchmarkTools(b *testing.B) {
	m := embedded(b)
	run := func(name string, call func(i int) *Error) {
		b.Run(name, func(b *testing.B) {
			var took []time.Duration
			before := cpu()
			for i := 0; b.Loop(); i++ {
				began := time.Now()
				if e := call(i); e != nil {
					b.Fatal(e)
				}
				took = append(took, time.Since(began))
			}
			b.ReportMetric(float64((cpu()-before).Microseconds())/1000/float64(len(took)), "cpu-ms/op") // whatever else the machine does
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
		})
	}
	tool := func(format string, args ...any) *Error {
		return m.Call(b.Context(), json.RawMessage(fmt.Sprintf(format, args...))).Error
	}
	search := func(q Query) *Error {
		_, c, err := m.Search(b.Context(), q)
		if err != nil || c.Why == "deadline" {
			return &Error{text: fmt.Sprint(c, err)}
		}
		return nil
	}
	path := func(i int) string {
		i = i * 7919 % benchMemories
		return fmt.Sprintf("/memories/d%02d/n%05d.md", i%100, i)
	}
	run("view", func(i int) *Error { return tool(`{"command":"view","path":%q}`, path(i)) })
	run("list", func(int) *Error { return tool(`{"command":"view","path":"/memories"}`) })
	run("search_absent", func(int) *Error { return search(Query{Text: NewSecret("needle in a haystack")}) })
	run("search_ignoring_case", func(int) *Error { return search(Query{Text: NewSecret("Needle In"), IgnoreCase: true}) })
	run("search_regexp", func(int) *Error { return search(Query{Text: NewSecret(`needle \d+ in`), Regexp: true}) })
	run("search_common", func(int) *Error { return search(Query{Text: NewSecret("lazy")}) })
	if e := tool(`{"command":"create","path":"/memories/counter.md","file_text":"at 0\n"}`); e != nil {
		b.Fatal(e)
	}
	at := 0
	run("str_replace", func(int) *Error {
		e := tool(`{"command":"str_replace","path":"/memories/counter.md","old_str":"at %d\n","new_str":"at %d\n"}`, at, at+1)
		at++
		return e
	})
}
