package past

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os/signal"
	"syscall"

	"mneme/cmd/mneme/app"
	"mneme/cmd/mneme/term"
	"mneme/cmd/mneme/view"
	"mneme/memory"
	"mneme/versionlog"
)

// EventsCmd is the command `mneme events`.
type EventsCmd struct {
	Store  string     `arg:"" help:"Its name or id."`
	N      term.Count `short:"n" placeholder:"N" help:"Only N commits: the newest or, with --after or --follow, the next ones. Default: ${newestevents} of the newest, all of the next."`
	After  *uint64    `placeholder:"SEQ" help:"Those after the commit of a sequence number, the oldest first."`
	Follow bool       `short:"f" help:"Go on with what is committed, as it comes; without --after from now on."`
}

// NewestEvents is the default number of printed commits.
const NewestEvents = 256

func (c *EventsCmd) Help() string {
	return `Prints commits as lines of JSON, as in .mneme/events of a mount and in ` + "`mneme log --json`" + `. A program that notes the seq of the last line which it has dealt with goes on behind it with --after, and misses nothing. With --follow a line is printed as soon as this process hears of the commit; SIGINT, SIGTERM and SIGHUP end it with exit code 0.

Examples:

    mneme events notes -n 20
    mneme events notes --after 3
    mneme events notes --after 0 --follow -n 2`
}

func (c *EventsCmd) Run(ctx context.Context, a *app.App) error {
	a.JSON = true
	return a.WithStore(ctx, c.Store, app.Reading, func(st *memory.Store) error {
		if c.Follow {
			return c.follow(ctx, a, st)
		}
		commits, n := st.CommitsBefore(ctx, 0, versionlog.Filter{}), int(c.N)
		switch {
		case c.After != nil:
			commits = st.Commits(ctx, *c.After)
		case n == 0:
			n = NewestEvents
		}
		return c.print(a, commits, n)
	})
}

// print prints at most n commits; 0: all.
func (c *EventsCmd) print(a *app.App, commits iter.Seq2[*versionlog.Commit, error], n int) error {
	printed := 0
	for commit, err := range commits {
		if err == nil {
			err = c.line(a, commit)
		}
		if err != nil {
			return err
		}
		if printed++; printed == n {
			break
		}
	}
	return nil
}

func (c *EventsCmd) line(a *app.App, commit *versionlog.Commit) error {
	line, err := view.EventLine(commit)
	if err != nil {
		return err
	}
	a.Printf("%s", line)
	return a.OutError()
}

// errEnough ends following.
var errEnough = errors.New("that is as many as were asked for")

// follow prints commits as they happen.
func (c *EventsCmd) follow(ctx context.Context, a *app.App, st *memory.Store) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	after, err := c.begin(ctx, st)
	if err == nil {
		printed := 0
		err = st.Follow(ctx, after, func(commit *versionlog.Commit) error {
			if err := errors.Join(c.line(a, commit), a.Out.Flush()); err != nil {
				return err
			}
			if printed++; printed == int(c.N) {
				return errEnough
			}
			return nil
		})
	}
	if ctx.Err() != nil || errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// begin is the commit after which the output begins.
func (c *EventsCmd) begin(ctx context.Context, st *memory.Store) (versionlog.Tip, error) {
	tip, err := st.Tip(ctx)
	switch {
	case err != nil, c.After == nil:
		return tip, err
	case *c.After == 0:
		return versionlog.Tip{}, nil
	case *c.After > tip.Seq:
		return tip, fmt.Errorf("--after %d: %w; the newest commit of %s has sequence number %d", *c.After, versionlog.ErrNotFound, st.Info().Slug, tip.Seq)
	}
	for commit, err := range st.Commits(ctx, *c.After-1) {
		if err != nil {
			return tip, err
		}
		return versionlog.Tip{Seq: commit.Seq, Digest: commit.Digest}, nil
	}
	return tip, fmt.Errorf("--after %d: %w", *c.After, versionlog.ErrNotFound)
}
