package transfer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"mneme/archive/frozen"
	"mneme/backend"
	"mneme/cmd/mneme/app"
	"mneme/cmd/mneme/term"
	"mneme/errkind"
	"mneme/internal/durable"
	"mneme/internal/plural"
	"mneme/internal/quote"
	"mneme/internal/safepath"
	"mneme/memory"
)

// snapshotLife is the number of days after which an image expires, without --expires.
const snapshotLife = 30

// errExpired says that an image should have been removed.
var errExpired = errkind.New(errkind.Policy, "the snapshot has expired")

// SnapshotCmd is the command `mneme snapshot`.
type SnapshotCmd struct {
	Store   string `arg:"" optional:"" name:"store" placeholder:"STORE[@POINT]" help:"Its name or id, and the point at which it is shown: a sequence number, HEAD~n, a time, or an age. Default: as it is."`
	File    string `arg:"" optional:"" help:"The image to make, which must not exist."`
	Expires string `default:"30d" placeholder:"WHEN" help:"When the image should be removed: a number of days from today (30d), a date, or never. Default: 30d."`
	Check   bool   `help:"Say of which store and point an image is, and whether it has expired (exit code 5): 'mneme snapshot --check FILE'."`
}

func (c *SnapshotCmd) Help() string {
	return `Writes what a store held at a point as an image of EROFS, read-only, which Linux mounts without mneme:

    mount -t erofs -o ro,loop notes.erofs /mnt/notes

The image has no history. The same store, point and date of expiry are the same bytes. It is out of mneme's reach: what is redacted in the store later stays in it, so it says until when it is to be used, in .mneme/snapshot.json. Whoever has it has to remove it by then; --check warns.

Examples:

    mneme snapshot notes notes.erofs
    mneme snapshot notes@HEAD~1 earlier.erofs --expires 2099-12-31
    mneme snapshot --check notes.erofs`
}

// snapshotJSON is an image.
type snapshotJSON struct {
	Type string `json:"type"`
	Path string `json:"path"`
	*frozen.About
	Expired bool `json:"expired"`
}

func (c *SnapshotCmd) Run(ctx context.Context, a *app.App) error {
	switch {
	case c.Check && c.Store != "" && c.File == "":
		return c.check(a, c.Store)
	case c.Check || c.Store == "" || c.File == "":
		return app.Usagef("want `mneme snapshot STORE[@POINT] FILE`, or `mneme snapshot --check FILE`")
	}
	expires, err := expiryOf(c.Expires, time.Now())
	if err != nil {
		return err
	}
	if c.File == "-" {
		return app.Usagef("an image is not written to standard output; name a file such as %s.erofs", c.Store)
	}
	ref, at := c.Store, ""
	if i := strings.LastIndexByte(ref, '@'); i > 0 {
		ref, at = ref[:i], ref[i+1:]
	}
	path, err := filepath.Abs(c.File)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(path); err == nil {
		return app.Usagef("%s is there already; a snapshot replaces nothing, name a new file", c.File)
	}
	return withStoreAt(ctx, a, ref, at, func(_ *backend.Library, st *memory.Store) error {
		bar := a.Progress("snapshot " + st.Info().Slug)
		var about *frozen.About
		err := writeNew(path, func(f *os.File) (err error) {
			about, err = frozen.Write(ctx, st, f, &frozen.Options{Expires: expires, TempDir: filepath.Dir(path), Progress: bar.Show})
			return err
		})
		bar.Clear()
		if err != nil {
			return err
		}
		return c.print(a, path, about)
	})
}

// expiryOf reads --expires: the end of a day in UTC, so that images of one day have the
// same expiry.
func expiryOf(text string, now time.Time) (time.Time, error) {
	if text == "never" {
		return time.Time{}, nil
	}
	today := now.UTC().Truncate(24 * time.Hour)
	if number, isDays := strings.CutSuffix(text, "d"); isDays {
		var days int
		if n, err := fmt.Sscanf(number, "%d", &days); n == 1 && err == nil && days > 0 && days <= 36500 && fmt.Sprint(days) == number {
			return today.AddDate(0, 0, days), nil
		}
	}
	if day, err := time.Parse(time.DateOnly, text); err == nil && day.After(today) {
		return day, nil
	}
	return time.Time{}, app.Usagef("--expires %s: want a number of days such as %dd, a date that is to come, such as %s, or never", text, snapshotLife, today.AddDate(0, 0, snapshotLife).Format(time.DateOnly))
}

func (c *SnapshotCmd) check(a *app.App, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	about, err := frozen.Read(f)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if err := c.print(a, file, about); err != nil {
		return err
	}
	if about.Expired(time.Now()) {
		return fmt.Errorf("%s: %w on %s; remove it, and make another with `mneme snapshot %s FILE`", file, errExpired, about.Expires.Format(time.DateOnly), term.ShellWord(about.Store))
	}
	return nil
}

func (c *SnapshotCmd) print(a *app.App, path string, about *frozen.About) error {
	if a.JSON {
		return a.PrintJSON(snapshotJSON{"snapshot", path, about, about.Expired(time.Now())})
	}
	until := "never expires"
	if !about.Expires.IsZero() {
		until = "expires on " + about.Expires.Format(time.DateOnly)
	}
	a.Printf("%s: store %s at commit %d of %s, %s; %s\n", quote.Text(path), quote.Text(about.Store), about.Seq, term.LocalTime(about.Time), plural.Of(about.Memories, "memory"), until)
	return nil
}

// writeNew creates a file of mode 0600, which must not exist and appears when it is
// complete.
func writeNew(path string, write func(*os.File) error) error {
	if err := safepath.CheckNew(path); err != nil {
		return err
	}
	temp := path + partial + filepath.Base(durable.TempName(""))
	f, err := os.OpenFile(temp, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	err = write(f)
	if err == nil {
		err = durable.Sync(f)
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = durable.RenameNew(temp, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	return nil
}
