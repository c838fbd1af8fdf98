package conflict

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"

	"mneme/tests/harness"
)

// toolCall is one of the calls of an agent that reads a file, works on the text that it has read,
// and writes it back with a line more, or begins again when that is refused.
type toolCall struct {
	*harness.Agent
	name string
	text string // "": still to be read
	done int
}

// step makes the next call, and returns what the file holds after a write that
// went well.
func (c *toolCall) step(t *testing.T, random *rand.Rand) (wrote string, refused bool) {
	t.Helper()
	if c.text == "" {
		c.text = c.Must(t, harness.Call{Op: "read", Path: "f"})
		return "", false
	}
	text := fmt.Sprintf("%s%s.%d\n", c.text, c.name, c.done)
	r := c.Do(t, harness.Call{Op: []string{"put", "replace"}[random.IntN(2)], Path: "f", Text: text})
	c.text = ""
	switch {
	case r.OK():
		c.done++
		return text, false
	case r.Errno != syscall.EBUSY:
		t.Fatalf("%s: %v", c.name, r.Errno)
	}
	return "", true
}

// TestParallelToolCalls has the programs of one session read, write and search a
// file, in turns of every kind, while another session adds lines to it: none of
// these goes, unless the session was refused, has read the file again, and has
// then written it.
func TestParallelToolCalls(t *testing.T) {
	steps, seeds := 100, uint64(2)
	if harness.Torture() {
		steps, seeds = 5000, 10
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			e := harness.NewEnv(t)
			mine, theirs := e.Mount(t, "notes"), e.Mount(t, "notes")
			other := &toolCall{Agent: theirs.Agent(t), name: "theirs"}
			other.Must(t, harness.Call{Op: "put", Path: "f", Text: "start\n"})
			search := mine.Agent(t)
			if wrong := find(t, search, "f", "start\n", harness.RefreshPatience*harness.SlownessOf(t)); wrong != "" {
				t.Fatal(wrong)
			}
			var calls []*toolCall
			for i := range 4 {
				calls = append(calls, &toolCall{Agent: mine.Agent(t), name: fmt.Sprint("mine", i)})
			}
			random := rand.New(rand.NewPCG(seed, 0))
			head, told, again, refusals := "start\n", false, false, 0
			taken := map[string]bool{} // lines that the session has taken back: what it brings back of them is its own
			for range steps {
				switch n := random.IntN(10); n {
				case 0, 1:
					for range 2 {
						if wrote, _ := other.step(t, random); wrote != "" {
							head = wrote
						}
					}
				case 2, 3:
					search.Must(t, harness.Call{Op: "read", Path: "f"})
					again = again || told
				default:
					c := calls[n%len(calls)]
					reads := c.text == ""
					wrote, refused := c.step(t, random)
					for line := range strings.Lines(head) {
						if wrote == "" || !strings.HasPrefix(line, "theirs") || taken[line] || slices.Contains(strings.SplitAfter(wrote, "\n"), line) {
							continue
						}
						if taken[line] = true; !again {
							t.Errorf("%s is gone, of which the session was not told before %s wrote", strings.TrimSpace(line), c.name)
						}
					}
					switch {
					case refused:
						told, again, refusals = true, false, refusals+1
					case wrote != "":
						head, told, again = wrote, false, false
					case reads:
						again = again || told
					}
				}
			}
			if wrong := find(t, other.Agent, "f", head, harness.RefreshPatience*harness.SlownessOf(t)); wrong != "" {
				t.Error(wrong)
			}
			if refusals == 0 || other.done == 0 {
				t.Error("nothing was refused")
			}
			t.Logf("%d lines by the other session, %d of them taken back after a refusal and a read; %d refusals", other.done, len(taken), refusals)
		})
	}
}
