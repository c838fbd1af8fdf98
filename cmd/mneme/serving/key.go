package serving

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"mneme/backend"
	"mneme/cmd/mneme/app"
	"mneme/cmd/mneme/term"
	"mneme/internal/quote"
	"mneme/memory"
	"mneme/server/access"
	"mneme/server/manage"
)

// KeyCmd is the command `mneme key`.
type KeyCmd struct {
	Create  keyCreateCmd  `cmd:"" help:"Make a key, and print its secret once."`
	List    keyListCmd    `cmd:"" help:"List the keys."`
	Show    keyShowCmd    `cmd:"" help:"Show a key, and what it may do."`
	Disable keyDisableCmd `cmd:"" help:"Have a key and its tokens count no more."`
	Enable  keyEnableCmd  `cmd:"" help:"Have a disabled key count again."`
	Rotate  keyRotateCmd  `cmd:"" help:"Give a key another secret, and print it once."`
	Delete  keyDeleteCmd  `cmd:"" help:"Remove a key; its id stays in the history of what it wrote."`
}

func (c *KeyCmd) Help() string {
	return `Keys are what programs and people reach the stores with through 'mneme serve'. The library keeps them, by the hash of their secrets, so that every server over the library has the same; a change counts at each within 5 s, in most cases at once.

Examples:

    mneme key create phone --grant notes
    mneme key list`
}

type keyCreateCmd struct {
	Label   string   `arg:"" help:"What people know it by."`
	Grant   []string `placeholder:"STORE[:RIGHT]" help:"A store that it reaches, with a right: read (or ro), write (or rw; the default) or admin. May be given several times."`
	All     string   `enum:",read,write,admin" default:"" placeholder:"RIGHT" help:"A right in every store, also in those to come: read, write or admin."`
	Admin   bool     `help:"All rights in every store, and the management of stores and keys; the same as --all admin."`
	Expires age      `placeholder:"TIME" help:"For how long it counts, such as 30d or 12h. Default: until it is disabled."`
}

func (c *keyCreateCmd) Help() string {
	return `Makes a key and prints its secret, which nobody can print again. A program sends it as "Authorization: Bearer SECRET", or as "x-api-key".

Examples:

    mneme key create phone --grant notes
    mneme key create ci --grant notes:read --expires 30d
    mneme key create operator --admin`
}

func (c *keyCreateCmd) Run(ctx context.Context, a *app.App) error {
	k := &wantedKey{label: c.Label, expires: time.Duration(c.Expires)}
	if c.Admin {
		c.All = access.Admin.String()
	}
	if c.All != "" {
		if err := k.everywhere.UnmarshalText([]byte(c.All)); err != nil {
			return app.Usagef("--all: %v", err)
		}
	}
	for _, text := range c.Grant {
		store, right, err := parseGrant(text)
		if err != nil {
			return err
		}
		k.grants = append(k.grants, wantedGrant{store, right})
	}
	return withKeys(ctx, a, func(_ *backend.Library, keys keyring) error {
		key, err := keys.create(ctx, k)
		if err != nil {
			return err
		}
		return printSecret(a, &key)
	})
}

// rightWords are other words for a right.
var rightWords = map[string]access.Right{"ro": access.Read, "rw": access.Write}

func parseGrant(text string) (store string, right access.Right, err error) {
	store, word, given := strings.Cut(text, ":")
	if !given {
		return store, access.Write, nil
	}
	if right, known := rightWords[word]; known {
		return store, right, nil
	}
	if right.UnmarshalText([]byte(word)) != nil || right == access.None {
		return store, right, app.Usagef("--grant %q: want STORE, or STORE:RIGHT with the right read, write or admin", text)
	}
	return store, right, nil
}

// printSecret prints a key with its secret. A program that reads one line gets only the
// secret on standard output.
func printSecret(a *app.App, key *manage.KeyJSON) error {
	if a.JSON {
		return a.PrintJSON(key)
	}
	a.Printf("%s\n", key.Secret)
	_, _ = fmt.Fprintf(a.Err, "mneme: this is the secret of key %s (fingerprint %s); it is not shown again\n", key.ID, key.Fingerprint)
	return nil
}

// withKeys opens the library and its keys, and closes them after do.
func withKeys(ctx context.Context, a *app.App, do func(*backend.Library, keyring) error) error {
	return a.WithLibrary(ctx, app.Writing, func(lib *backend.Library) error {
		if open := lib.Location.Server; open != nil {
			opts := app.Writing
			server, err := open(&opts)
			if err != nil {
				return err
			}
			defer server.Close()
			return do(lib, servedKeys{server})
		}
		keys, err := access.OpenRegistry(ctx, lib.Library, &access.RegistryOptions{Author: &memory.Author{Actor: app.UserActor()}})
		if err != nil {
			return err
		}
		defer keys.Close()
		return do(lib, &ownKeys{lib, keys})
	})
}

type keyListCmd struct{}

func (c *keyListCmd) Help() string {
	return `Lists the keys, the oldest first. The fingerprint is the beginning of the SHA-256 of a secret, by which its holder can tell which key it has: printf %s "$SECRET" | sha256sum.

Examples:

    mneme key list
    mneme key list --json`
}

func (c *keyListCmd) Run(ctx context.Context, a *app.App) error {
	return withKeys(ctx, a, func(lib *backend.Library, keys keyring) error {
		all, err := keys.keys(ctx)
		if err != nil {
			return err
		}
		t := &term.Table{Header: []string{"KEY", "LABEL", "FINGERPRINT", "STATE", "LAST USED", "RIGHTS"}, Shrink: []string{"RIGHTS", "LABEL"}}
		for _, k := range all {
			if a.JSON {
				if err := a.PrintJSON(k); err != nil {
					return err
				}
			}
			used := "never"
			if k.LastUsedAt != nil {
				used = term.LocalTime(*k.LastUsedAt)
			}
			t.Add(k.ID, k.Label, k.Fingerprint, keyState(&k), used, rightsText(ctx, lib, &k))
		}
		if !a.JSON {
			a.PrintTable(t)
		}
		return nil
	})
}

func keyState(k *manage.KeyJSON) string {
	switch {
	case k.IsDisabled:
		return "disabled"
	case k.ExpiresAt != nil && !time.Now().Before(*k.ExpiresAt):
		return "expired"
	}
	return "active"
}

// rightsText is the rights of a key, by the names of stores.
func rightsText(ctx context.Context, lib *backend.Library, k *manage.KeyJSON) string {
	var parts []string
	if k.Everywhere != access.None.String() {
		parts = append(parts, "all:"+k.Everywhere)
	}
	for _, grant := range k.Grants {
		name := grant.StoreID
		if s, err := lib.FindStore(ctx, name); err == nil {
			name = s.Slug
		}
		parts = append(parts, name+":"+grant.Right)
	}
	return strings.Join(parts, " ")
}

// changed changes the key, and has told print the result.
func (r *keyRef) changed(ctx context.Context, a *app.App, how keyChange, told func(*manage.KeyJSON) error) error {
	return withKeys(ctx, a, func(_ *backend.Library, keys keyring) error {
		k, err := r.find(ctx, keys)
		if err == nil {
			k, err = keys.change(ctx, k.ID, how)
		}
		if err != nil {
			return err
		}
		return told(&k)
	})
}

// on changes the key, and names the change in a word.
func (r *keyRef) on(ctx context.Context, a *app.App, how keyChange, done string) error {
	return r.changed(ctx, a, how, func(k *manage.KeyJSON) error {
		if a.JSON {
			return a.PrintJSON(k)
		}
		a.Printf("key %s (%s): %s\n", k.ID, quote.Text(k.Label), done)
		return nil
	})
}

type keyShowCmd struct{ keyRef }

func (c *keyShowCmd) Help() string {
	return `Shows a key: when it was made and last used, for how long it counts, and its rights.

Examples:

    mneme key show laptop`
}

func (c *keyShowCmd) Run(ctx context.Context, a *app.App) error {
	return withKeys(ctx, a, func(lib *backend.Library, keys keyring) error {
		k, err := c.find(ctx, keys)
		if err != nil {
			return err
		}
		if a.JSON {
			return a.PrintJSON(k)
		}
		expires, used := "never", "never"
		if k.ExpiresAt != nil {
			expires = term.LocalTime(*k.ExpiresAt)
		}
		if k.LastUsedAt != nil {
			used = term.LocalTime(*k.LastUsedAt) + ", to the hour"
		}
		for _, line := range [][2]string{
			{"key", k.ID}, {"label", k.Label}, {"fingerprint", k.Fingerprint}, {"state", keyState(&k)}, {"created", term.LocalTime(k.CreatedAt)},
			{"expires", expires}, {"last used", used}, {"rights", rightsText(ctx, lib, &k)},
		} {
			a.Printf("%-12s %s\n", line[0]+":", line[1])
		}
		return nil
	})
}

type keyDisableCmd struct{ keyRef }

func (c *keyDisableCmd) Help() string {
	return `Has a key count no more, and with it the tokens that were made with it, within 5 s at every server; what is under way with them ends, too. 'mneme key enable' takes it back.

Examples:

    mneme key disable laptop`
}

func (c *keyDisableCmd) Run(ctx context.Context, a *app.App) error {
	return c.on(ctx, a, disableKey, "disabled")
}

type keyEnableCmd struct{ keyRef }

func (c *keyEnableCmd) Help() string {
	return `Has a disabled key count again.

Examples:

    mneme key enable laptop`
}

func (c *keyEnableCmd) Run(ctx context.Context, a *app.App) error {
	return c.on(ctx, a, enableKey, "enabled")
}

type keyRotateCmd struct{ keyRef }

func (c *keyRotateCmd) Help() string {
	return `Gives a key another secret and prints it, once. The one before counts no more; id, rights and tokens stay.

Examples:

    mneme key rotate laptop`
}

func (c *keyRotateCmd) Run(ctx context.Context, a *app.App) error {
	return c.changed(ctx, a, rotateKey, func(key *manage.KeyJSON) error { return printSecret(a, key) })
}

type keyDeleteCmd struct{ keyRef }

func (c *keyDeleteCmd) Help() string {
	return `Removes a key, which counts no more, nor do its tokens. Its id stays in the history of what it wrote.

Examples:

    mneme key delete laptop`
}

func (c *keyDeleteCmd) Run(ctx context.Context, a *app.App) error {
	return c.on(ctx, a, deleteKey, "deleted")
}

// age is a time with its unit, which may be days: 12h, 30d.
type age time.Duration

// UnmarshalText reads an age.
func (d *age) UnmarshalText(text []byte) error {
	if days, isDays := strings.CutSuffix(string(text), "d"); isDays {
		if n, err := strconv.Atoi(days); err == nil && n > 0 && n <= 36500 {
			*d = age(n) * age(24*time.Hour)
			return nil
		}
	}
	var p term.Period
	if p.UnmarshalText(text) != nil {
		return fmt.Errorf("%q: want a time above 0 with its unit, such as 30d or 12h", text)
	}
	*d = age(p)
	return nil
}
