package main

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
	"unsafe"

	"github.com/alecthomas/kong"

	"mneme/backend"
	"mneme/cmd/mneme/agent"
	"mneme/cmd/mneme/app"
	"mneme/cmd/mneme/memories"
	"mneme/cmd/mneme/mount"
	"mneme/cmd/mneme/past"
	"mneme/cmd/mneme/serving"
	"mneme/cmd/mneme/store"
	"mneme/cmd/mneme/transfer"
	"mneme/cmd/mneme/upkeep"
	"mneme/daemon"
	"mneme/internal/agentdirs"
)

// cli is the grammar of the command line.
type cli struct {
	URL  *string `name:"url" env:"${urlvariable}" placeholder:"URL" help:"Where the stores are: file:///absolute/path, aws://BUCKET?table=TABLE, or https://HOST of a server ('mneme serve'). Default: the embedded store in your data directory."`
	JSON bool    `name:"json" help:"Write JSON for programs: one object, or one a line."`

	Insecure  bool   `name:"insecure" env:"${insecurevariable}" help:"Talk to S3, DynamoDB or a server in plain text where the endpoint is http:// and not on this machine."`
	TokenFile string `name:"token-file" env:"${tokenfilevariable}" placeholder:"FILE" help:"A file with the key or token for a server, which is read again when it changes. Default: what $$${tokenvariable} has."`

	Store     store.StoreCmd        `cmd:"" help:"Create, list, update, sign, archive and delete stores."`
	Mount     mount.MountCmd        `cmd:"" help:"Mount stores as directories."`
	Unmount   mount.UnmountCmd      `cmd:"" help:"Unmount them; returns when everything is saved."`
	Serve     serving.ServeCmd      `cmd:"" help:"Serve stores over HTTP, to programs that have a key."`
	Key       serving.KeyCmd        `cmd:"" help:"Make, list, disable, rotate and remove the keys of a server."`
	Token     serving.TokenCmd      `cmd:"" help:"Make the token of one session, narrower than a key."`
	Mcp       agent.McpCmd          `cmd:"" name:"mcp" help:"Serve stores to a client of the Model Context Protocol."`
	Ls        memories.LsCmd        `cmd:"" help:"List the memories of a store or directory."`
	Cat       memories.CatCmd       `cmd:"" help:"Print a memory, or an earlier version of it."`
	Write     memories.WriteCmd     `cmd:"" help:"Make standard input the content of a memory."`
	Apply     memories.ApplyCmd     `cmd:"" help:"Make several changes at once, all or none, from JSON on standard input."`
	Tool      agent.ToolCmd         `cmd:"" help:"Do the calls of an agent's memory tool, from lines of JSON."`
	Rm        memories.RmCmd        `cmd:"" help:"Remove a memory or directory; its history stays."`
	Mv        memories.MvCmd        `cmd:"" help:"Rename a memory or directory within its store."`
	Note      agent.NoteCmd         `cmd:"" help:"Print what to tell an agent about its stores."`
	Log       past.LogCmd           `cmd:"" help:"Show the history of a store, directory or memory, newest first."`
	Events    past.EventsCmd        `cmd:"" help:"Print what was committed as lines of JSON, or follow it."`
	Show      past.ShowCmd          `cmd:"" help:"Show a version and what it changed."`
	Diff      past.DiffCmd          `cmd:"" help:"Compare versions of a memory, two memories, or a store at two points."`
	Blame     past.BlameCmd         `cmd:"" help:"Show which version, session and time each line of a memory is of."`
	Why       past.WhyCmd           `cmd:"" help:"Find the first version that said something, and what still says it."`
	Redact    upkeep.RedactCmd      `cmd:"" help:"Erase versions for good, everywhere it can reach."`
	Gc        upkeep.GcCmd          `cmd:"" name:"gc" help:"Erase what the stores' rules let go of, and remove what nothing needs."`
	Restore   past.RestoreCmd       `cmd:"" help:"Make an earlier version of a memory current again, or a directory or a store what it was."`
	Undo      past.UndoCmd          `cmd:"" help:"Take back what one session did, and keep what others have done since."`
	Pack      agent.PackCmd         `cmd:"" help:"Print a store as one block of bounded size, for a prompt."`
	Conflicts memories.ConflictsCmd `cmd:"" help:"Look at writes that lost a race, and settle them."`
	Plugin    agent.PluginCmd       `cmd:"" help:"Recall and remember for an agent's host, from lines of JSON."`
	Backup    transfer.BackupCmd    `cmd:"" help:"Copy the embedded stores, as of one moment, while they are in use."`
	Export    transfer.ExportCmd    `cmd:"" help:"Write a store with its history as a tar."`
	Import    transfer.ImportCmd    `cmd:"" help:"Make a store of a tar that export has written, or bring it into one."`
	Snapshot  transfer.SnapshotCmd  `cmd:"" help:"Write a store at one point as an image that Linux mounts without mneme."`
	Use       agent.UseCmd          `cmd:"" help:"Have an agent use a store for the memory that it has in a directory."`
	Fsck      upkeep.FsckCmd        `cmd:"" aliases:"verify" help:"Check that nothing of a store is lost or damaged."`
	Scan      upkeep.ScanCmd        `cmd:"" help:"Look for credentials in the history of a store."`
	Doctor    upkeep.DoctorCmd      `cmd:"" help:"Try what mneme needs of this machine and of where the stores are."`
	Setup     upkeep.SetupCmd       `cmd:"" help:"Make the bucket and the table of an aws:// URL, or print policies for it."`
	Status    mount.StatusCmd       `cmd:"" help:"Show the stores, and the mounts on this machine."`
	Version   versionCmd            `cmd:"" help:"Print the version of mneme; so do --version and -V."`
	Help      helpCmd               `cmd:"" help:"Show the help of a command."`

	Completion completionCmd `cmd:"" help:"Print a script that completes commands for bash, zsh or fish."`
	Man        manCmd        `cmd:"" help:"Print the manual page."`
}

const description = `mneme mounts versioned memory stores for AI agents as directories.

A place is STORE:/path, such as notes:/todo.md; or a path in a mount, which begins with / or a dot, such as ./todo.md. A version is a version id or, where the memory is named too, a sequence number; notes:/todo.md@7 is both. Where a memory's own name ends in @7, that memory is meant.

Exit codes: 0 ok, 1 error, 2 usage, 3 not found, 4 conflict, 5 read-only or denied, 6 limit, 7 integrity.`

// run is the whole program. It returns the exit code.
func run(ctx context.Context, args []string, stdin, stdout, stderr *os.File) int {
	a := app.New(stdin, stdout, stderr)
	err := execute(ctx, a, args)
	if flushErr := a.Out.Flush(); err == nil && flushErr != nil {
		err = fmt.Errorf("write output: %w", flushErr)
	}
	if err != nil {
		a.Report(err)
	}
	return app.Classify(err).Code
}

func execute(ctx context.Context, a *app.App, args []string) error {
	// Errors of the command line itself are reported as JSON, too.
	a.JSON = slices.Contains(args, "--json")
	if daemon.IsMountHelper() {
		var err error
		if args, err = daemon.MountHelperArgs(args); err != nil || len(args) == 0 {
			return err
		}
	}
	a.Args = args
	if len(args) == 0 {
		args = []string{"--help"}
	}
	versionFirst(args)
	for _, arg := range args {
		if !utf8.ValidString(arg) { // kong would quietly replace those bytes
			return app.Usagef("the argument %q is not UTF-8", arg)
		}
	}
	var grammar cli
	command, err := parse(ctx, a, &grammar, args)
	if err != nil || command == nil {
		return err
	}
	if err := refuseEmpty(command); err != nil {
		return err
	}
	a.URL, a.JSON = grammar.URL, grammar.JSON
	// The processes of a mount, which this one starts, inherit it.
	if err := os.Setenv(backend.InsecureVariable, strconv.FormatBool(grammar.Insecure)); err != nil {
		return err
	}
	if grammar.TokenFile != "" {
		if err := os.Setenv(backend.TokenFileVariable, kong.ExpandPath(grammar.TokenFile)); err != nil {
			return err
		}
	}
	return command.Run()
}

// parse reads the command line into the grammar. The command is nil if only completion was
// asked for.
func parse(ctx context.Context, a *app.App, grammar *cli, args []string) (*kong.Context, error) {
	if one := onlyCommand(grammar, args[0]); one != nil {
		parser, err := newParser(ctx, one, a)
		if err != nil {
			return nil, err
		}
		if command, err := parser.Parse(args); err == nil {
			return command, nil
		}
		*grammar = cli{} // what is wrong is explained by all commands
	}
	parser, err := newParser(ctx, grammar, a)
	if err != nil {
		return nil, err
	}
	if args[0] == completeCommand {
		complete(ctx, a, parser, args[1:])
		return nil, nil
	}
	command, err := parser.Parse(args)
	if err != nil {
		return nil, explainMisuse(parser, args, err)
	}
	return command, nil
}

// needsAll are the commands that need the other commands.
var needsAll = []string{"help", "completion", "man"}

// onlyCommand returns the grammar with a single command, in the same memory: kong needs as
// much time to build all of them as most commands need. It is nil if name is no command, or
// needs all.
func onlyCommand(grammar *cli, name string) any {
	fields := reflect.VisibleFields(reflect.TypeFor[cli]())
	found := false
	for i := range fields {
		field := &fields[i]
		if _, isCommand := field.Tag.Lookup("cmd"); !isCommand {
			continue
		}
		if strings.ToLower(field.Name) == name && !slices.Contains(needsAll, name) {
			found = true
		} else {
			field.Tag = `kong:"-"`
		}
	}
	if !found {
		return nil
	}
	return reflect.NewAt(reflect.StructOf(fields), unsafe.Pointer(grammar)).Interface()
}

// refuseEmpty refuses flags and arguments that are given and empty, as in a script whose
// variable is not set: an empty condition would be none, an empty filter would match
// everything. Values with the tag empty may be empty.
func refuseEmpty(command *kong.Context) error {
	for _, p := range command.Path {
		value := p.Positional
		if p.Flag != nil {
			value = p.Flag.Value
		}
		if value == nil || value.Tag.Has("empty") {
			continue
		}
		var texts []string
		switch target := value.Target.Interface().(type) {
		case string:
			texts = []string{target}
		case []string:
			if texts = target; len(texts) == 0 { // which an empty text is split into
				texts = []string{""}
			}
		}
		if slices.Contains(texts, "") {
			return app.Usagef("%s is empty; want a value, or leave it out", strings.Trim(value.ShortSummary(), "[]"))
		}
	}
	return nil
}

// linesOnly are the commands that always write lines of JSON.
var linesOnly = []string{"mcp", "plugin", "tool"}

// printHelp prints the help of a command, without flags that do nothing there.
func printHelp(options kong.HelpOptions, command *kong.Context) error {
	if node := command.Selected(); node != nil && slices.Contains(linesOnly, node.Name) {
		for _, flag := range command.Model.Flags {
			flag.Hidden = flag.Hidden || flag.Name == "json"
		}
	}
	return kong.DefaultHelpPrinter(options, command)
}

// newParser makes the parser of a grammar: a *cli or the result of onlyCommand.
func newParser(ctx context.Context, grammar any, a *app.App) (*kong.Kong, error) {
	return kong.New(grammar,
		kong.Vars{"mountdir": app.DefaultMountDir, "agents": strings.Join(agentdirs.Agents(), ", "), "urlvariable": app.URLVariable, "insecurevariable": backend.InsecureVariable, "tokenvariable": backend.TokenVariable, "tokenfilevariable": backend.TokenFileVariable, "screenful": strconv.Itoa(past.Screenful), "newestevents": strconv.Itoa(past.NewestEvents)},
		kong.Name("mneme"), kong.Description(description),
		kong.Help(printHelp), kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true, FlagsLast: true, WrapUpperBound: 100}),
		kong.Writers(a.Out, a.Err), kong.Exit(a.Exit),
		kong.BindTo(ctx, (*context.Context)(nil)), kong.Bind(a))
}
