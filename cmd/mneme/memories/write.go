// Package memories holds the commands that read and change memories: ls, cat, write, apply, rm,
// mv and conflicts. It uses app and view. Read write.go first.
package memories

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"golang.org/x/term"

	"mneme/cas"
	"mneme/cmd/mneme/app"
	"mneme/cmd/mneme/view"
	"mneme/memory"
	"mneme/session"
	"mneme/versionlog"
)

// WriteCmd is the command `mneme write`.
type WriteCmd struct {
	Place     string `arg:"" help:"STORE:/path of a memory."`
	IfVersion string `xor:"condition" placeholder:"V" help:"Only if this is the current version: an id or sequence number."`
	IfAbsent  bool   `xor:"condition" help:"Only if there is no memory at the path."`
	IfSHA256  string `name:"if-sha256" xor:"condition" placeholder:"H" help:"Only if the content has this SHA-256, in hex."`
	Message   string `short:"m" empty:"" help:"Why, for people who read the history."`

	app.ConfirmFlag
	AllowEmpty bool `help:"Take it that nothing on standard input means an empty memory."`
}

func (c *WriteCmd) Help() string {
	return `Without a condition the last writer wins; nobody ever reads half of it, and what was there stays in the history. Prints the version that now holds the content. A condition that does not hold is a conflict, exit code 4. Where standard input is empty or closed, nothing is written without --allow-empty.

Examples:

    echo "- buy milk" | mneme write notes:/todo.md
    mneme write notes:/report.md --if-absent < report.md
    V=$(mneme write notes:/plan.md < plan.md)
    mneme write notes:/plan.md --if-version $V -m "add dates" < plan2.md`
}

func (c *WriteCmd) Run(ctx context.Context, a *app.App) error {
	p, err := app.ParseMemory(c.Place)
	if err != nil {
		return err
	}
	return a.WithSessionAt(ctx, p, func(st *memory.Store, s *session.Session) error {
		expect, err := c.expectation(ctx, st, p.Path)
		if err != nil {
			return err
		}
		data, err := readInput(a, p.Path, st.Info().Limits.MaxMemoryBytes)
		if err != nil {
			return err
		}
		if len(data) == 0 && !c.AllowEmpty {
			return app.Usagef("there is nothing on standard input; --allow-empty makes %s an empty memory all the same", p)
		}
		v, err := s.Write(ctx, p.Path, data, &session.WriteOptions{Expect: &expect, Message: c.Message, Confirmed: c.Confirm})
		if err != nil {
			return err
		}
		return view.PrintVersion(a, st, v)
	})
}

func (c *WriteCmd) expectation(ctx context.Context, st *memory.Store, path string) (versionlog.Expectation, error) {
	switch {
	case c.IfAbsent:
		return versionlog.ExpectAbsent(), nil
	case c.IfSHA256 != "":
		d, err := cas.ParseDigest(c.IfSHA256)
		if err != nil {
			return versionlog.Expectation{}, app.Usagef("--if-sha256: %w", err)
		}
		return versionlog.ExpectDigest(d), nil
	case c.IfVersion != "":
		return expectVersion(ctx, st, path, c.IfVersion)
	}
	return versionlog.ExpectAny(), nil
}

// expectVersion is the condition of --if-version. The commit refuses a version that is not
// current, and names the current one.
func expectVersion(ctx context.Context, st *memory.Store, path, ref string) (versionlog.Expectation, error) {
	seq, err := strconv.ParseUint(ref, 10, 64)
	if err != nil {
		if _, _, err := versionlog.LocateVersion(ref); err != nil {
			return versionlog.Expectation{}, app.Usagef("--if-version: %w, or a sequence number", err)
		}
		return versionlog.ExpectVersion(ref), nil
	}
	if head, err := st.Head(ctx, path); err == nil && head.Seq == seq {
		return versionlog.ExpectVersion(head.ID), nil
	}
	return versionlog.ExpectVersion("at sequence " + ref), nil
}

// readInput is readContent of standard input. On a terminal it tells the person that the
// command waits.
func readInput(a *app.App, path string, limit int64) ([]byte, error) {
	if term.IsTerminal(int(a.In.Fd())) {
		_, _ = fmt.Fprintln(a.Err, "Reading from the terminal; Ctrl-D on a line of its own ends it, Ctrl-C gives up.")
	}
	return readContent(a.In, path, limit)
}

// readContent reads the new content of a memory. It counts a content that is far too long,
// and does not keep it.
func readContent(in io.Reader, path string, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(in, limit+1))
	if err == nil && int64(len(data)) > limit {
		var rest int64
		rest, err = io.Copy(io.Discard, io.LimitReader(in, memory.LargestMaxMemoryBytes))
		if err == nil {
			return nil, &memory.SizeError{Path: path, Size: int64(len(data)) + rest, Limit: limit}
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read standard input: %w", err)
	}
	return data, nil
}
