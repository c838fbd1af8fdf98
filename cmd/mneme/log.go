package main

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"

	"mneme/memory"
	"mneme/versionlog"
)

type logCmd struct {
	Place string `arg:"" help:"STORE, or STORE:/path of a memory, which may be deleted."`
	N     count  `short:"n" placeholder:"N" help:"Only the newest N commits, or versions of the memory."`
}

func (c *logCmd) Help() string {
	return `Sequence numbers count the commits of a store. A memory keeps its history when it is renamed.

Examples:

    mneme log notes -n 20
    mneme log notes:/todo.md`
}

func (c *logCmd) Run(ctx context.Context, a *app) error {
	p, err := parseDir(c.Place)
	if err != nil {
		return err
	}
	return a.withStore(ctx, p.store, reading, func(st *memory.Store) error {
		if p.path == "/" {
			return c.printStore(ctx, a, st)
		}
		return explainMissing(ctx, st, p.path, c.printMemory(ctx, a, st, p.path))
	})
}

func (c *logCmd) printStore(ctx context.Context, a *app, st *memory.Store) error {
	t := newLogTable("PATH")
	for commit, err := range newestCommits(ctx, st, uint64(c.N)) {
		if err != nil {
			return err
		}
		if a.json {
			if err := a.printJSON(newCommitJSON(commit)); err != nil {
				return err
			}
			continue
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
	return nil
}

func (c *logCmd) printMemory(ctx context.Context, a *app, st *memory.Store, path string) error {
	t := newLogTable("VERSION")
	n := count(0)
	for v, err := range st.History(ctx, path) {
		if err != nil {
			return err
		}
		if n++; c.N > 0 && n > c.N {
			break
		}
		if a.json {
			if err := a.printJSON(newVersionJSON(st.Info().ID, v)); err != nil {
				return err
			}
			continue
		}
		row := logRow(v, v.ID)
		if v.Op == versionlog.OpRenamed {
			row[6] = fmt.Sprintf("%s → %s  %s", v.From, v.Path, v.Message)
		}
		t.add(row...)
	}
	if len(t.rows) > 0 {
		a.printTable(t)
	}
	return nil
}

func newLogTable(subject string) *table {
	return &table{
		header: []string{"SEQ", "TIME", "CHANGE", subject, "BY", "SIZE", "MESSAGE"}, right: []string{"SEQ", "SIZE"},
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

func logRow(v versionlog.Version, subject string) []string {
	size := "-"
	if v.Live() {
		size = strconv.FormatInt(v.Size, 10)
	}
	return []string{strconv.FormatUint(v.Seq, 10), localTime(v.Time), string(v.Op), subject, actorName(v.Actor), size, v.Message}
}

// commitsAtOnce is how many commits newestCommits holds at a time.
const commitsAtOnce = 1000

// newestCommits yields the newest n commits, or all when n is 0, newest first.
// A log gives them oldest first.
func newestCommits(ctx context.Context, st *memory.Store, n uint64) iter.Seq2[*versionlog.Commit, error] {
	return func(yield func(*versionlog.Commit, error) bool) {
		tip, err := st.Tip(ctx)
		if err != nil {
			yield(nil, err)
			return
		}
		end := uint64(0)
		if n > 0 && n < tip.Seq {
			end = tip.Seq - n
		}
		for high := tip.Seq; high > end; {
			low := max(end, high-min(high, commitsAtOnce))
			commits, err := collectCommits(ctx, st, low, high)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, c := range slices.Backward(commits) {
				if !yield(c, nil) {
					return
				}
			}
			high = low
		}
	}
}

// collectCommits returns the commits above low, up to high.
func collectCommits(ctx context.Context, st *memory.Store, low, high uint64) ([]*versionlog.Commit, error) {
	var commits []*versionlog.Commit
	for c, err := range st.Commits(ctx, low) {
		if err != nil {
			return nil, err
		}
		if c.Seq > high {
			break
		}
		commits = append(commits, c)
	}
	return commits, nil
}
