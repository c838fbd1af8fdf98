package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"mneme/memory"
	"mneme/versionlog"
)

type showCmd struct {
	Version string `arg:"" help:"Version id, or with --store a sequence number."`
	Store   string `placeholder:"STORE" help:"The store whose sequence number it is."`
}

func (c *showCmd) Help() string {
	return `Examples:

    mneme show memver_000000000007000000a4fzd8mh
    mneme show 7 --store notes      (everything that commit changed)`
}

func (c *showCmd) Run(ctx context.Context, a *app) error {
	seq, err := strconv.ParseUint(c.Version, 10, 64)
	if err != nil {
		if strings.Contains(c.Version, ":") {
			return usagef("%s is a place, not a version; `mneme log %[1]s` lists its versions, `mneme cat %[1]s` prints it", c.Version)
		}
		return c.showID(ctx, a)
	}
	if c.Store == "" {
		return usagef("a sequence number needs its store; want `mneme show %d --store STORE`", seq)
	}
	return a.withStore(ctx, c.Store, reading, func(st *memory.Store) error {
		commits, err := collectCommits(ctx, st, max(seq, 1)-1, seq)
		if err != nil {
			return err
		}
		if len(commits) == 0 {
			return fmt.Errorf("sequence number %d of store %s: %w", seq, st.Info().Slug, versionlog.ErrNotFound)
		}
		for i, v := range commits[0].Versions {
			if i > 0 && !a.json {
				a.printf("\n")
			}
			if err := showVersion(ctx, a, st, v); err != nil {
				return err
			}
		}
		return nil
	})
}

func (c *showCmd) showID(ctx context.Context, a *app) error {
	return a.withLibrary(ctx, reading, func(lib *memory.Library) error {
		s, v, err := lib.FindVersion(ctx, c.Version)
		if err != nil {
			return err
		}
		st, err := lib.Open(ctx, s.ID, nil)
		if err != nil {
			return err
		}
		return showVersion(ctx, a, st, v)
	})
}

func showVersion(ctx context.Context, a *app, st *memory.Store, v versionlog.Version) error {
	parent, err := parentOf(ctx, st, v)
	if err != nil {
		return err
	}
	diff, err := diffVersions(ctx, st, parent, &v)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(struct {
			versionJSON
			Diff string `json:"diff"`
		}{newVersionJSON(st.Info().ID, v), diff})
	}
	fields := [][2]string{
		{"Version", v.ID}, {"Memory", v.MemoryID}, {"Place", st.Info().Slug + ":" + v.Path},
		{"Change", string(v.Op)}, {"Sequence", strconv.FormatUint(v.Seq, 10)},
		{"Time", localTime(v.Time)}, {"By", v.Actor.String()},
	}
	for _, f := range [][2]string{
		{"Session", v.Session}, {"Renamed from", v.From}, {"Parent", v.Parent}, {"Message", v.Message},
	} {
		if f[1] != "" {
			fields = append(fields, f)
		}
	}
	if v.Live() {
		fields = append(fields, [2]string{"Size", strconv.FormatInt(v.Size, 10)}, [2]string{"SHA-256", v.Digest.String()})
	}
	a.printFields(fields)
	if diff != "" {
		a.printf("\n")
		a.printDiff(diff)
	}
	return nil
}
