package app

import (
	"fmt"
	"slices"
	"strings"

	"mneme/daemon"
	"mneme/internal/quote"
	"mneme/versionlog"
)

// CheckUnmounted makes sure that no mount on this machine shows a store. Unless readers is
// set, mounts that only read it are allowed. A mount that does not answer counts if its
// daemon has a file of the location open. Other mounts that do not answer are reported.
func (a *App) CheckUnmounted(s versionlog.Store, readers bool) error {
	at, err := Locate(a.URL)
	if err != nil {
		return err
	}
	mounts, err := daemon.LiveMounts()
	if err != nil {
		return err
	}
	opened := func(pid int) bool { return at.Dir != "" && daemon.HasOpenBelow(pid, at.Dir) }
	var users []string
	for _, m := range mounts {
		user := fmt.Sprintf("%s (process %d)", m.Dir, m.PID)
		switch {
		case m.Shows(s.ID, readers):
			users = append(users, user)
		case len(m.Stores) == 0 && slices.ContainsFunc(append(daemon.Children(m.PID), m.PID), opened): // a keeper itself has no files
			users = append(users, user+", which does not answer")
		case len(m.Stores) == 0 && !a.JSON:
			why := "does not answer"
			if daemon.IsClosed(m.Dir) {
				why = "is not open to you"
			}
			_, _ = fmt.Fprintf(a.Err, "The mount at %s %s; whether it shows store %s cannot be said.\n", quote.Text(user), why, s.Slug)
		}
	}
	if users == nil {
		return nil
	}
	return fmt.Errorf("store %s is mounted at %s: %w; unmount it first (`mneme unmount --at DIR`), or say --force",
		s.Slug, strings.Join(users, ", "), daemon.ErrInUse)
}
