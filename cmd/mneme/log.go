package main

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"mneme/memory"
	"mneme/versionlog"
)

type logCmd struct {
	Place string `arg:"" help:"STORE, or STORE:/path of a memory, which may be deleted."`
	N     count  `short:"n" xor:"much" placeholder:"N" help:"Only the newest N commits, or versions of the memory. Default on a terminal: ${screenful}."`
	All   bool   `xor:"much" help:"All of them, on a terminal, too."`
}

// screenful is how much of a log is shown on a terminal without -n.
const screenful = 100

func (c *logCmd) Help() string {
	return `Sequence numbers count the commits of a store. A memory keeps its history when it is renamed, and a path has the histories of all memories that were there.

Examples:

    mneme log notes -n 20
    mneme log notes:/todo.md
    mneme log notes:/todo.md@7    (that version and those before it)`
}

func (c *logCmd) Run(ctx context.Context, a *app) error {
	p, err := parseDir(c.Place)
	if err != nil {
		return err
	}
	return a.withPlace(ctx, p, reading, func(st *memory.Store) error {
		more := false
		err := a.page(func() (err error) {
			if p.path == "/" {
				more, err = c.printStore(ctx, a, st)
			} else {
				more, err = c.printMemory(ctx, a, st, p.path)
			}
			if more {
				a.printf("These are the newest %d; --all shows the others, -n N another number.\n", screenful)
			}
			return err
		})
		return explainMissing(ctx, st, p.path, err)
	})
}

// limit is how many to show; 0 is all.
func (c *logCmd) limit(a *app) int {
	if c.N == 0 && !c.All && a.terminal && !a.json {
		return screenful
	}
	return int(c.N)
}

// printStore reports whether it left out more than was asked for.
func (c *logCmd) printStore(ctx context.Context, a *app, st *memory.Store) (more bool, err error) {
	t := newLogTable("PATH")
	n, limit := 0, c.limit(a)
	for commit, err := range st.CommitsBefore(ctx, 0, versionlog.Filter{}) {
		if err != nil {
			return false, err
		}
		if n++; limit > 0 && n > limit {
			more = c.N == 0
			break
		}
		if a.json {
			if err := a.printJSON(newCommitJSON(commit)); err != nil {
				return false, err
			}
			continue
		}
		if commit.Event != nil {
			t.add(eventRow(commit)...)
		}
		for i, v := range commit.Versions {
			path := v.Path
			if v.Op == versionlog.OpRenamed {
				path = v.From + " → " + v.Path
			}
			row := logRow(v, path)
			if i > 0 { // the commit's own columns once are enough
				row[0], row[1], row[4], row[6] = "", "", "", ""
			}
			t.add(row...)
		}
	}
	if len(t.rows) > 0 {
		a.printTable(t)
	}
	return more, nil
}

func (c *logCmd) printMemory(ctx context.Context, a *app, st *memory.Store, path string) (more bool, err error) {
	path, from, err := splitVersion(ctx, st, path)
	if err != nil {
		return false, err
	}
	var begin versionlog.Version
	if from != "" {
		if begin, err = st.Resolve(ctx, path, from); err != nil {
			return false, err
		}
	}
	t := newLogTable("VERSION")
	n, limit := 0, c.limit(a)
	for v, err := range st.History(ctx, path) {
		if err != nil {
			return false, err
		}
		if from != "" && v.Seq > begin.Seq {
			continue
		}
		if n++; limit > 0 && n > limit {
			more = c.N == 0
			break
		}
		if a.json {
			if err := a.printJSON(newVersionJSON(st.Info().ID, v)); err != nil {
				return false, err
			}
			continue
		}
		row := logRow(v, v.ID)
		if v.Op == versionlog.OpRenamed {
			row[6] = v.From + " → " + v.Path
			if v.Message != "" {
				row[6] += "  " + v.Message
			}
		}
		t.add(row...)
	}
	if len(t.rows) > 0 {
		a.printTable(t)
	}
	return more, nil
}

func newLogTable(subject string) *table {
	var spare []string
	if subject == "VERSION" { // the sequence number says the same
		spare = []string{subject}
	}
	return &table{
		header: []string{"SEQ", "TIME", "CHANGE", subject, "BY", "SIZE", "MESSAGE"}, right: []string{"SEQ", "SIZE"},
		spare: spare, shrink: []string{"MESSAGE", "BY", subject}, paths: []string{"PATH"},
		color: func(column, text string) string {
			if column == "CHANGE" {
				return opColors[versionlog.Op(text)]
			}
			return ""
		},
	}
}

var opColors = map[versionlog.Op]string{
	versionlog.OpCreated: green, versionlog.OpModified: yellow, versionlog.OpRenamed: cyan, versionlog.OpDeleted: red,
}

// eventRow is the row of what happened to the store as a whole.
func eventRow(c *versionlog.Commit) []string {
	var said []string
	if c.Event.Kind == versionlog.EventUpdated {
		said = eventFields(c.Event)
	}
	if c.Message != "" {
		said = append(said, c.Message)
	}
	return []string{
		strconv.FormatUint(c.Seq, 10), localTime(c.Time), eventChange(c.Event), "-", actorName(c.Actor), "-", strings.Join(said, ", "),
	}
}

func eventChange(e *versionlog.Event) string { return "store " + string(e.Kind) }

// eventFields are what an event says, each in words.
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
	if v.Live() && !v.IsDir() {
		size = strconv.FormatInt(v.Size, 10)
	}
	return []string{strconv.FormatUint(v.Seq, 10), localTime(v.Time), string(v.Op), subject, actorName(v.Actor), size, v.Message}
}
