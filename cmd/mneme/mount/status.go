package mount

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"mneme/backend"
	"mneme/cmd/mneme/app"
	"mneme/cmd/mneme/term"
	"mneme/cmd/mneme/view"
	"mneme/daemon"
	"mneme/internal/mountinfo"
	"mneme/internal/plural"
	"mneme/internal/quote"
	"mneme/versionlog"
)

// StatusCmd is the command `mneme status`.
type StatusCmd struct {
	Verbose bool `short:"v" help:"Show all that each mount says of its stores."`
	Mine    bool `help:"Show the mounts only that you serve."`
}

func (c *StatusCmd) Help() string {
	return `Mounts are shown of every store on this machine, one a line, also those whose daemon has died. A store that is not at --url has its URL behind it in parentheses.

Examples:

    mneme status
    mneme status -v --mine`
}

type statusJSON struct {
	URL    string            `json:"url"`
	Stores []view.StoreState `json:"stores"`
	Mounts []mountJSON       `json:"mounts"`

	known bool // Stores could be asked for
}

func (c *StatusCmd) Run(ctx context.Context, a *app.App) error {
	at, err := app.Locate(a.URL)
	if err != nil {
		return err
	}
	s := statusJSON{URL: at.URL, Stores: []view.StoreState{}, Mounts: []mountJSON{}}
	// Mounts are shown even if the stores cannot be asked.
	var storesErr error
	s.Stores, storesErr = storeStates(ctx, a, at.Dir != "")
	s.known = storesErr == nil
	mounts, err := daemon.Mounts()
	if err != nil {
		return err
	}
	for _, m := range mounts {
		if j := newMountJSON(m); !c.Mine || j.UID == os.Getuid() {
			s.Mounts = append(s.Mounts, j)
		}
	}
	if a.JSON {
		return errors.Join(storesErr, a.PrintJSON(s))
	}
	printStatus(a, s, c.Verbose)
	if mounted, err := mountinfo.List(); err == nil {
		warnExpired(a, mounted, time.Now())
	}
	return storesErr
}

// storeStates returns the state of every store. It counts their contents only if count is
// set.
func storeStates(ctx context.Context, a *app.App, count bool) ([]view.StoreState, error) {
	states := []view.StoreState{}
	err := a.WithLibrary(ctx, app.Reading, func(lib *backend.Library) error {
		stores, err := lib.Stores(ctx)
		if err != nil {
			return err
		}
		for _, s := range stores {
			st, err := lib.Open(ctx, s.ID, nil)
			if err != nil {
				return err
			}
			state, err := view.NewStoreState(ctx, st, count)
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
	return states, a.AllowNothing(err)
}

func printStatus(a *app.App, s statusJSON, verbose bool) {
	a.PrintFields([][2]string{{"Stores at", s.URL}})
	t := &term.Table{Header: []string{"STORE", "SEQ", "MEMORIES", "BYTES", "STATE"}, Right: []string{"SEQ", "MEMORIES", "BYTES"}, Shrink: []string{"STORE"}}
	for _, st := range s.Stores {
		state := "active"
		if st.ArchivedAt != nil {
			state = "archived"
		}
		memories, bytes := "-", "-" // not counted
		if st.Memories != nil {
			memories, bytes = strconv.Itoa(*st.Memories), strconv.FormatInt(*st.Bytes, 10)
		}
		t.Add(st.Slug, strconv.FormatUint(st.Seq, 10), memories, bytes, state)
	}
	if len(t.Rows) > 0 {
		a.Printf("\n")
		a.PrintTable(t)
	}
	for _, st := range s.Stores {
		if st.Git > 0 {
			a.Printf("\n%s holds %s that git takes for its own, such as hooks below .git; with GIT_DIR=/dev/null git looks for none.\n", st.Slug, plural.Of(st.Git, "memory"))
		}
	}
	if len(s.Mounts) == 0 {
		a.Printf("\nNothing is mounted.\n")
		return
	}
	a.Printf("\n")
	mounts := &term.Table{Header: []string{"MOUNT", "STORES", "SESSION", "PID", "STATE"}, Right: []string{"PID"},
		Shrink: []string{"SESSION", "STORES", "STATE", "MOUNT"}, Paths: []string{"MOUNT"}}
	for _, m := range s.Mounts {
		session := "-"
		if len(m.Stores) > 0 {
			session = m.Stores[0].Get(daemon.StatusSession)
		}
		mounts.Add(m.Dir, s.storesOf(m), session, strconv.Itoa(m.PID), m.state())
	}
	a.PrintTable(mounts)
	for _, m := range s.Mounts {
		if verbose {
			printMount(a, m)
		}
	}
}

// storesOf names the stores of a mount. It adds the URL of a store that is not at the
// command's URL.
func (s statusJSON) storesOf(m mountJSON) string {
	var names []string
	for _, st := range m.Stores {
		name, id := st.Get(daemon.StatusStore), st.Get(daemon.StatusID)
		if st.Get(daemon.StatusAccess) == "read-only" {
			name += ":ro"
		}
		if seq := st.Get(daemon.StatusAsOf); seq != "" {
			name += " (as of " + seq + ")"
		}
		if s.known && !slices.ContainsFunc(s.Stores, func(known view.StoreState) bool { return known.ID == id }) {
			name += " (" + cmp.Or(st.Get(daemon.StatusURL), "elsewhere") + ")"
		}
		names = append(names, name)
	}
	if len(names) == 0 {
		return "-"
	}
	return strings.Join(names, " ")
}

// state is the state of a mount in a few words.
func (m mountJSON) state() string {
	switch {
	case !m.Alive:
		return "dead: mount again, or mneme unmount"
	case m.closed:
		return "not open to you"
	case len(m.Stores) == 0:
		return "does not answer"
	}
	for _, st := range m.Stores {
		if state := st.Get(daemon.StatusState); state != "ok" {
			return state
		}
	}
	return "ok"
}

// printMount prints the status of each store of a mount.
func printMount(a *app.App, m mountJSON) {
	a.Printf("\n")
	a.PrintFields([][2]string{{"Mounted at", fmt.Sprintf("%s, by process %d: %s", m.Dir, m.PID, m.state())}})
	for _, st := range m.Stores {
		for _, line := range st {
			a.Printf("  %s: %s\n", quote.Text(line.Key), quote.Text(line.Value))
		}
		a.Printf("\n")
	}
}
