package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"mneme/backend"
	"mneme/cmd/mneme/app"
	"mneme/internal/durable"
	"mneme/internal/safepath"
	"mneme/witness"
)

type storeSignCmd struct {
	Store  string `arg:"" optional:"" help:"Its name or id."`
	Key    string `placeholder:"FILE" help:"The secret key to sign with, which --new-key has made."`
	NewKey string `placeholder:"FILE" help:"Make a secret key in this file, which must not exist, and print the one by which its notes are verified."`
}

func (c *storeSignCmd) Help() string {
	return `Prints a signed note of the store's tip: its id, the sequence number and the digest of its newest commit. With the note and the key that --new-key has printed, 'mneme fsck STORE --against NOTE --verify-key KEY' proves later that the history still has all that it had then, wherever the note was kept meanwhile. Keep the secret key where no process that can write the store's files can read it.

Examples:

    mneme store sign --new-key notes.key > notes.pub
    mneme store sign notes --key notes.key > notes.note
    mneme fsck notes --against notes.note --verify-key "$(cat notes.pub)"`
}

func (c *storeSignCmd) Run(ctx context.Context, a *app.App) error {
	switch {
	case c.NewKey != "" && c.Store == "" && c.Key == "":
		return c.makeKey(a)
	case c.NewKey != "" || c.Store == "" || c.Key == "":
		return app.Usagef("want `mneme store sign STORE --key FILE`, or `mneme store sign --new-key FILE`")
	}
	secret, err := readSecretKey(c.Key)
	if err != nil {
		return err
	}
	return a.WithLibrary(ctx, app.Reading, func(lib *backend.Library) error {
		t, err := tipToSign(ctx, lib, c.Store)
		if err != nil {
			return err
		}
		text, err := witness.Sign(t, secret)
		if err != nil {
			return fmt.Errorf("%s: %w; want a file that `mneme store sign --new-key` has made", c.Key, err)
		}
		if a.JSON {
			return a.PrintJSON(struct {
				Type string `json:"type"`
				Note string `json:"note"`
			}{"note", string(text)})
		}
		a.Printf("%s", text)
		return nil
	})
}

// tipToSign returns the tip of a store, after checking the history against the commits that
// this machine has seen.
func tipToSign(ctx context.Context, lib *backend.Library, ref string) (t witness.SignedTip, err error) {
	st, err := app.OpenStore(ctx, lib, ref, app.Reading)
	if err != nil {
		return t, err
	}
	s := st.Info()
	if err := lib.CheckSeen(ctx, s); err != nil {
		return t, err
	}
	tip, err := st.Tip(ctx)
	if err == nil && tip.Seq == 0 {
		err = app.Usagef("store %s has no commits yet, so there is nothing to sign", s.Slug)
	}
	t.StoreID, t.Tip.Seq, t.Tip.Digest = s.ID, tip.Seq, tip.Digest
	return t, err
}

func (c *storeSignCmd) makeKey(a *app.App) error {
	secret, verifier, err := witness.NewKey()
	if err != nil {
		return err
	}
	if err := writeNewFile(c.NewKey, secret+"\n"); err != nil {
		return fmt.Errorf("make a key: %w", err)
	}
	if a.JSON {
		return a.PrintJSON(struct {
			Type   string `json:"type"`
			Verify string `json:"verify_key"`
		}{"key", verifier})
	}
	a.Printf("%s\n", verifier)
	return nil
}

// writeNewFile creates a file for its owner only. The file must not exist. It is durable
// when writeNewFile returns nil, and otherwise missing.
func writeNewFile(path, text string) error {
	if err := safepath.CheckNew(path); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return app.Usagef("%w; nothing is written over, name another file", err)
	}
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, text)
	if err = errors.Join(err, durable.Sync(f), f.Close()); err == nil {
		err = durable.SyncDir(filepath.Dir(path))
	}
	if err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

// maxKeyFile is the largest size of a file that is read as a key.
const maxKeyFile = 4 << 10

// readSecretKey reads a file that others cannot read.
func readSecretKey(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	if perm := info.Mode().Perm(); perm&0o077 != 0 {
		return "", fmt.Errorf("%s: %w: others can read or write it (mode %#o), so it is no secret; if nobody has, `chmod 600` it, else make another", path, fs.ErrPermission, perm)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxKeyFile))
	return strings.TrimSuffix(string(text), "\n"), err
}
