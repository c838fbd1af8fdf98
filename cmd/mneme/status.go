package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"mneme/memory"
	"mneme/versionlog"
)

type statusCmd struct{}

func (c *statusCmd) Help() string {
	return `Mounts are shown of every store on this machine, also those whose daemon has died.`
}

type statusJSON struct {
	URL    string       `json:"url"`
	Stores []storeState `json:"stores"`
	Mounts []mountJSON  `json:"mounts"`

	known bool // Stores could be asked for
}

type mountJSON struct {
	Dir    string `json:"dir"`
	PID    int    `json:"pid"`
	Alive  bool   `json:"alive"`
	Status string `json:"status"` // .mneme/status of its stores; "" when it does not answer
}

func (c *statusCmd) Run(ctx context.Context, a *app) error {
	at, err := locate(a.url)
	if err != nil {
		return err
	}
	s := statusJSON{URL: at.String(), Stores: []storeState{}, Mounts: []mountJSON{}}
	// Mounts are shown even when the stores cannot be asked.
	var storesErr error
	s.Stores, storesErr = storeStates(ctx, a, !at.remote())
	s.known = storesErr == nil
	mounts, err := listMounts()
	if err != nil {
		return err
	}
	for _, m := range mounts {
		j := mountJSON{Dir: m.dir, PID: m.pid, Alive: m.alive()}
		if j.Alive {
			j.Status = readMountStatus(m.dir)
		}
		s.Mounts = append(s.Mounts, j)
	}
	if a.json {
		return errors.Join(storesErr, a.printJSON(s))
	}
	printStatus(a, s)
	return storesErr
}

// storeStates returns what there is to say about every store; what they hold
// only if it is to be counted.
func storeStates(ctx context.Context, a *app, count bool) ([]storeState, error) {
	states := []storeState{}
	err := a.withLibrary(ctx, reading, func(lib *memory.Library) error {
		stores, err := lib.Stores(ctx)
		if err != nil {
			return err
		}
		for _, s := range stores {
			st, err := lib.Open(ctx, s.ID, nil)
			if err != nil {
				return err
			}
			state, err := newStoreState(ctx, st, count)
			if errors.Is(err, versionlog.ErrNotFound) {
				continue // deleted meanwhile
			}
			if err != nil {
				return err
			}
			states = append(states, state)
		}
		return nil
	})
	return states, a.allowNothing(err)
}

// statusPatience is how long a mount may take to answer.
const statusPatience = 2 * time.Second

// readMountStatus returns what .mneme/status says in the stores of a mount, or
// "" when it does not answer. Another process reads it: if the daemon hangs,
// not even SIGKILL frees that one, and it is left behind.
func readMountStatus(dir string) string {
	var out bytes.Buffer
	cat := exec.Command("sh", "-c", `cd -- "$1" && for s in *; do cat -- "$s/.mneme/status" || exit; echo; done`, "sh", dir)
	cat.Stdout = &out
	if cat.Start() != nil {
		return ""
	}
	done := make(chan error, 1)
	go func() { done <- cat.Wait() }()
	select {
	case err := <-done:
		if err != nil {
			return ""
		}
		return out.String()
	case <-time.After(statusPatience):
		_ = cat.Process.Kill()
		return ""
	}
}

func printStatus(a *app, s statusJSON) {
	a.printFields([][2]string{{"Stores at", s.URL}})
	t := &table{header: []string{"STORE", "SEQ", "MEMORIES", "BYTES", "STATE"}, right: []string{"SEQ", "MEMORIES", "BYTES"}}
	for _, st := range s.Stores {
		state := "in use"
		if st.ArchivedAt != nil {
			state = "archived"
		}
		memories, bytes := "-", "-" // not counted
		if st.Memories != nil {
			memories, bytes = strconv.Itoa(*st.Memories), strconv.FormatInt(*st.Bytes, 10)
		}
		t.add(st.Slug, strconv.FormatUint(st.Seq, 10), memories, bytes, state)
	}
	if len(t.rows) > 0 {
		a.printf("\n")
		a.printTable(t)
	}
	here := func(id string) bool {
		return slices.ContainsFunc(s.Stores, func(st storeState) bool { return st.ID == id })
	}
	for _, m := range s.Mounts {
		a.printf("\n")
		state := fmt.Sprintf("served by process %d", m.PID)
		if !m.Alive {
			state = fmt.Sprintf("dead: process %d is gone; mount again, or `mneme unmount --at %s`", m.PID, m.Dir)
		} else if m.Status == "" {
			state = fmt.Sprintf("process %d does not answer", m.PID)
		}
		a.printFields([][2]string{{"Mounted at", m.Dir + ", " + state}})
		for line := range strings.Lines(strings.TrimSpace(m.Status)) {
			text := printable(strings.TrimSuffix(line, "\n"))
			if id, ok := strings.CutPrefix(text, "id: "); ok && s.known && !here(id) {
				text += " (of other stores than these)"
			}
			a.printf("  %s\n", text)
		}
	}
	if len(s.Mounts) == 0 {
		a.printf("\nNothing is mounted.\n")
	}
}
