// Package store holds the command about whole stores. It creates, lists, updates, signs,
// archives and deletes them, and sets their policy and their quota. It uses app and view.
// Read store.go first.
package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"mneme/backend"
	"mneme/cmd/mneme/app"
	"mneme/cmd/mneme/term"
	"mneme/cmd/mneme/view"
	"mneme/internal/plural"
	"mneme/memory"
	"mneme/versionlog"
)

// StoreCmd is the command `mneme store`.
type StoreCmd struct {
	Create  storeCreateCmd  `cmd:"" help:"Make a store."`
	List    storeListCmd    `cmd:"" help:"List the stores."`
	Show    storeShowCmd    `cmd:"" help:"Show one store."`
	Update  storeUpdateCmd  `cmd:"" help:"Change what a store is for, and what it may hold."`
	Sign    storeSignCmd    `cmd:"" help:"Sign the tip of a store, so that its history can be proved later."`
	Archive storeArchiveCmd `cmd:"" help:"Make a store read-only, for ever."`
	Delete  storeDeleteCmd  `cmd:"" help:"Delete a store with its whole history."`
}

type storeCreateCmd struct {
	Name           string            `arg:"" help:"What people call it. Its directory is named after it: \"Team Notes\" becomes team-notes."`
	Description    string            `empty:"" help:"What it is for, told to agents."`
	MaxMemoryBytes *term.ByteSize    `placeholder:"SIZE" help:"How large a single memory, one file, may be, up to 256MiB. (What a mount takes of RAM: 'mneme mount --max-memory'.) Default: 102400 bytes."`
	Content        string            `enum:"text,any" default:"text" help:"What memories may hold: text (UTF-8) or any bytes."`
	Metadata       map[string]string `placeholder:"KEY=VALUE" mapsep:"none" help:"A note that programs read, such as owner=me; may be given up to 16 times."`
	IfMissing      bool              `help:"Do nothing if the store is there already."`
	storeQuotaFlags
	policyFlags
}

func (c *storeCreateCmd) Help() string {
	return `Examples:

    mneme store create notes --description "What we learned about the build"
    mneme store create repos --content any --max-memory-bytes 10000000
    mneme store create scratch --quota-bytes 100MB --quota-memories 1000
    mneme store create team --secrets refuse`
}

func (c *storeCreateCmd) Run(ctx context.Context, a *app.App) error {
	return a.WithLibrary(ctx, app.Creating, func(lib *backend.Library) error {
		asked := versionlog.Store{Policy: app.NewStorePolicy()}
		update := c.update()
		c.apply(&update)
		update.Apply(&asked)
		most := int64(memory.DefaultMaxMemoryBytes)
		if c.MaxMemoryBytes != nil {
			most = int64(*c.MaxMemoryBytes)
		}
		if most == 0 { // which the library takes for its default
			return app.Usagef("--max-memory-bytes 0: no memory could have content; want 1 to %d", memory.LargestMaxMemoryBytes)
		}
		s, err := lib.CreateStore(ctx, c.Name, &memory.StoreOptions{
			Description: c.Description, MaxMemoryBytes: most, Content: versionlog.ContentRule(c.Content),
			Quota: asked.Quota, Policy: asked.Policy, Metadata: c.Metadata, Actor: app.UserActor(),
		})
		if errors.Is(err, versionlog.ErrExists) && c.IfMissing {
			s, err = lib.FindStore(ctx, c.Name)
		}
		if errors.Is(err, versionlog.ErrExists) {
			return fmt.Errorf("%w; `mneme store update` changes it, and --if-missing leaves it as it is", err)
		}
		if err != nil {
			return err
		}
		if a.JSON {
			return a.PrintJSON(view.NewStore(s))
		}
		a.Printf("%s\n", s.Slug)
		if s.Slug != c.Name {
			_, _ = fmt.Fprintf(a.Err, "The store %q is %s on the command line and in mounts.\n", c.Name, s.Slug)
		}
		return nil
	})
}

type storeListCmd struct {
	All bool `help:"Archived stores, too."`
}

func (c *storeListCmd) Run(ctx context.Context, a *app.App) error {
	at, err := app.Locate(a.URL)
	if err != nil {
		return err
	}
	var stores []versionlog.Store
	err = a.WithLibrary(ctx, app.Reading, func(lib *backend.Library) (err error) {
		stores, err = lib.Stores(ctx)
		return err
	})
	if err = a.AllowNothing(err); err != nil {
		return err
	}
	t := &term.Table{Header: []string{"STORE", "CREATED", "STATE", "CONTENT", "MAX BYTES", "DESCRIPTION"}, Right: []string{"MAX BYTES"},
		Shrink: []string{"DESCRIPTION", "STORE"}}
	for _, s := range stores {
		state := "active"
		if !s.ArchivedAt.IsZero() {
			if !c.All {
				continue
			}
			state = "archived"
		}
		if a.JSON {
			if err := a.PrintJSON(view.NewStore(s)); err != nil {
				return err
			}
		}
		t.Add(s.Slug, term.LocalTime(s.CreatedAt), state, string(s.Limits.Content), strconv.FormatInt(s.Limits.MaxMemoryBytes, 10), s.Description)
	}
	switch {
	case a.JSON:
	case len(t.Rows) == 0:
		a.Printf("No stores at %v. `mneme store create notes` makes one.\n", at)
	default:
		a.PrintTable(t)
	}
	return nil
}

type storeShowCmd struct {
	Store string `arg:"" help:"Its name or id."`
}

func (c *storeShowCmd) Run(ctx context.Context, a *app.App) error {
	return a.WithStore(ctx, c.Store, app.Reading, func(st *memory.Store) error {
		state, err := view.NewStoreState(ctx, st, true)
		if err != nil {
			return err
		}
		if a.JSON {
			return a.PrintJSON(state)
		}
		s := st.Info()
		rows := [][2]string{{"Store", s.Slug}, {"Name", s.Name}, {"Id", s.ID}}
		if s.Description != "" {
			rows = append(rows, [2]string{"Description", s.Description})
		}
		rows = append(rows,
			[2]string{"Created", term.LocalTime(s.CreatedAt)})
		if !s.UpdatedAt.IsZero() {
			rows = append(rows, [2]string{"Updated", term.LocalTime(s.UpdatedAt)})
		}
		rows = append(rows,
			[2]string{"Content", string(s.Limits.Content) + ", at most " + strconv.FormatInt(s.Limits.MaxMemoryBytes, 10) + " bytes a memory"},
			[2]string{"Memories", strconv.Itoa(*state.Memories) + ", " + strconv.FormatInt(*state.Bytes, 10) + " bytes"},
			[2]string{"History", strconv.FormatInt(state.History, 10) + " bytes"},
			[2]string{"Sequence", strconv.FormatUint(state.Seq, 10)},
			[2]string{"Tip", view.TipText(versionlog.Tip{Seq: state.Seq, Digest: state.Digest})})
		if state.Git > 0 {
			rows = append(rows, [2]string{"Git", plural.Of(state.Git, "memory") + " that git takes for its own"})
		}
		if text := quotaText(s.Quota, state.Used); text != "" {
			rows = append(rows, [2]string{"Quota", text})
		}
		if text := guardText(s.Policy.Guard); text != "" {
			rows = append(rows, [2]string{"Guard", text})
		}
		if rule := s.Policy.Secrets; rule != versionlog.SecretsOff {
			rows = append(rows, [2]string{"Secrets", string(rule)})
		}
		if rule := s.Policy.Retention; rule != (versionlog.Retention{}) {
			rows = append(rows, [2]string{"Keeps", rule.String()})
		}
		if !s.ArchivedAt.IsZero() {
			rows = append(rows, [2]string{"Archived", term.LocalTime(s.ArchivedAt)})
		}
		for _, key := range slices.Sorted(maps.Keys(s.Metadata)) {
			rows = append(rows, [2]string{"Metadata", key + "=" + s.Metadata[key]})
		}
		a.PrintFields(rows)
		return nil
	})
}
