package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"mneme/memory"
)

// mounted is what --json says when a mount is ready.
type mounted struct {
	Dir       string         `json:"mounted"`
	PID       int            `json:"pid"`
	SessionID string         `json:"session_id"`
	Stores    []mountedStore `json:"stores"`
	Metrics   string         `json:"metrics,omitempty"`   // where, with --metrics-addr
	Recovered []leftFile     `json:"recovered,omitempty"` // of mounts that were killed
}

type mountedStore struct {
	ID       string  `json:"id"`
	Slug     string  `json:"slug"`
	Path     string  `json:"mount_path"`
	ReadOnly bool    `json:"read_only"`
	AsOf     *uint64 `json:"as_of_seq,omitempty"` // the commit after which it is shown; nil: the newest
}

func newMounted(dir string, flat bool, pid int, session string, stores []*memory.Store) mounted {
	m := mounted{Dir: dir, PID: pid, SessionID: session}
	for _, st := range stores {
		s := st.Info()
		shown := mountedStore{ID: s.ID, Slug: s.Slug, Path: storeDir(dir, flat, s.Slug), ReadOnly: st.ReadOnly()}
		if seq, past := st.EndsAt(); past {
			shown.AsOf = &seq
		}
		m.Stores = append(m.Stores, shown)
	}
	return m
}

// storeDir is where a mount at dir has a store.
func storeDir(dir string, flat bool, slug string) string {
	if flat {
		return dir
	}
	return filepath.Join(dir, slug)
}

// printMounted tells the person or the program that the mount is ready; end
// says how to end it.
func (a *app) printMounted(m mounted, end string) error {
	if a.json {
		if err := a.printJSON(m); err != nil {
			return err
		}
		return a.out.Flush()
	}
	for _, s := range m.Stores {
		mode := ""
		if s.ReadOnly {
			mode = ", read-only"
		}
		if s.AsOf != nil {
			mode = fmt.Sprintf(", as it was after commit %d%s", *s.AsOf, mode)
		}
		a.printf("%s is mounted at %s%s\n", printable(s.Slug), a.paint(bold, printable(s.Path)), mode)
	}
	a.printLeft(m.Recovered)
	if m.Metrics != "" {
		a.printf("Metrics are at %s\n", m.Metrics)
	}
	a.printf("\nThree things to try, in another terminal:\n")
	first := m.Stores[0]
	path := shellWord(printable(first.Path))
	if first.ReadOnly {
		a.printf("  ls -l %s\n", path)
	} else {
		a.printf("  echo \"- water the plants\" >> %s/todo.md\n", path)
	}
	a.printf("  grep -r plants %s\n  %s log %s\n\n%s\n", path, a.command(), first.Slug, end)
	return a.out.Flush()
}

// command is how to call this mneme for the same stores.
func (a *app) command() string {
	name := "mneme"
	if _, err := exec.LookPath(name); err != nil {
		if self, err := os.Executable(); err == nil {
			name = self
		}
	}
	if a.url == nil || *a.url == os.Getenv(urlVariable) {
		return name
	}
	return name + " --url " + shellWord(*a.url)
}
