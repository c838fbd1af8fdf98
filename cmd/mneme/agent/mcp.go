package agent

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"mneme/cmd/mneme/app"
	"mneme/cmd/mneme/sessions"
	"mneme/cmd/mneme/term"
	"mneme/mcp"
	"mneme/session"
	"mneme/tools"
)

// McpCmd is the command `mneme mcp`.
type McpCmd struct {
	agentFlags
	Calls term.Bound `default:"0" placeholder:"N" help:"How many calls the session has; 0 is any number. Default: ${default}."`
}

func (c *McpCmd) Help() string {
	return `Serves stores to a client of the Model Context Protocol on standard input and output, for an agent that has no shell. One process is one session. End of input ends it, and so do SIGINT and SIGTERM.

The tools are memory (the commands of memory_20250818), list, read, write, search, history, diff, restore and conflicts; with read-only stores only those that read. Memories are resources, too: mneme://STORE/path.

A client's configuration names the command and its arguments, such as:

    {"mcpServers": {"memory": {"command": "mneme", "args": ["mcp", "--store", "notes"]}}}

Examples:

    mneme mcp --store notes </dev/null
    mneme mcp --store notes --store docs:ro --session agent-1 </dev/null`
}

func (c *McpCmd) Run(ctx context.Context, a *app.App) error {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(sessions.CollectAt)
	}
	until, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	opts := tools.Options{Budget: session.NewBudget(int(c.Calls), 0)}
	return c.withMemory(ctx, a, opts, func(m *tools.Memory) error {
		s := mcp.New(m, &mcp.Options{Version: app.Version(), Merge: c.OnConflict == "merge", Strict: c.IsStrict(), Logger: c.logger()})
		defer s.Close()
		stdout := os.NewFile(uintptr(a.Stdout), "stdout")
		return s.ServeLines(until, interruptible(a.In, os.O_RDONLY), interruptible(stdout, os.O_WRONLY))
	})
}
