package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"mneme/errkind"
	"mneme/internal/testing/logfault"
	"mneme/session"
)

// workers are how many work at once.
const workers = 100

// TestManyWorkers: of edits of one file by many at once none is lost and none is done twice:
// by one Memory, or by one each.
func TestManyWorkers(t *testing.T) {
	for name, each := range map[string]bool{"one session": false, "a session each": true} {
		t.Run(name, func(t *testing.T) {
			o := &rigOptions{}
			r := newRig(t, o)
			var start strings.Builder
			for i := range workers {
				fmt.Fprintf(&start, "slot %03d: empty\n", i)
			}
			r.theirs("/f", start.String()+"last line\n")
			tools := make([]*Memory, workers)
			for i := range tools {
				if tools[i] = r.Memory; each {
					tools[i] = r.tool(fmt.Sprintf("s%d", i), o)
				}
			}
			var all sync.WaitGroup
			for i, m := range tools {
				all.Go(func() {
					slot := fmt.Sprintf("slot %03d: ", i)
					if got := call(m, "str_replace", "path", "/memories/f", "old_str", slot+"empty", "new_str", slot+"done"); got.Error != nil {
						t.Errorf("%s%s", slot, got.Text)
					}
					if got := call(m, "str_replace", "path", "/memories/f", "old_str", "last line\n", "new_str", slot+"end\nlast line\n"); got.Error != nil {
						t.Errorf("%s%s", slot, got.Text)
					}
					for {
						got := call(m, "insert", "path", "/memories/f", "insert_line", 0, "insert_text", slot+"top")
						if got.Error == nil {
							return
						}
						if got.Error.Retry != AfterView {
							t.Errorf("%s%s", slot, got.Text)
							return
						}
						call(m, "view", "path", "/memories/f")
					}
				})
			}
			all.Wait()
			_, data, err := r.stores[0].Read(t.Context(), "/f")
			r.must(err)
			for i := range workers {
				for _, what := range []string{"done", "end", "top"} {
					if marker := fmt.Sprintf("slot %03d: %s\n", i, what); strings.Count(string(data), marker) != 1 {
						t.Errorf("%q is there %d times", marker, strings.Count(string(data), marker))
					}
				}
			}
			if tip, err := r.stores[0].Tip(t.Context()); err != nil || tip.Seq != 1+3*workers {
				t.Errorf("%d commits, %v", tip.Seq, err)
			}
		})
	}
}

// TestLostReplies: an edit whose reply is lost says that it may have been made, and it is
// there once.
func TestLostReplies(t *testing.T) {
	r := newRig(t, nil)
	r.theirs("/f", "one\n")
	r.log.SetFates(logfault.Unheard, logfault.Unmade)
	for _, marker := range []string{"made", "not made"} {
		got := r.fail("Error: The store did not answer; whether the change was made is not known. View /memories/f before you try again.",
			"str_replace", "path", "/memories/f", "old_str", "one\n", "new_str", "one\n"+marker+"\n")
		if e := got.Error; !e.Unsure || e.Kind != errkind.Unknown || e.Retry != AfterView {
			t.Errorf("%+v", e)
		}
	}
	r.do("Here's the content of /memories/f with line numbers:\n     1\tone\n     2\tmade\n     3\t", "view", "path", "/memories/f")
}

// TestManyWorkersUnheard: also where replies are lost, or commits themselves, a worker that
// views the file before it tries again has its edit there once.
func TestManyWorkersUnheard(t *testing.T) {
	const workers = 30
	r := newRig(t, nil)
	var start strings.Builder
	for i := range workers {
		fmt.Fprintf(&start, "slot %03d: empty\n", i)
	}
	r.theirs("/f", start.String())
	var commits, unsure atomic.Int64
	r.log.SetFate(func() logfault.Fate {
		return []logfault.Fate{logfault.Made, logfault.Unheard, logfault.Made, logfault.Unmade}[commits.Add(1)%4]
	})
	var all sync.WaitGroup
	for i := range workers {
		all.Go(func() {
			slot := fmt.Sprintf("slot %03d: ", i)
			for {
				got := r.call("str_replace", "path", "/memories/f", "old_str", slot+"empty\n", "new_str", slot+"done\n"+slot+"more\n")
				if got.Error == nil {
					return
				}
				if !got.Error.Unsure {
					t.Errorf("%s%s", slot, got.Text)
					return
				}
				unsure.Add(1)
				if strings.Contains(r.call("view", "path", "/memories/f").Text, slot+"done") {
					return
				}
			}
		})
	}
	all.Wait()
	_, data, err := r.stores[0].Read(t.Context(), "/f")
	r.must(err)
	for i := range workers {
		for _, what := range []string{"done", "more"} {
			if marker := fmt.Sprintf("slot %03d: %s\n", i, what); strings.Count(string(data), marker) != 1 {
				t.Errorf("%q is there %d times", marker, strings.Count(string(data), marker))
			}
		}
	}
	if unsure.Load() < workers/4 {
		t.Errorf("only %d replies were lost", unsure.Load())
	}
}

// TestBudget: of calls by many at once exactly as many are done as the budget has, and those
// that are refused change nothing.
func TestBudget(t *testing.T) {
	const calls = 20
	r := newRig(t, &rigOptions{tools: Options{Budget: session.NewBudget(calls, 0)}})
	var done, refused atomic.Int64
	var all sync.WaitGroup
	for worker := range workers {
		all.Go(func() {
			for i := range 5 {
				got := call(r.Memory, "create", "path", fmt.Sprintf("/memories/%d/%d", worker, i), "file_text", "x")
				switch {
				case got.Error == nil:
					done.Add(1)
				case got.Error.Kind == errkind.OverQuota && got.Error.Retry == Never &&
					got.Text == "Error: The budget of 20 memory calls for this quest is used up; nothing was done. Go on with what you know.":
					refused.Add(1)
				default:
					t.Errorf("%q, %+v", got.Text, got.Error)
				}
			}
		})
	}
	all.Wait()
	tip, err := r.stores[0].Tip(t.Context())
	if done.Load() != calls || refused.Load() != 5*workers-calls || err != nil || tip.Seq != calls {
		t.Errorf("%d are done, %d refused, %d made: %v", done.Load(), refused.Load(), tip.Seq, err)
	}
	if left, bounded := r.CallsLeft(); left != 0 || !bounded {
		t.Errorf("%d calls are left, %v", left, bounded)
	}
	r.Reset()
	r.fail("Error: Unknown command", "nope") // counts, too
	r.do("Successfully deleted", "delete", "path", "/memories/"+first(t, r))
	if left, _ := r.CallsLeft(); left != calls-2 {
		t.Errorf("%d calls are left", left)
	}
	if _, bounded := newRig(t, nil).CallsLeft(); bounded {
		t.Error("without a budget calls are counted")
	}
}

// first returns the first directory of the store.
func first(t *testing.T, r *rig) string {
	t.Helper()
	for v, err := range r.stores[0].Heads(t.Context(), "/") {
		r.must(err)
		return strings.Split(v.Path, "/")[1]
	}
	t.Fatal("there is none")
	return ""
}

// TestBudgetOfBytes: what a call takes and returns counts, and a view that does not fit shows
// nothing.
func TestBudgetOfBytes(t *testing.T) {
	r := newRig(t, &rigOptions{tools: Options{Budget: session.NewBudget(0, 1000)}})
	r.theirs("/f", strings.Repeat("x", 950))
	got := r.fail("Error: The budget of 1000 bytes for this quest is used up; nothing was done.", "view", "path", "/memories/f")
	if strings.Contains(got.Text, "xx") || got.Error.Retry != Never {
		t.Errorf("it shows %q, %+v", got.Text, got.Error)
	}
	renewed := newRig(t, &rigOptions{tools: Options{Budget: session.NewBudget(1, 0), Renewed: true}})
	renewed.do("Here're", "view", "path", "/memories")
	if got := renewed.fail("Error: The budget of 1 memory call", "view", "path", "/memories"); got.Error.Retry != Later {
		t.Errorf("a budget that is renewed: %+v", got.Error)
	}
	renewed.Reset()
	renewed.do("Here're", "view", "path", "/memories")
	big, err := json.Marshal(map[string]string{"command": "create", "path": "/memories/g", "file_text": strings.Repeat("y", 950)})
	r.must(err)
	if got := r.Call(context.Background(), big); got.Error == nil || got.Error.Kind != errkind.OverQuota {
		t.Errorf("%q", got.Text)
	}
	if tip, err := r.stores[0].Tip(t.Context()); err != nil || tip.Seq != 1 {
		t.Errorf("%d commits, %v", tip.Seq, err)
	}
}
