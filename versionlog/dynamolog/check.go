package dynamolog

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"mneme/finding"
	"mneme/internal/awsconf"
	"mneme/versionlog"
)

// Problem is one difference between what the table and the bucket hold of a
// store.
type Problem struct {
	Finding finding.Kind
	Subject string // "record 12", "row /todo.md"
	What    string // what is wrong with it
	Do      string // what a person can do about it
}

const (
	doRebuild = "rebuild the index"
	doSweep   = "any process that writes to the store mends it, within a minute; if none can, rebuild the index"
	doRestore = "the table still has it, and puts it back when you rebuild the index"
	doPurge   = "redact them once more, in one command, by their ids, which the event has, with credentials that may delete from the bucket, and old versions of objects"
	doMend    = "if the table does not have it, restore the object; if it does, rebuild the index"
	doCatchUp = "if the table was restored to an earlier time, it is brought up to them, if they follow, when you rebuild the index"
)

// Check compares the records of a store in the bucket with the rows in the
// table: every commit up to the tip at the call must be in both and the same,
// and every other row be the one that follows from the records. It calls report
// for each difference. It changes nothing. ErrNotFound when the table has no
// such store; other errors say that it could not look.
func Check(ctx context.Context, db database, tableName string, s3 objects, bucket, storeID string, report func(Problem)) error {
	l := tools(ctx, db, tableName, s3, bucket)
	defer l.endLife()
	if err := l.check(ctx, storeID, report); err != nil {
		return fmt.Errorf("compare table and bucket: %w", awsconf.Explain(err))
	}
	return nil
}

// checker is one run of Check.
type checker struct {
	log    *Log
	meta   *meta
	report func(Problem)
	owed   map[uint64]bool // commits that an OUT row tells of; 0 is the description
	keys   map[string]bool // of those
	wanted map[string][sha256.Size]byte
	later  map[string]uint64 // rows of commits that META did not tell of, by their sequence numbers
}

func (l *Log) check(ctx context.Context, storeID string, report func(Problem)) error {
	m, err := l.table.meta(ctx, storeID)
	if err != nil {
		return err
	}
	c := &checker{log: l, meta: m, report: report, owed: map[uint64]bool{}, keys: map[string]bool{}, wanted: map[string][sha256.Size]byte{}, later: map[string]uint64{}}
	whole, err := c.records(ctx)
	if err != nil {
		return err
	}
	if err := c.description(ctx); err != nil {
		return err
	}
	if err := c.names(ctx); err != nil || !whole {
		return err
	}
	return c.rows(ctx)
}

// records looks for a record of every commit, and reports whether all are
// there, so that the rows can be told from them.
func (c *checker) records(ctx context.Context) (whole bool, err error) {
	for i, err := range c.log.table.below(ctx, c.meta.ID, outPrefix) {
		if err != nil {
			return false, err
		}
		o, err := owedOf(i)
		if err != nil {
			return false, err
		}
		if !o.paid.IsZero() {
			continue
		}
		for seq := o.first; seq <= o.last; seq++ {
			c.owed[seq] = true
		}
		for _, k := range o.keys {
			c.keys[k] = true
		}
	}
	spans, err := c.log.recordSpans(ctx, c.meta.ID)
	if err != nil {
		return false, err
	}
	there := map[uint64]bool{}
	for _, of := range spans {
		for seq := of.first; seq <= min(of.last, c.meta.tip.Seq); seq++ {
			there[seq] = true
		}
	}
	if err := c.beyond(ctx, spans); err != nil {
		return false, err
	}
	whole = true
	for seq := uint64(1); seq <= c.meta.tip.Seq; seq++ {
		if there[seq] {
			if c.owed[seq] {
				c.report(Problem{finding.BucketPaid, subject(seq), "is in the bucket, but the table says that it is not yet", doSweep})
			}
			continue
		}
		whole = false
		kind, what, do := finding.BucketMissing, "is missing in the bucket", doRestore
		if c.owed[seq] {
			kind, what, do = finding.BucketLate, "is not in the bucket yet", doSweep
		}
		c.report(Problem{kind, subject(seq), what, do})
	}
	return whole, nil
}

// beyond looks for records that META does not tell of. That of a commit made
// meanwhile is there after META is.
func (c *checker) beyond(ctx context.Context, spans []span) error {
	newest := map[string]uint64{}
	for _, of := range spans {
		newest["bucket"] = max(newest["bucket"], of.last)
	}
	for i, err := range c.log.table.rows(ctx, between{partition: c.meta.ID, from: logSort(c.meta.tip.Seq + 1), to: logSort(maxSeq)}) {
		if err != nil {
			return err
		}
		var seq uint64
		_, _ = fmt.Sscanf(sortOf(i), logPrefix+"%d", &seq)
		newest["table"] = max(newest["table"], seq)
	}
	now, err := c.log.table.meta(ctx, c.meta.ID)
	if err != nil {
		return err
	}
	for _, where := range []string{"bucket", "table"} {
		if seq := newest[where]; seq > now.tip.Seq {
			c.report(Problem{finding.BucketBeyond, subject(seq), fmt.Sprintf("is in the %s, but META ends with commit %d", where, now.tip.Seq), doCatchUp})
		}
	}
	return nil
}

func subject(seq uint64) string { return fmt.Sprintf("record %d", seq) }

// description compares META with the store's description.
func (c *checker) description(ctx context.Context) error {
	data, err := c.log.records.get(ctx, descriptionKey(c.meta.ID))
	do := doRebuild
	if c.owed[0] {
		do = doSweep
	}
	if errors.Is(err, versionlog.ErrNotFound) {
		c.report(Problem{finding.BucketDescription, "store.json", "is missing in the bucket", do})
		return nil
	}
	if err != nil {
		return err
	}
	want, err := c.meta.describe()
	if err == nil && string(want) != string(data) {
		c.report(Problem{finding.BucketDescription, "store.json", "does not describe the store as the table does", do})
	}
	return err
}

// names looks for the rows by which the store is found. A credential for this store only
// may not read the list of all.
func (c *checker) names(ctx context.Context) error {
	for _, r := range []ref{{slugPrefix + c.meta.Slug, slugSort}, {storesPartition, c.meta.Slug}} {
		i, err := c.log.table.get(ctx, r.partition, r.sort, false)
		if r.partition == storesPartition && errors.Is(awsconf.Explain(err), fs.ErrPermission) {
			continue
		}
		if err != nil {
			return err
		}
		if found := (&row{item: i}).text("id"); found != c.meta.ID {
			c.report(Problem{finding.TableName, "row " + r.partition + " " + r.sort, "does not name the store", doRebuild})
		}
	}
	return nil
}

// rows compares every row of the store with what follows from the records.
func (c *checker) rows(ctx context.Context) error {
	points, err := shared{c.log.records, c.meta.ID}.points(ctx)
	if err != nil {
		return err
	}
	erased, unpurged, err := c.erased(ctx)
	if err != nil {
		return err
	}
	r := newReplay(erased, func(i item) error {
		if isNote(sortOf(i)) {
			return nil
		}
		c.wanted[sortOf(i)] = sumOf(i)
		if strings.HasPrefix(sortOf(i), logPrefix) {
			c.text(i)
		}
		if expired(i) {
			delete(c.wanted, sortOf(i))
		}
		return nil
	})
	r.after = func() error {
		if !points[r.meta.tip.Seq] || r.meta.tip.Seq < c.meta.redacted { // which is not read, and a purge removes it
			return nil
		}
		return c.snapshot(ctx, r)
	}
	r, err = c.log.replayInto(ctx, r, c.meta.ID, c.meta.tip.Seq, func(int, int) {})
	if errors.Is(err, versionlog.ErrNotFound) { // as reported
		return nil
	}
	if errors.Is(err, versionlog.ErrCorrupt) {
		c.report(Problem{finding.BucketDamaged, "the records in the bucket", err.Error(), doMend})
		return nil
	}
	if err != nil {
		return err
	}
	for seq := range r.unpurged {
		unpurged[seq] = true
	}
	for _, seq := range slices.Sorted(maps.Keys(unpurged)) {
		c.report(Problem{finding.BucketErased, subject(seq), "erases versions, and not all of them is gone from the bucket", doPurge})
	}
	switch now := c.meta.tip; {
	case r.meta.tip.Digest != now.Digest || !r.meta.tip.Time.Equal(now.Time):
		c.report(Problem{finding.TableTip, "row " + metaSort, "names another commit as the newest than the records do, or another time of it", doRebuild})
	case r.meta.tip.Totals != now.Totals && !c.meta.uncounted:
		c.report(Problem{finding.TableTotals, "row " + metaSort, fmt.Sprintf("counts %+v, and the records %+v", now.Totals, r.meta.tip.Totals), doRebuild})
	}
	if wrong := r.told.Contradicts(&c.meta.Store); wrong != nil && r.meta.tip.Digest == c.meta.tip.Digest {
		c.report(Problem{finding.TableDescription, "row " + metaSort, "is not what follows from the records: " + strings.Join(wrong, ", "), doRebuild})
	}
	newer := map[string]bool{} // paths that commits since have changed
	for i, err := range c.log.table.rows(ctx, between{partition: c.meta.ID, from: "\x00", to: "\U0010ffff"}) {
		if err != nil {
			return err
		}
		c.row(i, newer)
	}
	if err := c.ahead(ctx); err != nil {
		return err
	}
	for _, sort := range slices.Sorted(maps.Keys(c.wanted)) {
		path, isLeft := strings.CutPrefix(sort, leftPrefix)
		if isLeft {
			path = "/" + path
		}
		switch {
		case newer[path]:
		case c.late(sort):
			c.report(Problem{finding.TableLate, "row " + sort, "is not there yet", doSweep})
		default:
			c.report(Problem{finding.TableMissing, "row " + sort, "is missing", doRebuild})
		}
	}
	return nil
}

// ahead looks for rows that say that they are of a commit which is not made yet. That of LOG
// is reported by beyond.
func (c *checker) ahead(ctx context.Context) error {
	if len(c.later) == 0 {
		return nil
	}
	now, err := c.log.table.meta(ctx, c.meta.ID)
	if err != nil {
		return err
	}
	for _, sort := range slices.Sorted(maps.Keys(c.later)) {
		if seq := c.later[sort]; seq > now.tip.Seq && !strings.HasPrefix(sort, logPrefix) {
			c.report(Problem{finding.TableOther, "row " + sort, fmt.Sprintf("is of commit %d, but the newest is %d", seq, now.tip.Seq), doRebuild})
		}
	}
	return nil
}

// erased returns the events that have erased versions, by these, and those events of which an
// ERASE row says that the bucket is not purged.
func (c *checker) erased(ctx context.Context) (erased map[string]uint64, unpurged map[uint64]bool, err error) {
	erased, unpurged = map[string]uint64{}, map[uint64]bool{}
	if c.meta.redacted == 0 {
		return erased, unpurged, nil
	}
	for one, err := range c.log.commitRows(ctx, c.meta.ID, nil, 0, maxSeq) {
		if err != nil {
			return nil, nil, err
		}
		for _, id := range one.Event.ErasedVersions() {
			erased[id] = one.Seq
		}
	}
	seqs, err := c.log.unpurged(ctx, c.meta.ID)
	for _, seq := range seqs {
		unpurged[seq] = true
	}
	return erased, unpurged, err
}

// snapshot compares the snapshot of a commit with what the records up to it say.
func (c *checker) snapshot(ctx context.Context, r *replay) error {
	subject := fmt.Sprintf("snapshot %d", r.meta.tip.Seq)
	saved, err := shared{c.log.records, c.meta.ID}.open(ctx, r.meta.tip.Seq)
	there := map[string]versionlog.Version{}
	if err == nil {
		if err = saved.Check(ctx); err == nil {
			for v := range saved.Heads(ctx) {
				there[v.Path] = v
			}
		}
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		c.report(Problem{finding.BucketSnapshot, subject, err.Error(), doRebuild})
	case saved.Tip.Digest != r.meta.tip.Digest || !maps.EqualFunc(there, r.heads, func(v versionlog.Version, want *versionlog.Version) bool { return v == *want }):
		c.report(Problem{finding.BucketSnapshot, subject, "is not what follows from the records", doRebuild})
	}
	return nil
}

// text compares the text of the records in the bucket, of which a LOG row would be made,
// with the one that their commits have.
func (c *checker) text(i item) {
	r := row{item: i}
	data := r.bytes("record")
	commits, err := decodeRecords(data)
	if err == nil {
		err = checkText(commits, data)
	}
	if err != nil {
		c.report(Problem{finding.BucketText, "the records in the bucket", err.Error(), doMend})
	}
}

// late reports whether a commit still owes the row of a version or of a key.
func (c *checker) late(sort string) bool {
	if k, isKey := strings.CutPrefix(sort, keyPrefix); isKey {
		return c.keys[k]
	}
	if !strings.HasPrefix(sort, memPrefix) {
		return false
	}
	for seq := range c.owed {
		if strings.Contains(sort, fmt.Sprintf("#%020d#", seq)) {
			return true
		}
	}
	return false
}

// row compares one row of the table.
func (c *checker) row(i item, newer map[string]bool) {
	sort := sortOf(i)
	if sort == metaSort || strings.HasPrefix(sort, outPrefix) || isNote(sort) || expired(i) {
		return
	}
	r := row{item: i}
	seq := uint64(r.int("seq"))
	if strings.HasPrefix(sort, logPrefix) {
		_, _ = fmt.Sscanf(sort, logPrefix+"%d", &seq)
	}
	if seq > c.meta.tip.Seq {
		if path := r.text("path"); path != "" {
			newer[path] = true
		}
		if path, isLeft := strings.CutPrefix(sort, leftPrefix); isLeft {
			newer["/"+path] = true
		}
		newer[sort], c.later[sort] = true, seq
		return
	}
	want, expected := c.wanted[sort]
	delete(c.wanted, sort)
	switch {
	case !expected:
		c.report(Problem{finding.TableExtra, "row " + sort, "follows from no record", doRebuild})
	case want != sumOf(i):
		c.report(Problem{finding.TableOther, "row " + sort, "is not what follows from the records", doRebuild})
	}
}

// sumOf is the same for rows that are the same.
func sumOf(i item) [sha256.Size]byte {
	data, _ := json.Marshal(i) // sorts the attributes; strings, numbers and bytes cannot fail
	return sha256.Sum256(data)
}
