// Package past holds the commands about the past: log, show, diff, blame, why, events,
// restore and undo. It uses app and view. Read log.go first; steps.go is what restore and
// undo share.
package past

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"mneme/cmd/mneme/app"
	"mneme/cmd/mneme/term"
	"mneme/cmd/mneme/view"
	"mneme/history"
	"mneme/internal/quote"
	"mneme/jsonview"
	"mneme/memory"
	"mneme/versionlog"
)

// LogCmd is the command `mneme log`.
type LogCmd struct {
	Place string     `arg:"" help:"STORE, or STORE:/path of a memory or directory, which may be deleted."`
	N     term.Count `short:"n" xor:"much" placeholder:"N" help:"Only the newest N commits, or versions of the memory. Default on a terminal: ${screenful}."`
	All   bool       `xor:"much" help:"All of them, on a terminal, too."`

	Session   string    `placeholder:"ID" help:"Only what was made in that session."`
	Actor     string    `placeholder:"WHO" help:"Only what was made by that actor, such as user:alice or alice."`
	Since     string    `placeholder:"TIME" help:"Only what was made then or later: 2h, 3d, yesterday, 2026-11-20, 2026-11-20T15:04:05Z."`
	Until     string    `placeholder:"TIME" help:"Only what was made then or earlier."`
	Operation operation `placeholder:"OP" help:"Only versions that are created, modified, renamed or deleted."`
	Grep      string    `placeholder:"TEXT" help:"Only versions that added or removed this text."`

	Patch bool `short:"p" help:"What each version changed, as a diff."`
	Stat  bool `help:"How many lines each version added and removed."`
}

// operation is the operation of a version, as the value of a flag.
type operation string

// UnmarshalText reads the name of an operation.
func (o *operation) UnmarshalText(text []byte) error {
	if _, known := view.OpColors[versionlog.Op(text)]; !known {
		return fmt.Errorf("%q: want created, modified, renamed or deleted", text)
	}
	*o = operation(text)
	return nil
}

// Screenful is the number of entries that a log shows on a terminal without -n.
const Screenful = 100

func (c *LogCmd) Help() string {
	return `Sequence numbers count the commits of a store. A memory keeps its history when it is renamed, and a path has the histories of all memories that were there. Of a directory, and of a path that ends in a slash, the history is that of everything below.

Examples:

    mneme log notes -n 20
    mneme log notes:/todo.md
    mneme log notes:/todo.md@7    (that version and those before it)
    mneme log notes:/projects/ --since yesterday --stat
    mneme log notes --session sesn_1 --operation deleted
    mneme log notes --grep 'Ship on Friday' -p`
}

func (c *LogCmd) Run(ctx context.Context, a *app.App) error {
	p, err := app.ParseDir(c.Place)
	if err != nil {
		return err
	}
	q, err := c.query()
	if err != nil {
		return err
	}
	return a.WithPlace(ctx, p, app.Reading, func(st *memory.Store) error {
		if err := a.Page(func() error { return c.print(ctx, a, st, p.Path, q) }); err != nil {
			return app.ExplainMissing(ctx, st, p.Path, err)
		}
		return view.WarnUnread(a, *q.Unread)
	})
}

// query is the query for the flags.
func (c *LogCmd) query() (q history.Query, err error) {
	q = history.Query{Session: c.Session, Actor: c.Actor, Op: versionlog.Op(c.Operation), Text: c.Grep, Unread: &history.Unread{}}
	now := time.Now()
	if c.Since != "" {
		if q.From, _, err = history.ParseTime(c.Since, now); err != nil {
			return q, app.Usagef("--since: %w", err)
		}
	}
	if c.Until != "" {
		if _, q.To, err = history.ParseTime(c.Until, now); err != nil {
			return q, app.Usagef("--until: %w", err)
		}
	}
	return q, nil
}

// limit is the number of entries to show; 0 is all.
func (c *LogCmd) limit(a *app.App) int {
	if c.N == 0 && !c.All && a.IsTerminal && !a.JSON {
		return Screenful
	}
	return int(c.N)
}

func (c *LogCmd) print(ctx context.Context, a *app.App, st *memory.Store, path string, q history.Query) error {
	bar := a.Progress("log " + st.Info().Slug)
	q.Progress = func(done, total int) { bar.Show("commits", done, total) }
	entries, subject, err := c.entries(ctx, st, path, q)
	if err != nil {
		return err
	}
	out := &logPrinter{ctx: ctx, a: a, st: st, patch: c.Patch, stat: c.Stat, table: newLogTable(subject)}
	n, limit := 0, c.limit(a)
	for e, err := range entries {
		bar.Clear()
		if c.Patch || c.Stat { // what is printed at once is progress enough, and may be below a pager
			bar = nil
		}
		if err != nil {
			return errors.Join(out.flush(), err)
		}
		if n++; limit > 0 && n > limit {
			break
		}
		if err := out.entry(e); err != nil {
			return err
		}
		if err := a.OutError(); err != nil {
			return err
		}
	}
	bar.Clear()
	if err := out.flush(); err != nil {
		return err
	}
	if limit > 0 && n > limit && c.N == 0 {
		a.Printf("These are the newest %d; --all shows the others, -n N another number.\n", Screenful)
	}
	return nil
}

// entries are the entries of a store, a directory or a memory, and the column of the table
// in which they differ.
func (c *LogCmd) entries(ctx context.Context, st *memory.Store, path string, q history.Query) (iter.Seq2[history.Entry, error], string, error) {
	if path == "/" {
		return history.LogDir(ctx, st, path, q), "PATH", nil
	}
	memoryPath, from, err := app.SplitVersion(ctx, st, path)
	if err != nil {
		return nil, "", err
	}
	if from == "" {
		isDir, err := app.MeansDir(ctx, st, c.Place, path)
		if err != nil {
			return nil, "", err
		}
		if isDir {
			return history.LogDir(ctx, st, path, q), "PATH", nil
		}
		return history.LogMemory(ctx, st, path, 0, q), "VERSION", nil
	}
	begin, err := history.Resolve(ctx, st, memoryPath, from)
	return history.LogMemory(ctx, st, memoryPath, begin.Seq, q), "VERSION", err
}

// logPrinter prints entries one by one, with the changes of their versions if asked.
type logPrinter struct {
	ctx         context.Context
	a           *app.App
	st          *memory.Store
	patch, stat bool
	table       *term.Table
	some        bool // something was printed
}

// tableRows is the number of rows that are laid out together.
const tableRows = 500

func (l *logPrinter) entry(e history.Entry) error {
	switch {
	case l.a.JSON:
		return l.json(e)
	case l.patch || l.stat:
		return l.changes(e)
	}
	l.rows(e)
	if len(l.table.Rows) >= tableRows {
		return l.flush()
	}
	return nil
}

// flush prints the waiting rows.
func (l *logPrinter) flush() error {
	if len(l.table.Rows) > 0 {
		l.a.PrintTable(l.table)
	}
	return l.a.Out.Flush()
}

func (l *logPrinter) rows(e history.Entry) {
	if e.Commit == nil {
		v := e.Versions[0]
		row := logRow(v, v.ID)
		if v.Op == versionlog.OpRenamed {
			row[6] = v.From + " → " + v.Path
			if v.Message != "" {
				row[6] += "  " + v.Message
			}
		}
		l.table.Add(row...)
		return
	}
	if e.Commit.Event != nil {
		l.table.Add(eventRow(e.Commit)...)
	}
	for i, v := range e.Versions {
		row := logRow(v, view.LogPath(&v))
		if i > 0 { // the commit's own columns once are enough
			row[0], row[1], row[4], row[6] = "", "", "", ""
		}
		l.table.Add(row...)
	}
}

// changes prints an entry with a line for each version and its change.
func (l *logPrinter) changes(e history.Entry) error {
	if l.some {
		l.a.Printf("\n")
	}
	l.some = true
	if c := e.Commit; c != nil && c.Event != nil {
		row := eventRow(c)
		l.head(row[0], row[1], row[4], "", row[6])
		l.a.Printf("%s\n", row[2])
		return nil
	}
	for i := range e.Versions {
		v := &e.Versions[i]
		if i == 0 {
			l.head(strconv.FormatUint(v.Seq, 10), term.LocalTime(v.Time), view.ActorName(v.Actor), v.Session, v.Message)
		}
		diff, gone, readable, err := l.diff(v)
		if err != nil {
			return err
		}
		line := l.a.Paint(view.OpColors[v.Op], string(v.Op)) + "  " + quote.Text(view.LogPath(v))
		switch {
		case !readable:
			line += "  (content gone)"
		case l.stat:
			line += "  " + term.DiffStat(diff)
		}
		if gone != nil {
			line += "  (the version before it is gone)"
		}
		l.a.Printf("%s\n", line)
		if l.patch && diff != "" {
			l.a.PrintDiff(diff)
		}
	}
	return nil
}

// head prints the fields that the versions of an entry share.
func (l *logPrinter) head(seq, at, actor, session, message string) {
	line := l.a.Paint(term.Bold, seq) + "  " + at + "  " + quote.Text(actor)
	if session != "" && session != actor {
		line += "  session " + quote.Text(session)
	}
	if message != "" {
		line += "  " + quote.Text(message)
	}
	l.a.Printf("%s\n", line)
}

// diff is the change of a version, as changeTo returns it. It is unreadable if the
// version's own content is missing. Then the log continues.
func (l *logPrinter) diff(v *versionlog.Version) (diff string, gone error, readable bool, err error) {
	if v.Redacted() || v.IsDir() {
		return "", nil, v.IsDir(), nil
	}
	before, err := replacedBy(l.ctx, l.st, v.Path, *v)
	if err != nil {
		return "", nil, false, err
	}
	diff, gone, err = changeTo(l.ctx, l.st, before, v)
	if isUnreadable(err) {
		return "", nil, false, nil
	}
	return diff, gone, err == nil, err
}

func (l *logPrinter) json(e history.Entry) error {
	var versions []loggedJSON
	for i := range e.Versions {
		v := &e.Versions[i]
		j := loggedJSON{Version: jsonview.NewVersion(l.st.Info().ID, *v)}
		if l.patch || l.stat {
			diff, gone, readable, err := l.diff(v)
			if err != nil {
				return err
			}
			j.BeforeGone = whyGone(gone)
			if l.patch && readable {
				j.Diff = &diff
			}
			if l.stat && readable {
				j.Lines = term.NewLines(diff)
			}
		}
		versions = append(versions, j)
	}
	if e.Commit == nil {
		return l.a.PrintJSON(versions[0])
	}
	j := loggedCommitJSON{Commit: jsonview.NewCommit(e.Commit), Versions: versions}
	if versions == nil {
		j.Versions = []loggedJSON{}
	}
	return l.a.PrintJSON(j)
}

// loggedJSON is a version in a log, with its change if asked.
type loggedJSON struct {
	jsonview.Version
	Diff       *string     `json:"diff,omitempty"`
	BeforeGone string      `json:"before_gone,omitempty"`
	Lines      *term.Lines `json:"lines,omitempty"`
}

// loggedCommitJSON is a commit with those of its versions that match.
type loggedCommitJSON struct {
	jsonview.Commit
	Versions []loggedJSON `json:"versions"`
}

func newLogTable(subject string) *term.Table {
	var spare []string
	if subject == "VERSION" { // the sequence number says the same
		spare = []string{subject}
	}
	return &term.Table{
		Header: []string{"SEQ", "TIME", "CHANGE", subject, "BY", "SIZE", "MESSAGE"}, Right: []string{"SEQ", "SIZE"},
		Spare: spare, Shrink: []string{"MESSAGE", "BY", subject}, Paths: []string{"PATH"},
		Color: func(column, text string) string {
			if column == "CHANGE" {
				return view.OpColors[versionlog.Op(text)]
			}
			return ""
		},
	}
}

// eventRow is the row of an event of the whole store.
func eventRow(c *versionlog.Commit) []string {
	var said []string
	switch c.Event.Kind {
	case versionlog.EventUpdated:
		said = eventFields(c.Event)
	case versionlog.EventRetention:
		said = []string{"erased " + view.VersionCount(len(c.Event.ErasedVersions())), "the store keeps " + c.Event.Rule().String()}
	}
	if c.Message != "" {
		said = append(said, c.Message)
	}
	return []string{
		strconv.FormatUint(c.Seq, 10), term.LocalTime(c.Time), eventChange(c.Event), "-", view.ActorName(c.Actor), "-", strings.Join(said, ", "),
	}
}

func eventChange(e *versionlog.Event) string { return "store " + string(e.Kind) }

// eventFields are the fields of an event, each in words.
func eventFields(e *versionlog.Event) (said []string) {
	for _, name := range slices.Sorted(maps.Keys(e.Fields)) {
		if key, removed := strings.CutPrefix(name, "metadata_removed."); removed {
			said = append(said, "metadata."+key+" removed")
			continue
		}
		said = append(said, name+"="+strconv.Quote(e.Fields[name]))
	}
	return said
}

func logRow(v versionlog.Version, subject string) []string {
	size := "-"
	if jsonview.HasContent(&v) {
		size = strconv.FormatInt(v.Size, 10)
	}
	return []string{strconv.FormatUint(v.Seq, 10), term.LocalTime(v.Time), string(v.Op), subject, view.ActorName(v.Actor), size, v.Message}
}
