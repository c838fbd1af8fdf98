package mount

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"

	"mneme/backend"
	"mneme/cmd/mneme/app"
	"mneme/cmd/mneme/sessions"
	"mneme/cmd/mneme/view"
	"mneme/daemon"
	"mneme/errkind"
	"mneme/fusefs"
	"mneme/memory"
	"mneme/note"
)

// options are the options of the mount of stores in lib.
func (c *MountCmd) options(lib *backend.Library) *fusefs.Options {
	uid, gid := c.Owner.ids()
	return &fusefs.Options{
		UID: uid, GID: gid, Mode: uint32(c.Mode), Exec: c.Exec, BeforeServing: c.process.DropPrivileges, Session: c.Session, Logger: c.process.Log, Keeper: c.process.Link.KeeperID(), Flat: c.Flat,
		Status: func() []string { return statusLines(lib) }, Strict: c.IsStrict(), Merge: c.OnConflict == "merge", ConflictErrno: sessions.ConflictErrnos[c.ConflictErrno],
		Conflicts: lib.Conflicts, MaxMemory: int64(c.MaxMemory), Advise: app.AdviseMount, Note: c.note(),
		Event: view.EventLine, Notifier: notifier,
	}
}

// notifier is a process of this program that calls fusedev.RunNotifier (see main).
func notifier() *exec.Cmd {
	return &exec.Cmd{Path: daemon.OwnProgram, Args: []string{"mneme", "notices"}}
}

// note returns the function that writes the note about one store of the mount for an agent.
// It finds the directory at once, since a daemon leaves its first working directory.
func (c *MountCmd) note() func(note.Mount) string {
	dir, err := filepath.Abs(c.At)
	return func(m note.Mount) string {
		if err == nil {
			m.Path = filepath.Join(dir, m.Path)
		}
		return note.Text([]note.Mount{m}, c.NoteOptions())
	}
}

func (c *MountCmd) openStores(ctx context.Context, lib *backend.Library, wanted []sessions.WantedStore) ([]*memory.Store, error) {
	if c.AsOf != "" {
		return openPast(ctx, lib, wanted, c.AsOf)
	}
	author := memory.SessionAuthor(c.Session)
	author.MayWrite = sessions.MayWrite(lib, c.Session)
	author.Quota = c.quota()
	author.MayGrow = func() error {
		err := lib.CheckFree((*int64)(c.MinFree))
		if errkind.Of(err) == errkind.NoSpace {
			err = fmt.Errorf("%w (--min-free)", err)
		}
		return err
	}
	return sessions.OpenWanted(ctx, lib, wanted, author)
}

// statusLines are lines of .mneme/status: the URL of the stores, and the requests to a
// backend that costs money.
func statusLines(lib *backend.Library) []string {
	lines := []string{daemon.StatusURL + ": " + lib.Location.URL}
	if key := lib.Credential().Key; key != "" {
		lines = append(lines, daemon.StatusKey+": "+key)
	}
	if requests := lib.Requests(); requests != nil {
		lines = append(lines, usageLines(requests, lib.CacheStats())...)
	}
	return lines
}
