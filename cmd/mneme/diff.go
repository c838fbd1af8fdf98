package main

import (
	"context"
	"fmt"
	"strings"

	"mneme/memory"
	"mneme/versionlog"
)

type diffCmd struct {
	Place string `arg:"" help:"STORE:/path of a memory."`
	From  string `arg:"" optional:"" name:"v1" help:"Version id or sequence number. Default: the one that the newest version replaced."`
	To    string `arg:"" optional:"" name:"v2" help:"Version id or sequence number. Default: the newest version."`
}

func (c *diffCmd) Help() string {
	return `Examples:

    mneme diff notes:/todo.md        (what the last change did)
    mneme diff notes:/todo.md 7      (since sequence number 7)
    mneme diff notes:/todo.md 7 9
    mneme diff notes:/todo.md@7 9`
}

func (c *diffCmd) Run(ctx context.Context, a *app) error {
	p, err := parseMemory(c.Place)
	if err != nil {
		return err
	}
	return a.withPlace(ctx, p, reading, func(st *memory.Store) error {
		path, version, err := splitVersion(ctx, st, p.path)
		if err != nil {
			return err
		}
		if version != "" {
			if c.To != "" {
				return usagef("%s has a version, and two others follow; want two in all", p)
			}
			c.From, c.To = version, c.From
		}
		from, to, err := c.versions(ctx, st, path)
		if err != nil {
			return explainMissing(ctx, st, path, err)
		}
		diff, err := diffVersions(ctx, st, from, to)
		if err != nil {
			return err
		}
		if !a.json {
			return a.page(func() error { a.printDiff(diff); return nil })
		}
		return a.printJSON(newDiffJSON(st, from, to, diff))
	})
}

// versions returns what to compare; from is nil when to is a memory's first.
func (c *diffCmd) versions(ctx context.Context, st *memory.Store, path string) (from, to *versionlog.Version, err error) {
	bare := func(ref string) string { // as diff itself writes it, notes:/todo.md@7
		return strings.TrimPrefix(ref, st.Info().Slug+":"+path+"@")
	}
	if c.To != "" {
		to, err = versionRef(ctx, st, path, bare(c.To))
	} else {
		to, err = newestVersion(ctx, st, path)
	}
	if err != nil {
		return nil, nil, err
	}
	if c.From != "" {
		from, err = versionRef(ctx, st, path, bare(c.From))
	} else {
		from, err = replacedBy(ctx, st, path, *to)
	}
	return from, to, err
}

func replacedBy(ctx context.Context, st *memory.Store, path string, v versionlog.Version) (*versionlog.Version, error) {
	before, ok, err := st.Replaced(ctx, path, v)
	if err != nil || !ok {
		return nil, err
	}
	return &before, nil
}

func parentOf(ctx context.Context, st *memory.Store, v versionlog.Version) (*versionlog.Version, error) {
	parent, ok, err := st.Parent(ctx, v)
	if err != nil || !ok {
		return nil, err
	}
	return &parent, nil
}

// diffVersions returns the unified diff of two versions. A deletion, and nil,
// are empty.
func diffVersions(ctx context.Context, st *memory.Store, from, to *versionlog.Version) (string, error) {
	nameA, a, err := diffSide(ctx, st, from)
	if err != nil {
		return "", err
	}
	nameB, b, err := diffSide(ctx, st, to)
	if err != nil {
		return "", err
	}
	return memory.Diff(nameA, nameB, a, b), nil
}

func diffSide(ctx context.Context, st *memory.Store, v *versionlog.Version) (name string, data []byte, err error) {
	if v == nil {
		return "/dev/null", nil, nil
	}
	if v.Live() {
		data, err = st.Content(ctx, *v)
	}
	return fmt.Sprintf("%s:%s@%d", st.Info().Slug, v.Path, v.Seq), data, err
}

type diffJSON struct {
	From *versionJSON `json:"from"`
	To   versionJSON  `json:"to"`
	Diff string       `json:"diff"`
}

func newDiffJSON(st *memory.Store, from, to *versionlog.Version, diff string) diffJSON {
	j := diffJSON{To: newVersionJSON(st.Info().ID, *to), Diff: diff}
	if from != nil {
		v := newVersionJSON(st.Info().ID, *from)
		j.From = &v
	}
	return j
}
