package agent

import (
	"context"
	"time"

	"mneme/cmd/mneme/app"
	"mneme/cmd/mneme/term"
	"mneme/plugin"
	"mneme/tools"
)

// PluginCmd is the command `mneme plugin`.
type PluginCmd struct {
	agentStores
	Deadline term.Period `default:"2s" placeholder:"TIME" help:"How long an answer may take, at most. Default: ${default}."`
}

func (c *PluginCmd) Help() string {
	return `Gives a host that calls an agent its memory: what fits the next turn (recall), and a place for the turn that is over (remember). It reads one JSON object a line from standard input and writes one answer a line, in order. End of input ends it.

A line is {"id": 1, "method": "recall", "params": {…}}, and its answer {"id": 1, "result": {…}}. Methods are recall, remember and health. Every line is answered within the deadline, whatever is wrong: then result has "degraded": true in diagnostics, and the reason.

recall searches all stores for the words of query_text. remember writes to the first store that is not read-only, each turn once, to /threads/THREAD/TURN.md.

Examples:

    echo '{"id": 1, "method": "recall", "params": {"query_text": "when do we ship?"}}' | mneme plugin --store notes
    echo '{"id": 2, "method": "health"}' | mneme plugin --store notes --store docs:ro --deadline 500ms`
}

func (c *PluginCmd) Run(ctx context.Context, a *app.App) error {
	f := agentFlags{agentStores: c.agentStores}
	return f.withMemory(ctx, a, tools.Options{}, func(m *tools.Memory) error {
		p := plugin.New(m, &plugin.Options{Deadline: time.Duration(c.Deadline), Version: app.Version(), Logger: c.logger()})
		defer p.Close()
		return serveLines(a.In, p.MaxRequest(), func(line []byte) any { return p.Answer(ctx, line) }, reply(a))
	})
}
