package dynamolog

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"mneme/internal/awsconf"
	"mneme/internal/objectversions"
	"mneme/versionlog"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// A purge removes erased versions from the bucket. A person makes it, with credentials that may
// delete, and names the versions. Credentials that write rows can delete nothing from the
// bucket, and must not be able to make a purge delete for them. So a purge
//
//  1. removes only versions that are named and that an event has erased, and reports the other
//     versions of the events: a process that can write can name in an event versions that
//     others want to keep;
//  2. compares every record in the bucket with that in the table and with the one before it. It
//     touches nothing if they are not one history, or if one of the named versions is current
//     by the records in the bucket: rows could be written that say otherwise;
//  3. reads the versions to erase from the records in the bucket, of the event and of the
//     versions, and not from rows. Once a record is rewritten, its earlier versions, as far as
//     the bucket keeps them, still have that data;
//  4. deletes the contents that no version has any longer, neither in the bucket nor in the
//     table, see condemned; then the snapshots; and rewrites the records last, since they list
//     the work to do. If old versions of contents are left, or may be, those of records stay
//     for the same reason. A rebuild also sees that a record still has an erased version, and
//     makes the ERASE row again;
//  5. removes the ERASE row of an event if each of its versions was named and nothing is left.

// Purge is one of the log's Capabilities.
func (l *Log) Purge(ctx context.Context, storeID string, versions []string) ([]versionlog.Purged, error) {
	if l.readOnly {
		return nil, versionlog.ErrReadOnly
	}
	p := &purge{store: l.store(storeID), erased: map[string]uint64{}, spans: map[span]logRow{}}
	err := p.run(ctx, versions)
	return p.places, awsconf.Explain(err)
}

// purge is one run.
type purge struct {
	*store
	table  *chain
	events []uint64          // that are finished
	erased map[string]uint64 // versions that these name, by their ids
	spans  map[span]logRow   // LOG rows of these versions
	// waiting are versions that are not named, of events with an ERASE row.
	waiting map[string]bool

	places []versionlog.Purged
	left   bool // something is
}

// note tells of a place.
func (p *purge) note(place string, err error) {
	one := versionlog.Purged{Place: place}
	if err = awsconf.Explain(err); err != nil {
		one.Why = err.Error()
		p.left = true
	} else {
		one.At = p.log.clock.Now().UTC()
	}
	p.places = append(p.places, one)
}

func (p *purge) run(ctx context.Context, versions []string) error {
	if err := p.finishErasing(ctx); err != nil {
		return err
	}
	unpurged, err := p.log.unpurged(ctx, p.id)
	if err != nil || len(unpurged)+len(versions) == 0 {
		return err
	}
	named := map[string]bool{}
	for _, id := range versions {
		named[id] = true
	}
	if p.table, err = p.readTable(ctx, named); err != nil {
		return err
	}
	p.choose(named)
	p.table.need(p.erased)
	p.waiting = map[string]bool{}
	for _, seq := range unpurged {
		for _, id := range p.unnamed(seq) {
			p.waiting[id] = true
		}
	}
	if len(p.events) > 0 {
		if err := p.finish(ctx); err != nil {
			return err
		}
	}
	for _, seq := range unpurged {
		if rest := p.unnamed(seq); len(rest) > 0 {
			p.note(fmt.Sprintf("what commit %d erased, in the bucket", seq), leftOf(rest))
		}
	}
	return nil
}

// leftOf is the error of versions that were not named.
func leftOf(rest []string) error {
	const some = 8
	told := make([]string, 0, some)
	for _, id := range rest[:min(len(rest), some)] {
		told = append(told, fmt.Sprintf("%.64q", id))
	}
	return fmt.Errorf("%d of its versions were not named; to have them removed, redact all versions of that commit once more, in one command, such as %s", len(rest), strings.Join(told, " "))
}

// unnamed returns the versions that an event names and the caller does not.
func (p *purge) unnamed(event uint64) (rest []string) {
	for _, id := range p.table.events[event] {
		if !has(p.erased, id) {
			rest = append(rest, id)
		}
	}
	return rest
}

// choose chooses the versions that are named and that an event has erased, and these events.
func (p *purge) choose(named map[string]bool) {
	for _, seq := range slices.Sorted(maps.Keys(p.table.events)) {
		chosen := false
		for _, id := range p.table.events[seq] {
			if named[id] {
				p.erased[id], chosen = seq, true
			}
		}
		if chosen {
			p.events = append(p.events, seq)
		}
	}
}

// finish purges the bucket of the chosen events.
func (p *purge) finish(ctx context.Context) error {
	erased := map[string]bool{}
	for id := range p.erased {
		erased[id] = true
	}
	bucket, err := p.readBucket(ctx, p.table, erased)
	if err != nil {
		return err
	}
	for _, seq := range p.events { // which the table says
		if !slices.Equal(bucket.events[seq], p.table.events[seq]) {
			return fmt.Errorf("%w: commit %d erases other versions in the bucket than in the table", ErrIndex, seq)
		}
	}
	for _, id := range bucket.current {
		if has(p.erased, id) {
			return fmt.Errorf("%w: commit %d erases version %.64q, which is the current one of its memory in the bucket", ErrIndex, p.erased[id], id)
		}
	}
	for id := range p.erased {
		seq, _, err := versionlog.LocateVersion(id)
		if err != nil {
			return err
		}
		one, err := p.log.rowOf(ctx, p.id, seq)
		if err != nil {
			return err
		}
		p.spans[spanOf(one.commits)] = one
	}
	contents, err := p.digests(ctx)
	old := err
	if err != nil && !errors.Is(err, objectversions.ErrLeft) {
		return err
	}
	maps.DeleteFunc(contents, func(d versionlog.Digest, _ bool) bool { return p.table.needs[d] })
	if err := p.removeVoid(ctx); err != nil {
		return err
	}
	for _, seq := range p.events { // which another process may have written since
		c, err := p.log.commitAt(ctx, p.id, seq)
		if err == nil {
			err = p.eraseRows(ctx, c)
		}
		if err != nil {
			return err
		}
	}
	p.mu.Lock()
	p.sawRedactedLocked(slices.Max(p.events))
	p.mu.Unlock()
	p.forgetErased()
	p.note("rows of table "+p.log.table.name, nil)
	p.note("the copy of the heads in the cache of this user", nil)
	err = p.contents(ctx, contents)
	gone := err == nil || errors.Is(err, objectversions.ErrLeft)
	if err == nil { // others may exist that are not known
		err = old
	}
	p.note("contents in the bucket", err)
	p.note("snapshots in the bucket", p.snapshots(ctx))
	if gone {
		err = p.records(ctx, err)
	} else {
		err = errors.New("they stay until the contents are gone, for they tell which")
	}
	p.note("records in the bucket", err)
	if err := ctx.Err(); err != nil || p.left {
		return err
	}
	var rows []types.WriteRequest
	for _, seq := range p.events {
		if len(p.unnamed(seq)) == 0 {
			rows = append(rows, deleteRequest(p.id, eraseSort(seq)))
		}
	}
	return p.log.table.write(ctx, rows)
}

// digests returns the contents that the erased versions had, by the records in the bucket.
// Contents in old versions of the records may be missing: objectversions.ErrLeft.
func (p *purge) digests(ctx context.Context) (map[versionlog.Digest]bool, error) {
	found := map[versionlog.Digest]bool{}
	var old error
	texts, err := inParallel(p.spans, func(of span, _ logRow) ([][]byte, error) {
		name := recordKey(p.id, of)
		now, err := p.log.records.get(ctx, name)
		if err != nil {
			return nil, err
		}
		all := [][]byte{now}
		kept, err := p.log.records.kept(ctx, name)
		if errors.Is(err, objectversions.ErrLeft) {
			p.mu.Lock()
			old = err
			p.mu.Unlock()
			return all, nil
		}
		for _, data := range kept {
			if isSameHistory(p.id, of, data, now) { // else it never was the record
				all = append(all, data)
			}
		}
		return all, err
	})
	if err != nil {
		return nil, err
	}
	for _, all := range texts {
		for _, data := range all {
			commits, err := decodeRecords(data)
			if err != nil {
				return nil, err
			}
			_, was := eraseFrom(commits, p.erased)
			for _, v := range was {
				if !v.Digest.IsZero() {
					found[v.Digest] = true
				}
			}
		}
	}
	return found, old
}

// contents deletes contents.
func (p *purge) contents(ctx context.Context, digests map[versionlog.Digest]bool) error {
	if p.log.blobs == nil || len(digests) == 0 {
		return nil
	}
	_, err := p.removeContents(ctx, slices.Collect(maps.Keys(digests)), p.table.tip.Seq, func(int) {})
	if err != nil && !errors.Is(err, objectversions.ErrLeft) {
		return err
	}
	ahead, _, lookErr := p.goneAhead(ctx)
	if lookErr != nil {
		return lookErr
	}
	for i := range ahead {
		if ahead[i].has(digests) {
			return fmt.Errorf("another process is deleting them, or was killed or cut off while it was: run it once more behind %s", ahead[i].until.UTC().Format(time.RFC3339))
		}
	}
	return err
}

// removeContents deletes contents that no version needed up to a commit, except those that
// a later version needs, and returns the deleted ones. If some deletions are refused, it
// continues: objectversions.ErrLeft, or fs.ErrPermission.
func (s *store) removeContents(ctx context.Context, digests []versionlog.Digest, upTo uint64, progress func(done int)) (gone []versionlog.Digest, err error) {
	var refused error
	done := 0
	for some := range slices.Chunk(digests, condemnable) {
		c, err := s.condemn(ctx, slices.Clone(some))
		if err != nil {
			return gone, err
		}
		if err := c.keep(ctx, upTo); err != nil { // and nothing was sent
			return gone, errors.Join(err, c.release(ctx))
		}
		switch err := c.remove(ctx); {
		case err == nil, errors.Is(err, objectversions.ErrLeft):
			gone, refused = append(gone, c.digests...), errors.Join(refused, err)
		default:
			return gone, err
		}
		done += len(some)
		progress(done)
	}
	return gone, refused
}

// snapshots removes those in the bucket; the next commits make them again. It waits a while for
// another process that makes one.
func (p *purge) snapshots(ctx context.Context) error {
	began := time.Now()
	bounded, release, err := p.leaseSnapshots(ctx)
	for attempt := 1; errors.Is(err, errLeased) && time.Since(began) < p.log.leasing; attempt++ {
		if err := backoff(ctx, attempt); err != nil {
			return err
		}
		bounded, release, err = p.leaseSnapshots(ctx)
	}
	if err != nil {
		return err
	}
	ctx = bounded
	defer release()
	of := shared{p.log.records, p.id}
	if err := of.clear(ctx); err != nil {
		return err
	}
	return objectversions.Remove(ctx, p.log.records.s3, p.log.records.bucket, of.prefix())
}

// records erases the versions from the records in the bucket, and removes what these were,
// unless they still tell of old versions of contents that are left.
func (p *purge) records(ctx context.Context, oldContents error) error {
	left, err := inParallel(p.spans, func(of span, one logRow) (left error, err error) {
		err = p.record(ctx, of)
		if err == nil && p.tells(one) {
			return fmt.Errorf("%w; they tell of contents of versions that were not named", objectversions.ErrLeft), nil
		}
		if err == nil && oldContents == nil {
			err = objectversions.RemoveOne(ctx, p.log.records.s3, p.log.records.bucket, recordKey(p.id, of))
		}
		if isRefusal(err) {
			return err, nil
		}
		return nil, err
	})
	if err == nil {
		err = oldContents
	}
	for _, one := range left {
		if err == nil {
			err = one
		}
	}
	return err
}

// tells reports whether old versions of a record tell what contents a later purge deletes.
func (p *purge) tells(of logRow) bool {
	for _, c := range of.commits {
		for i := range c.Versions {
			if p.waiting[c.Versions[i].ID] {
				return true
			}
		}
	}
	return false
}

func (p *purge) record(ctx context.Context, of span) error {
	name := recordKey(p.id, of)
	for attempt := range 5 {
		if err := backoff(ctx, attempt); err != nil {
			return err
		}
		there, tag, err := p.log.records.getTagged(ctx, name)
		if err != nil {
			return err
		}
		commits, err := decodeRecords(there)
		if err != nil {
			return err
		}
		if erased, was := eraseFrom(commits, p.erased); len(was) > 0 {
			var data []byte
			if data, err = encodeRecords(erased); err == nil {
				err = p.log.records.uploadOver(ctx, name, data, tag)
			}
		}
		if codeOf(err) == "PreconditionFailed" {
			continue
		}
		return awsconf.Explain(err)
	}
	return fmt.Errorf("object %s: others change it all the time", name)
}
