package mount

import (
	"context"
	"log/slog"

	"mneme/backend"
	"mneme/cmd/mneme/app"
	"mneme/cmd/mneme/sessions"
	"mneme/cmd/mneme/term"
	"mneme/daemon"
)

// minMaxMemory is the smallest memory of a mount in bytes, enough for a few open files.
const minMaxMemory = 1 << 20

// MountCmd is the command `mneme mount`.
type MountCmd struct {
	Stores      []string       `arg:"" optional:"" name:"store[:ro]" help:"Stores to mount, each below DIR under its name; :ro makes one read-only."`
	At          string         `default:"${mountdir}" placeholder:"DIR" help:"Where to mount them, an empty or new directory. Default: ${default}."`
	Flat        bool           `help:"Mount the one store as DIR itself, not below it."`
	ReadOnly    bool           `help:"All stores read-only."`
	AsOf        string         `placeholder:"POINT" help:"Show the stores as they were, read-only: after the commit of a sequence number, HEAD~n, a time (2026-11-20T15:04:05Z, 2026-11-20, yesterday) or an age (3d)."`
	Session     string         `placeholder:"ID" help:"Session in whose name files are written. Default: that of the token for a server, or else a new one."`
	Refresh     term.Period    `default:"1s" help:"How late another process's change may be seen. Default: ${default}."`
	MetricsAddr string         `placeholder:"HOST:PORT" help:"Serve Prometheus metrics there, at /metrics; without HOST on this machine only. Elsewhere it takes a key, $$MNEME_METRICS_KEY, as a bearer token."`
	CacheSize   term.ByteSize  `default:"1GiB" placeholder:"SIZE" help:"How much of a remote store's bytes to keep on disk, for all mounts together; 0 is none. Default: ${default}."`
	CacheDir    string         `type:"path" placeholder:"DIR" help:"Where to keep them. Default: mneme in your cache directory."`
	MaxMemory   term.ByteSize  `default:"256MiB" placeholder:"SIZE" help:"How much of the machine's memory (RAM) the mount holds for the programs that use it: files being written, scratch files, open files. A call that would pass it gets EDQUOT. How large a file may be is up to the store: 'mneme store create --max-memory-bytes'. Default: ${default}."`
	MinFree     *term.ByteSize `placeholder:"SIZE" help:"Refuse saves when less than that is free on the disk of an embedded store (ENOSPC), so that people can still delete. Default: 64MiB, or an eighth of a smaller disk."`
	quotaFlags
	Background  bool        `help:"Return when it is mounted, and go on serving."`
	Keep        bool        `help:"Outlive the process that serves the mount: when it is killed, or replaced, another one takes over, in every container that has the mount. Takes Linux 6.9."`
	Replace     bool        `help:"Have the mount at DIR, made with --keep, served by the program as it is installed now."`
	PrintPrompt bool        `help:"Print what to tell an agent about the mount, for its system prompt, and mount nothing."`
	Owner       owner       `placeholder:"USER[:GROUP]" help:"Whom the files belong to, by name or number. Default: you."`
	Mode        permissions `default:"700" placeholder:"MODE" help:"Permissions of directories, in octal; files have the same but for execution. What a program makes or changes has its own until the mount ends; what it closes to others stays so. Default: ${default}, for the owner only; 755 lets others read."`
	Exec        bool        `help:"Let programs be executed that are files of the mount."`
	LogLevel    string      `enum:"auto,debug,info,warn,error" default:"auto" placeholder:"LEVEL" help:"From what level on the daemon logs: debug, info, warn or error. Default: warn on a terminal, else info."`

	sessions.SharingFlags

	process daemon.Process // this one, if it serves the mount
}

func (c *MountCmd) Help() string {
	return `One mount is one session: give every agent its own. In the foreground Ctrl-C saves what is open and unmounts.

Examples:

    mneme mount notes
    mneme mount notes docs:ro --at /srv/agent-1/memory --background
    mneme mount notes --at /srv/agent-1/memory --background --keep
    mneme mount --at /srv/agent-1/memory --replace     (after an upgrade)
    mneme mount notes --flat --at ~/.agent/memory
    mneme mount notes --as-of yesterday --at /tmp/then
    mneme mount notes --read-only     (for a session that reads untrusted input)
    mneme mount notes --at /mnt/memory --print-prompt >> system-prompt.txt`
}

// obey adapts the session and the stores to the credential.
func (c *MountCmd) obey(ctx context.Context, lib *backend.Library, wanted []sessions.WantedStore) (err error) {
	if c.Session, err = sessions.OwnSession(lib, c.Session); err != nil {
		return err
	}
	return sessions.ObeyCredential(ctx, lib, wanted)
}

// logLevel returns the lowest level that the daemon logs.
func (c *MountCmd) logLevel(terminal bool) (level slog.Level) {
	switch {
	case c.LogLevel != "auto":
		_ = level.UnmarshalText([]byte(c.LogLevel)) // kong has seen that it is one
	case terminal:
		level = slog.LevelWarn
	}
	return level
}

// check checks arguments that kong cannot check.
func (c *MountCmd) check() ([]sessions.WantedStore, error) {
	if _, err := sessions.SessionName(c.Session); err != nil {
		return nil, err
	}
	if c.Flat && len(c.Stores) != 1 {
		return nil, app.Usagef("--flat mounts one store as DIR itself, not %d; without --flat each has a directory below DIR", len(c.Stores))
	}
	if c.MaxMemory < minMaxMemory {
		return nil, app.Usagef("--max-memory %d: want at least %d bytes, such as 256MiB", c.MaxMemory, minMaxMemory)
	}
	if err := checkAsOf(c.AsOf, c.Keep); err != nil {
		return nil, err
	}
	wanted, err := sessions.WantStores(c.Stores, c.ReadOnly || c.AsOf != "")
	for i := range wanted {
		wanted[i].ReadOnly = wanted[i].ReadOnly || c.process.Link.ReadOnly(i)
	}
	return wanted, err
}
