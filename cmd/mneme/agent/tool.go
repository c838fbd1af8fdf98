// Package agent holds the commands for an agent and its host: mcp, tool, plugin, note, pack and
// use. It uses app, view, sessions and the packages that do the work: mcp, tools, plugin,
// note, pack and adopt. Read tool.go first.
package agent

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"mneme/backend"
	"mneme/cmd/mneme/app"
	"mneme/cmd/mneme/sessions"
	"mneme/cmd/mneme/term"
	"mneme/forget"
	"mneme/memory"
	"mneme/session"
	"mneme/tools"
)

// agentStores are the stores of an agent without a mount.
type agentStores struct {
	Store    []string `name:"store" sep:"none" placeholder:"NAME[:ro]" help:"A store that the agent has; may be given again. :ro makes one read-only."`
	ReadOnly bool     `help:"All stores read-only."`
	Session  string   `placeholder:"ID" help:"Session in whose name memories are written. Default: that of the token for a server, or else a new one."`
	LogLevel string   `enum:"debug,info,warn,error" default:"warn" placeholder:"LEVEL" help:"From what level on it logs to standard error: debug, info, warn or error. Default: ${default}."`
}

// agentFlags are the flags of commands that give an agent memory without a mount.
type agentFlags struct {
	agentStores
	sessions.Strictness
	OnConflict string `enum:"fail,merge" default:"fail" help:"What to do with a change to a file that somebody else has changed: fail, or merge changes to other lines. Default: ${default}."`
}

// logger returns the logger for --log-level.
func (f *agentStores) logger() *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(f.LogLevel)) // kong has seen that it is one
	return sessions.NewLogger(level)
}

// withMemory opens the stores, claims the session, and calls do with the agent's memory.
func (f *agentFlags) withMemory(ctx context.Context, a *app.App, opts tools.Options, do func(*tools.Memory) error) (err error) {
	if len(f.Store) == 0 {
		return app.Usagef("which store? `mneme store list` lists them; --store NAME names one")
	}
	if _, err := sessions.SessionName(f.Session); err != nil {
		return err
	}
	wanted, err := sessions.WantStores(f.Store, f.ReadOnly)
	if err != nil {
		return err
	}
	if err := sessions.OverwriteFreed(true); err != nil {
		return err
	}
	opts.Logger, opts.Merge = f.logger(), f.OnConflict == "merge"
	return a.WithLibrary(ctx, backend.Options{ReadOnly: sessions.AllReadOnly(wanted)}, func(lib *backend.Library) (err error) {
		if f.Session, err = sessions.OwnSession(lib, f.Session); err != nil {
			return err
		}
		if err := sessions.ObeyCredential(ctx, lib, wanted); err != nil {
			return err
		}
		f.Settle(lib)
		began := time.Now()
		claim, err := sessions.ClaimWanted(a.URL, f.Session, wanted)
		if err != nil {
			return err
		}
		defer claim.Close()
		author := memory.SessionAuthor(f.Session)
		author.MayWrite = sessions.MayWrite(lib, f.Session)
		stores, err := sessions.OpenWanted(ctx, lib, wanted, author)
		if err == nil {
			err = lib.CheckReaders(ctx, stores)
		}
		if err == nil {
			err = lib.Reach(ctx, stores)
		}
		if err != nil {
			return err
		}
		places, err := f.places(lib, stores, began, opts.Logger)
		if err != nil {
			return err
		}
		m := tools.New(places, &opts)
		follower := followErased(lib, m, stores, opts.Logger)
		err = do(m)
		follower.Close()
		for _, p := range places {
			if p.Session != nil {
				p.Session.Close()
			}
		}
		return err
	})
}

// followErased makes the process forget versions that are erased, until the follower is
// closed.
func followErased(lib *backend.Library, m *tools.Memory, stores []*memory.Store, log *slog.Logger) *forget.Follower {
	f := forget.NewFollower(&forget.FollowerOptions{Library: lib.Library, FollowFar: true, Kept: lib.Conflicts, Clear: m.Forget, Logger: log})
	f.Start()
	for _, st := range stores {
		f.Follow(st.Info().ID)
	}
	return f
}

// places are the stores with their sessions, which adopt what an earlier process of the
// session left.
func (f *agentFlags) places(lib *backend.Library, stores []*memory.Store, began time.Time, log *slog.Logger) ([]tools.Place, error) {
	var places []tools.Place
	for _, st := range stores {
		p := tools.Place{Store: st}
		if !st.ReadOnly() {
			p.Session = session.New(st, &session.Options{
				ID: f.Session, Strict: f.IsStrict(), Merge: f.OnConflict == "merge", Conflicts: lib.Conflicts(st.Info().ID), Logger: log,
				Face: "session", Name: tools.PathName(st.Info().Slug, len(stores) > 1),
			})
			if err := p.Session.Conflicts().Adopt(began); err != nil {
				return nil, err
			}
		}
		places = append(places, p)
	}
	return places, nil
}

// ToolCmd is the command `mneme tool`.
type ToolCmd struct {
	agentFlags
	Calls          term.Bound `default:"20" placeholder:"N" help:"How many calls a quest has; 0 is any number. A control line begins a new quest. Default: ${default}."`
	Bytes          term.Bound `default:"0" placeholder:"N" help:"How many bytes the calls of a quest take and return together; 0 is any number. Default: ${default}."`
	Texts          string     `enum:"documentation,sdk" default:"documentation" help:"Which of the published texts to answer with: documentation, or sdk, which are those of the TypeScript SDK. Default: ${default}."`
	Overwrite      bool       `help:"Let create replace a file that is there."`
	ViewCharacters term.Bound `default:"16000" placeholder:"N" help:"How many characters of a file or listing one view shows; 0 is any number. Default: ${default}."`
	Schema         bool       `help:"Print the tool's declaration and the JSON schema of its input, and do nothing."`
}

func (c *ToolCmd) Help() string {
	return `Does the calls of the memory tool (memory_20250818) of an agent that has no shell. It reads one JSON object a line from standard input and writes one answer a line, in order; one process is one session. Of one store /memories is that store, of several each is below /memories/NAME. End of input ends it.

A line is {"id": 1, "input": {…}}, where input is what the model sent; or the tool_use block as the API returned it, whose answer is the tool_result block to send back. {"id": 2, "control": "reset"} begins a new quest, with all its calls: the host says that, never the model, whose JSON is only ever below input.

An answer has content and is_error; of an error also kind, retry (never, after_view, later) and, where a text was kept, conflict.

Examples:

    mneme tool --schema
    echo '{"id": 1, "input": {"command": "view", "path": "/memories"}}' | mneme tool --store notes
    mneme tool --store notes --store docs:ro --session agent-1 --calls 0 </dev/null`
}

func (c *ToolCmd) Run(ctx context.Context, a *app.App) error {
	if c.Schema {
		return a.PrintJSON(struct {
			Declaration json.RawMessage `json:"declaration"`
			InputSchema json.RawMessage `json:"input_schema"`
		}{tools.Declaration(), tools.Schema()})
	}
	return c.withMemory(ctx, a, c.options(), func(m *tools.Memory) error {
		return serveTool(ctx, m, a.In, reply(a))
	})
}

func (c *ToolCmd) options() tools.Options {
	o := tools.Options{Overwrite: c.Overwrite, Budget: session.NewBudget(int(c.Calls), int64(c.Bytes)), Renewed: true, ViewChars: int(c.ViewCharacters)}
	if c.Texts == "sdk" {
		o.Texts = tools.SDK
	}
	if o.ViewChars == 0 {
		o.ViewChars = -1
	}
	return o
}
