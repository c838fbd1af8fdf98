package sqlitelog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"mneme/internal/durable"
	"mneme/internal/safepath"
	"mneme/internal/sqlite"
	"mneme/versionlog"
)

// Loss is something of a store that was acknowledged and is not in the database.
type Loss struct {
	StoreID string
	Slug    string // "" where the database does not have the store
	What    string // what is missing, and what the write-ahead log looks like

	num int64
}

func (l Loss) String() string {
	return "store " + cmp.Or(l.Slug, l.StoreID) + ": " + l.What
}

// Losses compares a log in a directory with the state that is remembered outside its database,
// without changing anything. Nothing is lost where nothing is remembered: in a copy by mneme
// backup, and of commits by an older mneme.
func Losses(ctx context.Context, dir string) ([]Loss, error) {
	root, err := safepath.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	_, losses, err := inspectLosses(ctx, root)
	return losses, errors.Join(err, root.Close())
}

// inspectLosses is inspect and Losses in one.
func inspectLosses(ctx context.Context, dir *os.Root) (format int, losses []Loss, err error) {
	path := filepath.Join(dir.Name(), DatabaseName)
	// In this order: the database is never behind what was remembered before.
	known := readTips(dir)
	then := databaseThen{stores: map[int64]storeThen{}}
	format, err = inspect(ctx, path, func(c *sqlite.Conn) error {
		if len(known) == 0 {
			return nil
		}
		err := translate(c.Reading(func() error { return then.read(ctx, c, known) }))
		if errors.Is(err, versionlog.ErrCorrupt) { // a reader of those pages is told
			known, err = nil, nil
		}
		return err
	})
	if err != nil {
		return format, nil, err
	}
	for num, k := range known {
		if what, slug := then.missing(num, &k); what != "" {
			losses = append(losses, Loss{StoreID: k.storeID, Slug: slug, What: what, num: num})
		}
	}
	if len(losses) == 0 {
		return format, nil, nil
	}
	why, err := whyLost(path)
	if err != nil {
		return format, nil, err
	}
	for i := range losses {
		losses[i].What += ": " + why
	}
	slices.SortFunc(losses, func(a, b Loss) int { return cmp.Compare(a.num, b.num) })
	return format, losses, nil
}

// databaseThen is what the database has of the stores that are remembered.
type databaseThen struct {
	stores  map[int64]storeThen // by number
	highest int64               // number that was ever given
}

// storeThen is a store with the digest that it had at the sequence number that is
// remembered, if it has that.
type storeThen struct {
	storeRow
	digest versionlog.Digest
}

// read may be called again after an error.
func (d *databaseThen) read(ctx context.Context, c *sqlite.Conn, known map[int64]knownTip) error {
	err := c.Each(readStores(1), func(row *sqlite.Row) error {
		s, err := scanStore(row)
		d.stores[s.num] = storeThen{storeRow: s}
		return err
	})
	if err != nil {
		return err
	}
	err = c.Each(highestNumber, func(row *sqlite.Row) error {
		d.highest = row.ColumnInt64(0)
		return nil
	})
	if err != nil {
		return err
	}
	return digestsThen(ctx, c, known, d.stores)
}

// digestsThen adds the digests of the commits that are remembered.
func digestsThen(ctx context.Context, c *sqlite.Conn, known map[int64]knownTip, rows map[int64]storeThen) error {
	for num, s := range rows {
		k, ok := known[num]
		if !ok || k.seq > s.tip.Seq || k.seq == 0 {
			continue
		}
		if k.seq == s.tip.Seq {
			s.digest = s.tip.Digest
		} else {
			var err error
			if s.digest, err = digestAt(ctx, inTransaction{c}, num, int64(k.seq)); err != nil {
				return err
			}
		}
		rows[num] = s
	}
	return nil
}

// digestAt returns the digest of a commit, or none where its record is missing or
// damaged, which Verify says.
func digestAt(ctx context.Context, from source, store, seq int64) (versionlog.Digest, error) {
	row, err := queryOne(ctx, from, recordAt, scanRecordRow, store, seq)
	if errors.Is(err, versionlog.ErrNotFound) {
		return versionlog.Digest{}, nil
	}
	if err != nil {
		return versionlog.Digest{}, err
	}
	c, err := (&records{source: from, store: store}).commit(ctx, row)
	if isUnreadable(err) {
		return versionlog.Digest{}, nil
	}
	if err != nil {
		return versionlog.Digest{}, err
	}
	return c.Digest, nil
}

// missing says what is remembered of a store and not in the database, or "".
func (d *databaseThen) missing(num int64, k *knownTip) (what, slug string) {
	s := d.stores[num]
	here := s.ID == k.storeID
	switch {
	case k.state == tipDeleted && here:
		return "it was deleted, and is back", s.Slug
	case k.state == tipDeleted, !here && s.ID == "" && num <= d.highest: // deleted by a process that was killed then, or by an older mneme
		return "", ""
	case !here:
		return fmt.Sprintf("it is missing as a whole, with %d acknowledged commits", k.seq), ""
	case k.seq > s.tip.Seq:
		return fmt.Sprintf("%d acknowledged commits after sequence number %d are missing", k.seq-s.tip.Seq, s.tip.Seq), s.Slug
	case k.seq > 0 && !s.digest.IsZero() && s.digest != k.digest:
		return fmt.Sprintf("commit %d is another than the one that was acknowledged: the history was replaced", k.seq), s.Slug
	case k.state == tipArchived && s.ArchivedAt.IsZero():
		return "it was archived, and is not any more", s.Slug
	}
	return "", ""
}

// whyLost says what the write-ahead log shows of the reason.
func whyLost(path string) (string, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return DatabaseName + " is missing", nil
	}
	w, err := sqlite.InspectWriteAhead(path)
	if err != nil {
		return "", err
	}
	const name = DatabaseName + sqlite.WriteAheadSuffix
	switch {
	case w.Size == 0: // looking makes an empty one
		return name + " is missing or empty, without which the database may have been copied", nil
	case w.BadHeader:
		return fmt.Sprintf("the header of %s is damaged, and its %d frames are not read", name, w.Behind), nil
	case w.Behind > 0:
		return fmt.Sprintf("%s is damaged at byte %d, and the %d frames behind it are not read", name, w.End, w.Behind), nil
	}
	return fmt.Sprintf("%s ends at byte %d, where it was cut, or the files are of different moments", name, w.End), nil
}

// AcceptLosses makes a log take writes again that lacks what was acknowledged: from
// now on what the database has is what is known. It returns the losses, and the name
// of a copy of the write-ahead log as it was, which may hold what is lost; "" where
// there was none.
func AcceptLosses(ctx context.Context, dir string) (losses []Loss, kept string, err error) {
	root, err := safepath.OpenRoot(dir)
	if err != nil {
		return nil, "", err
	}
	defer root.Close()
	_, losses, err = inspectLosses(ctx, root)
	if err != nil || len(losses) == 0 {
		return losses, "", err
	}
	if kept, err = keepWriteAhead(root); err != nil {
		return losses, "", fmt.Errorf("keep the write-ahead log: %w", err)
	}
	t := openTips(root)
	for _, loss := range losses {
		err = errors.Join(err, t.forget(loss.num))
	}
	return losses, kept, errors.Join(err, t.close())
}

// keepWriteAhead copies the write-ahead log aside.
func keepWriteAhead(dir *os.Root) (string, error) {
	const name = DatabaseName + sqlite.WriteAheadSuffix
	data, err := dir.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(data) == 0 {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	kept := name + ".damaged-" + time.Now().UTC().Format("20060102T150405Z")
	return filepath.Join(dir.Name(), kept), durable.WriteFile(dir, kept, data, 0o600)
}
