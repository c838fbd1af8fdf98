package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"mneme/versionlog"
)

// liveMount is a mount whose daemon runs, and what it says of itself; nothing
// when it does not answer in time.
type liveMount struct {
	mountPoint
	stores []storeStatus
}

// liveMounts asks every living mount of mneme on this machine that this process
// sees, all at once.
func liveMounts() ([]liveMount, error) {
	mounts, err := listMounts()
	if err != nil {
		return nil, err
	}
	live := make([]liveMount, 0, len(mounts))
	for _, m := range mounts {
		if m.alive() {
			live = append(live, liveMount{mountPoint: m})
		}
	}
	var asked sync.WaitGroup
	for i := range live {
		asked.Go(func() { live[i].stores = parseStatuses(readMountStatus(live[i].dir)) })
	}
	asked.Wait()
	return live, nil
}

// checkUnmounted makes sure that no mount on this machine shows a store; unless
// readers, one that only reads it is none. A mount that does not answer counts
// if its daemon has a file of the location open. Of another one that does not,
// it is only said that it does not.
func (a *app) checkUnmounted(s versionlog.Store, readers bool) error {
	at, err := locate(a.url)
	if err != nil {
		return err
	}
	mounts, err := liveMounts()
	if err != nil {
		return err
	}
	opened := func(pid int) bool { return at.Dir != "" && hasOpenBelow(pid, at.Dir) }
	var users []string
	for _, m := range mounts {
		user := fmt.Sprintf("%s (process %d)", m.dir, m.pid)
		switch {
		case m.shows(s.ID, readers):
			users = append(users, user)
		case len(m.stores) == 0 && slices.ContainsFunc(append(children(m.pid), m.pid), opened): // a keeper has none itself
			users = append(users, user+", which does not answer")
		case len(m.stores) == 0 && !a.json:
			why := "does not answer"
			if isClosed(m.dir) {
				why = "is not open to you"
			}
			_, _ = fmt.Fprintf(a.err, "The mount at %s %s; whether it shows store %s cannot be said.\n", printable(user), why, s.Slug)
		}
	}
	if users == nil {
		return nil
	}
	return fmt.Errorf("store %s is mounted at %s: %w; unmount it first (`mneme unmount --at DIR`), or say --force",
		s.Slug, strings.Join(users, ", "), errInUse)
}

// shows reports whether the mount says that it shows a store, and, unless
// readers, writes it.
func (m liveMount) shows(id string, readers bool) bool {
	return slices.ContainsFunc(m.stores, func(st storeStatus) bool {
		return st.get(statusID) == id && (readers || st.get(statusAccess) == "read-write")
	})
}

// hasOpenBelow reports whether a process has a file below dir open, as far as
// this user may look.
func hasOpenBelow(pid int, dir string) bool {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return false
	}
	links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	return slices.ContainsFunc(links, func(link string) bool {
		target, err := os.Readlink(link)
		return err == nil && strings.HasPrefix(target, dir+"/")
	})
}
