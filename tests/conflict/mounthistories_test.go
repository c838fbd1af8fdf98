package conflict

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"mneme/memory"
	"mneme/session/conflict"
	"mneme/tests/harness"
	"mneme/versionlog"
)

// mountHistory is a store, mounts of it, and how far its history has been looked
// at.
type mountHistory struct {
	env      *harness.Env
	mounts   []*harness.Mount
	agents   []*harness.Agent
	log      *memory.Store
	kept     *conflict.Store
	seq      uint64
	lastKept int // its number
	counts   map[string]int

	patience time.Duration // until the final state must be seen
}

func newMountHistory(t testing.TB, e *harness.Env, sessions int) *mountHistory {
	t.Helper()
	h := &mountHistory{env: e, counts: map[string]int{}, patience: harness.SlownessOf(t) * harness.RefreshPatience}
	for range sessions {
		m := e.Mount(t, "notes")
		h.mounts, h.agents = append(h.mounts, m), append(h.agents, m.Agent(t))
	}
	stores, err := harness.OpenEmbedded(t.Context(), e.Stores)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stores.Close(); err != nil {
			t.Error(err)
		}
	})
	if h.log, err = stores.OpenNamed(t.Context(), "notes"); err != nil {
		t.Fatal(err)
	}
	h.kept = conflict.New(filepath.Join(e.Stores, "conflicts", h.log.Info().ID))
	return h
}

// begin makes the directory of an episode, and waits until all see it.
func (h *mountHistory) begin(t testing.TB, number int) {
	t.Helper()
	dir := fmt.Sprint("e", number)
	// A file of another session keeps it there for all.
	if _, err := h.log.Write(t.Context(), "/"+dir+"/here", []byte("here"), versionlog.ExpectAny()); err != nil {
		t.Fatal(err)
	}
	for _, a := range h.agents {
		if wrong := find(t, a, dir+"/here", "here", h.patience); wrong != "" {
			t.Fatal(wrong)
		}
	}
	h.news(t)
}

// play plays an episode and returns what is wrong with it.
func (h *mountHistory) play(t testing.TB, number, calls int, seed uint64) []string {
	t.Helper()
	dir := fmt.Sprint("e", number)
	e := &episode{dir: "/" + dir, sight: time.Second + harness.SlownessOf(t)*2*time.Second}
	parts := make([][]mountCall, len(h.agents))
	var work sync.WaitGroup
	for i, a := range h.agents {
		p := part{Session: fmt.Sprint("s", i), Episode: number, Seed: seed + uint64(number*100+i), Calls: calls, Reads: (number+i)%3 == 0}
		order, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		work.Go(func() {
			r := a.Do(t, harness.Call{Op: "episode", Path: dir, Text: string(order)})
			if err := json.Unmarshal([]byte(r.Text), &parts[i]); err != nil {
				t.Errorf("session %d: %v %v", i, err, r.Errno)
			}
		})
	}
	work.Wait()
	for i, calls := range parts {
		for _, c := range calls {
			c.session = h.mounts[i].Session
			e.calls = append(e.calls, c)
			h.counts["calls"]++
			h.counts[fmt.Sprintf("%s %v", c.Op, say(c.Errno))]++
		}
	}
	e.commits, e.kept = h.news(t)
	if wrong := e.check(); wrong != nil {
		return wrong
	}
	end := h.texts(t, e.dir)
	for _, a := range h.agents {
		for _, path := range episodePaths {
			if wrong := find(t, a, dir+"/"+path, end[path], h.patience); wrong != "" {
				return []string{wrong}
			}
		}
	}
	if err := e.linearizable(end); err != nil {
		return []string{err.Error()}
	}
	return nil
}

// news returns what has been committed, and kept, since the last time.
func (h *mountHistory) news(t testing.TB) (commits []*versionlog.Commit, kept []keptText) {
	t.Helper()
	for c, err := range h.log.Commits(t.Context(), h.seq) {
		if err != nil {
			t.Fatal(err)
		}
		commits = append(commits, c)
		h.seq = c.Seq
	}
	all, err := h.kept.ListAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, about := range all {
		if about.ID <= h.lastKept {
			continue
		}
		yours, err := h.kept.Read(about.ID, conflict.YoursFile)
		if err != nil {
			t.Fatal(err)
		}
		kept = append(kept, keptText{session: about.Session, path: about.Path, yours: string(yours)})
		h.lastKept = about.ID
	}
	return commits, kept
}

// texts returns what the store itself holds of an episode.
func (h *mountHistory) texts(t testing.TB, dir string) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for v, err := range h.log.Heads(t.Context(), dir) {
		if err != nil {
			t.Fatal(err)
		}
		data, err := h.log.Content(context.Background(), v)
		if err != nil {
			t.Fatal(err)
		}
		if name := strings.TrimPrefix(v.Path, dir+"/"); name != "here" {
			texts[name] = string(data)
		}
	}
	return texts
}

// find waits until a mount shows a text at a path, "" being no file, and says
// what it shows instead.
func find(t testing.TB, a *harness.Agent, path, text string, patience time.Duration) string {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		r := a.Do(t, harness.Call{Op: "read", Path: path})
		if r.Text == text && (text == "") == !r.OK() {
			return ""
		}
		if time.Now().After(deadline) {
			return fmt.Sprintf("in the end %s shows {%s} (%v) at %s, the store has {%s}", a.Child.Mount.Session, looks(r.Text), say(r.Errno), path, looks(text))
		}
	}
}

// TestMountHistories: whatever several sessions do to a few files at once, each
// through a mount of its own, fits to the store's log and to one order.
func TestMountHistories(t *testing.T) {
	type form struct{ sessions, episodes, calls, histories int }
	forms := []form{{2, 4, 50, 1}, {4, 4, 50, 1}}
	if harness.Torture() {
		forms = []form{{2, 20, 50, 1}, {4, 20, 50, 10}, {16, 200, 50, 1}}
	}
	for _, f := range forms {
		t.Run(strconv.Itoa(f.sessions), func(t *testing.T) {
			for history := range f.histories {
				h := newMountHistory(t, harness.NewEnv(t), f.sessions)
				for number := range f.episodes {
					h.begin(t, number)
					for _, wrong := range h.play(t, number, f.calls, uint64(history)<<32) {
						t.Errorf("history %d, episode %d: %s", history, number, wrong)
					}
					if t.Failed() {
						return
					}
				}
				t.Logf("history %d: %d sessions, %d commits, %v", history, f.sessions, h.seq, h.counts)
			}
		})
	}
}
