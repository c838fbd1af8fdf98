package sqlitelog

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"time"

	"mneme/internal/sqlite"
	"mneme/versionlog"
)

// writer is the one connection of a Log that writes. It is a source of the state within its
// transaction.
type writer struct {
	turn  chan struct{} // holds a token while the connection is in use
	queue queue
	conn  *sqlite.Conn
	ahead int // from how many frames of the write-ahead log on commits carry it over
}

func newWriter(ctx context.Context, db *sqlite.DB, ahead int) (*writer, error) {
	w := &writer{turn: make(chan struct{}, 1), ahead: ahead}
	conn, err := w.connect(ctx, db)
	if err != nil {
		return nil, err
	}
	w.conn = conn
	if err := retryBusy(ctx, w.useWriteAheadLog); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return w, nil
}

// connect opens a connection to keep.
func connect(ctx context.Context, db *sqlite.DB) (conn *sqlite.Conn, err error) {
	err = retryBusy(ctx, func() error {
		conn, err = db.Open()
		return translate(err)
	})
	return conn, err
}

func (w *writer) connect(ctx context.Context, db *sqlite.DB) (*sqlite.Conn, error) {
	conn, err := connect(ctx, db)
	if err != nil {
		return nil, err
	}
	if err := conn.Script(fmt.Sprintf(`PRAGMA wal_autocheckpoint = %d`, w.ahead)); err != nil {
		return nil, errors.Join(translate(err), conn.Close())
	}
	return conn, nil
}

// renew opens the connection again.
func (w *writer) renew(ctx context.Context, db *sqlite.DB) error {
	if _, err := w.takeTurn(ctx); err != nil {
		return err
	}
	defer func() { <-w.turn }()
	conn, err := w.connect(ctx, db)
	if err != nil {
		return err
	}
	before := w.conn
	w.conn = conn
	return translate(before.Close())
}

// useWriteAheadLog changes nothing when the database is in that mode already,
// in which it stays.
func (w *writer) useWriteAheadLog() error {
	var mode string
	err := w.conn.Each(`PRAGMA journal_mode = WAL`, func(row *sqlite.Row) error {
		mode = row.ColumnText(0)
		return nil
	})
	if err != nil {
		return translate(err)
	}
	if mode != "wal" {
		return fmt.Errorf("the file system lacks what a write-ahead log needs; the journal mode is %q", mode)
	}
	return nil
}

// With implements source, within a transaction.
func (w *writer) With(_ context.Context, do func(*sqlite.Conn) error) error { return do(w.conn) }

// run runs a statement that writes.
func (w *writer) run(text string, args ...any) error { return translate(w.conn.Run(text, args...)) }

// takeTurn waits until nothing else in this process writes, for a limited time, and returns the
// rest of that time.
func (w *writer) takeTurn(ctx context.Context) (left time.Duration, err error) {
	return w.takeTurnUnless(ctx, nil)
}

// errEnded says that there is nothing left to wait for.
var errEnded = errors.New("it has ended")

// takeTurnUnless is takeTurn, which returns errEnded if the turn is no longer needed.
func (w *writer) takeTurnUnless(ctx context.Context, ended <-chan struct{}) (left time.Duration, err error) {
	select {
	case w.turn <- struct{}{}:
		return busyTimeout, nil
	default:
	}
	start, timer := time.Now(), time.NewTimer(busyTimeout)
	defer timer.Stop()
	select {
	case w.turn <- struct{}{}:
		return busyTimeout - time.Since(start), nil
	case <-ended:
		return 0, errEnded
	case <-timer.C:
		return 0, fmt.Errorf("%w for more than %v", ErrBusy, busyTimeout)
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// transaction calls fn within a write transaction and commits unless fn fails.
// It waits for its turn in this process and then for the other processes, no
// longer than busyTimeout for both. The statements themselves are short and not
// interrupted by ctx; should ctx have ended by the time fn returns, nothing is
// committed.
func (w *writer) transaction(ctx context.Context, fn func(context.Context) error) error {
	left, err := w.takeTurn(ctx)
	if err != nil {
		return err
	}
	defer func() {
		_ = w.conn.Rollback() // also after a panic
		<-w.turn
	}()
	if err := retryBusyFor(ctx, left, func() error { return translate(w.conn.Begin()) }); err != nil {
		return err
	}
	err = fn(context.WithoutCancel(ctx))
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = translate(w.conn.Commit())
	}
	return err
}

// checkpoint carries the write-ahead log over into the database, as far as no process reads from
// it; with TRUNCATE it also cuts it to nothing. It reports whether that is done: not while others
// read, write or carry over.
func (w *writer) checkpoint(ctx context.Context, mode string) (done bool, err error) {
	if _, err := w.takeTurn(ctx); err != nil {
		return false, err
	}
	defer func() { <-w.turn }()
	return w.carryOver(mode)
}

// carryOver is checkpoint for a caller that has the turn.
func (w *writer) carryOver(mode string) (done bool, err error) {
	err = translate(w.conn.Each(`PRAGMA wal_checkpoint(`+mode+`)`, func(row *sqlite.Row) error {
		done = row.ColumnInt(0) == 0
		return nil
	}))
	if errors.Is(err, errLocked) {
		return false, nil
	}
	return done, err
}

// errKeyUsed says that the history has a commit of a key already.
var errKeyUsed = errors.New("there is a commit of that key")

// propose judges p within a transaction and says whether it became a commit. If p is in the
// history already, the result shows it: p would become a commit of the same key, or none. Then s
// becomes the store's state after the commit.
func (l *Log) propose(ctx context.Context, s *storeRow, p *versionlog.Proposal, drafted *draft) (*versionlog.Commit, bool, error) {
	w := l.writer
	var c *versionlog.Commit
	var record []byte
	var err error
	if drafted != nil && reflect.DeepEqual(drafted.state, *s) {
		c, record = drafted.commit, drafted.record
	} else {
		c, record, err = l.build(ctx, w, s, p)
	}
	if err == nil && !c.Changes() { // heads have the contents
		if err := w.keepContents(s.num, p.Changes); err != nil {
			return nil, false, err
		}
	}
	if err == nil && c.Changes() {
		err = w.insert(s, c, record, p.Finished != nil)
		if err == nil { // not before: what a commit of that key brought may be erased since
			err = w.keepContents(s.num, p.Changes)
		}
		if err == nil {
			err = l.missing(ctx, s, c, p.Changes)
		}
		if err == nil {
			err = l.redact(ctx, s, c.Event.ErasedVersions())
		}
		if !errors.Is(err, errKeyUsed) {
			return c, true, err
		}
	}
	earlier, keyErr := (&records{source: w, store: s.num}).one(ctx, recordByKey, s.num, p.Key)
	if keyErr == nil && !p.Became(earlier) {
		keyErr = versionlog.ErrNotFound
	}
	if keyErr == nil {
		keyErr = l.dropStored(ctx, s, p.Changes)
	}
	if !errors.Is(keyErr, versionlog.ErrNotFound) {
		return earlier, false, keyErr
	}
	return c, false, err
}

// keepContents stores the contents that come with changes, also of those that
// are the case already: the bytes may be damaged.
func (w *writer) keepContents(store int64, changes []versionlog.Change) error {
	for i := range changes {
		if c := &changes[i]; c.Content != nil {
			if err := w.keep(store, c.Digest, c.Content); err != nil {
				return err
			}
		}
	}
	return nil
}

// keep stores a blob, over a damaged copy too.
func (w *writer) keep(store int64, d versionlog.Digest, data []byte) error {
	return w.run(keepBlob, store, d[:], data)
}

// insert appends a commit, which another log has made if it is imported.
func (w *writer) insert(s *storeRow, c *versionlog.Commit, record []byte, imported bool) error {
	seq, micros := int64(c.Seq), c.Time.UnixMicro()
	// First: nothing of c is in when it turns out to be in already.
	row := []any{s.num, seq, c.Key, micros, string(c.Actor.Kind), c.Actor.ID, c.Session, c.Message, record}
	err := w.run(insertCommit, row...)
	if isConstraint(err) && imported {
		if err = w.run(setKeyAside, s.num, c.Key); err == nil {
			err = w.run(insertCommit, row...)
		}
	}
	if isConstraint(err) {
		return fmt.Errorf("%w: %w", errKeyUsed, err)
	}
	if err != nil {
		return err
	}
	early, err := w.takeEarly(s, c)
	if err != nil {
		return err
	}
	for i := range c.Versions {
		v := &c.Versions[i]
		if !early {
			if err := w.insertVersion(s.num, i, v); err != nil {
				return err
			}
		}
		if err := w.takePlace(s.num, i, v, imported); err != nil {
			return err
		}
	}
	if c.Event != nil {
		s.Store = s.After(c, imported)
		if err := w.updateStore(s); err != nil {
			return err
		}
	}
	s.tip, s.counted = s.tip.After(c), c.Seq
	totals := &s.tip.Totals
	return w.run(setTip, seq, blobOf(c.Digest), micros, totals.Bytes, totals.Memories, totals.InHour, s.num)
}

// isEarly reports whether the early versions of a store are those of a commit.
func isEarly(c *versionlog.Commit, s *storeRow) bool {
	return len(c.Versions) > 0 && s.early == c.Versions[0].ID
}

// dropEarly removes the early versions of a store. Their sequence number may have become that of an event,
// of an older process that has the database open and knows of no early versions.
func (w *writer) dropEarly(s *storeRow) error {
	seq, _, err := versionlog.LocateVersion(s.early)
	if err != nil {
		return fmt.Errorf("%w: the note of early versions: %w", versionlog.ErrCorrupt, err)
	}
	return errors.Join(w.run(dropEarly, s.num, int64(seq)), w.run(dropEarlyNote, s.num))
}

// takeEarly leaves no version of a store early, within the transaction of its next commit. It reports
// whether those of the commit were, which stay.
func (w *writer) takeEarly(s *storeRow, c *versionlog.Commit) (own bool, err error) {
	if s.early == "" {
		return false, nil
	}
	if own = isEarly(c, s); own {
		err = w.run(dropEarlyNote, s.num)
	} else {
		err = w.dropEarly(s)
	}
	s.early = ""
	return own, err
}

func (w *writer) insertVersion(store int64, ordinal int, v *versionlog.Version) error {
	return w.run(insertVersion, store, int64(v.Seq), ordinal, v.ID, v.MemoryID, v.Parent, string(v.Op), v.Path, v.From, blobOf(v.Digest), v.Size, v.Spelling)
}

// takePlace notes that a version is the last that took place where it came to, and where it left.
func (w *writer) takePlace(store int64, ordinal int, v *versionlog.Version, imported bool) error {
	seq := int64(v.Seq)
	if v.Redacted() {
		return w.vacate(store, v.Parent)
	}
	if v.Op == versionlog.OpRenamed {
		if err := w.run(setPath, store, v.From, seq, ordinal, 0); err != nil {
			return err
		}
	}
	if v.Op == versionlog.OpModified && !imported { // where an erased version may be between
		return w.run(stayAtPath, store, v.Path, seq, ordinal)
	}
	return w.run(setPath, store, v.Path, seq, ordinal, boolOf(v.Live()))
}

// vacate notes that the memory of a version is no longer where that has left it.
func (w *writer) vacate(store int64, versionID string) error {
	seq, ordinal, err := versionlog.LocateVersion(versionID)
	if err != nil { // it is the first of its memory
		return nil
	}
	return w.run(leavePath, store, int64(seq), ordinal)
}

// createStore adds a row.
func (w *writer) createStore(s *versionlog.Store) error {
	metadata, policy, err := settings(s)
	if err != nil {
		return err
	}
	return w.run(insertStore, s.ID, s.Slug, s.Name, s.Description, s.Limits.MaxMemoryBytes, string(s.Limits.Content),
		microsOf(s.CreatedAt), microsOf(s.ArchivedAt), s.Quota.Bytes, s.Quota.Memories, s.Quota.PerHour,
		metadata, microsOf(s.UpdatedAt), int64(max(s.Epoch, 1)), boolOf(s.Replica), policy)
}

// updateStore writes what events change of a row.
func (w *writer) updateStore(s *storeRow) error {
	metadata, policy, err := settings(&s.Store)
	if err != nil {
		return err
	}
	return w.run(updateStore, s.Name, s.Description, s.Limits.MaxMemoryBytes, string(s.Limits.Content), microsOf(s.CreatedAt),
		microsOf(s.ArchivedAt), s.Quota.Bytes, s.Quota.Memories, s.Quota.PerHour,
		metadata, microsOf(s.UpdatedAt), int64(s.Epoch), boolOf(s.Replica), policy, s.num)
}

// view is what Build sees of a store, within a transaction.
type view struct {
	ctx    context.Context // of the one call that the view serves
	source source
	store  int64
	recent func(path string) (head *versionlog.Version, known bool) // nil: the database knows
}

// Head is part of versionlog.View. Reading one that this Log has written lately takes a fifteenth
// of a commit.
func (v *view) Head(path string) (*versionlog.Version, error) {
	if v.recent != nil {
		if head, known := v.recent(path); known {
			return head, nil
		}
	}
	return v.one(headAt, path)
}

// Version is part of versionlog.VersionView.
func (v *view) Version(id string) (*versionlog.Version, error) {
	seq, ordinal, err := versionlog.LocateVersion(id)
	if err != nil {
		return nil, nil
	}
	found, err := queryOne(v.ctx, v.source, versionByID, scanVersion, v.store, int64(seq), ordinal, id)
	if errors.Is(err, versionlog.ErrNotFound) {
		return nil, nil
	}
	return &found, err
}

func (v *view) Newest(memoryID string) (*versionlog.Version, error) { return v.one(newestOf, memoryID) }

func (v *view) one(text, of string) (*versionlog.Version, error) {
	found, err := queryOne(v.ctx, v.source, text, scanVersion, v.store, of)
	if errors.Is(err, versionlog.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &found, nil
}

func (v *view) Below(path string) iter.Seq2[versionlog.Version, error] {
	return headsNow(v.source, v.store).below(v.ctx, path, "")
}
