package dynamolog

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"mneme/internal/awsconf"
	"mneme/versionlog"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// A redaction goes through these states, which META and the ERASE row tell of:
//
//  1. Its transaction commits the event, and with it "redacted", its sequence number, in
//     META and an ERASE row with the digests of the erased contents. "erased", in META, is
//     the redaction before: until they are the same, no commit is made to the store, and no
//     follower gets the event.
//  2. The rows are erased: what a version still owes is paid; then the rows of the paths
//     that it left, its MEM row, and, last, its record in the LOG row, from which all this
//     is told. So it may be done again at any time, and by many processes at once: each
//     step has a condition, or is the same whoever makes it.
//  3. The bucket is purged, see purge.go, as far as the credentials may.
//  4. "erased" becomes "redacted". Whoever commits then has seen the event, and makes sure
//     that the contents which its commit needs are there, see contentsThere.
//  5. The ERASE row goes, once the bucket is purged: in state 3, or later, by a process that
//     may.
//
// A process that can write finishes what it comes upon. States 1, 2 and 4 take no more than
// commits do, so that those who may not delete from the bucket are not held up. Erasing in
// the transaction of the event was dropped: it takes 100 rows, and an event names 500
// versions.

// eraseSort is the sort key of the ERASE row of a redaction.
func eraseSort(seq uint64) string { return fmt.Sprintf("%s%020d", erasePrefix, seq) }

// eraseItem is the ERASE row of a redaction of versions, which are given as they were.
func eraseItem(storeID string, seq uint64, was []versionlog.Version) item {
	i := key(storeID, eraseSort(seq))
	digests := []types.AttributeValue{}
	seen := map[versionlog.Digest]bool{{}: true}
	for v := range slices.Values(was) {
		if !seen[v.Digest] {
			seen[v.Digest] = true
			digests = append(digests, digestOf(v.Digest))
		}
	}
	i["seq"], i["digests"] = number(seq), &types.AttributeValueMemberL{Value: digests}
	return i
}

// finishErasing makes sure that no redaction is in the states 1 to 3.
func (s *store) finishErasing(ctx context.Context) error {
	select {
	case s.erasing <- struct{}{}:
		defer func() { <-s.erasing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	m, err := s.log.table.meta(ctx, s.id)
	if err != nil || m.erased == m.redacted {
		return errors.Join(err, s.sawErased(m))
	}
	if s.log.readOnly {
		return versionlog.ErrReadOnly
	}
	c, err := s.log.commitAt(ctx, s.id, m.redacted)
	if err != nil {
		return err
	}
	if err := s.eraseRows(ctx, c); err != nil {
		return fmt.Errorf("erase versions that commit %d names: %w", c.Seq, err)
	}
	if err := s.purgeNotes(ctx); err != nil { // those who may try it again
		s.log.logger.Warn("not all that was erased is gone from the bucket", "store", s.id, "op", "erase", "err", err)
	}
	err = s.log.transact(ctx, types.TransactWriteItem{Update: &types.Update{
		TableName: &s.log.table.name, Key: key(s.id, metaSort), UpdateExpression: aws.String("SET #erased = :redacted"),
		ConditionExpression:       aws.String("#creation = :creation AND #redacted = :redacted"),
		ExpressionAttributeNames:  map[string]string{"#erased": "erased", "#redacted": "redacted", "#creation": "creation"},
		ExpressionAttributeValues: item{":redacted": number(m.redacted), ":creation": text(m.creation)},
	}})
	if err != nil && !isConditionFailed(err) { // another process has, and another redaction is in
		return err
	}
	m.erased = m.redacted
	return s.sawErased(m)
}

// resumeErasing does what redactions of others, which may have ended, have left to do.
func (s *store) resumeErasing(ctx context.Context) error {
	s.mu.Lock()
	redacted := s.view != nil && s.view.meta.redacted > 0
	s.mu.Unlock()
	if !redacted {
		return nil
	}
	if err := s.finishErasing(ctx); err != nil {
		return err
	}
	select {
	case s.erasing <- struct{}{}:
		defer func() { <-s.erasing }()
		return s.purgeNotes(ctx)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// sawErased has the view know that all is erased that it knows of.
func (s *store) sawErased(m *meta) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m != nil && s.view != nil && s.view.meta.redacted == m.redacted {
		s.view.meta.erased = m.erased
	}
	return nil
}

// eraseRows erases the versions that a redaction names from the rows.
func (s *store) eraseRows(ctx context.Context, redaction *versionlog.Commit) error {
	e := &eraser{store: s, ids: map[string]bool{}}
	seqs := map[uint64]bool{}
	for _, id := range redaction.Event.ErasedVersions() {
		seq, _, err := versionlog.LocateVersion(id)
		if err != nil {
			return err
		}
		e.ids[id], seqs[seq] = true, true
	}
	for seq := range seqs {
		if err := e.erase(ctx, seq); err != nil {
			return fmt.Errorf("commit %d: %w", seq, err)
		}
	}
	return nil
}

// eraser erases the versions of one redaction.
type eraser struct {
	*store
	ids map[string]bool
}

// erase erases the versions of the LOG row that a commit is in.
func (e *eraser) erase(ctx context.Context, seq uint64) error {
	for attempt := range 10 {
		if err := backoff(ctx, attempt); err != nil {
			return err
		}
		row, commits, err := e.log.rowOf(ctx, e.id, seq)
		if err != nil {
			return err
		}
		erased, was := eraseFrom(commits, e.ids)
		if len(was) == 0 {
			return nil
		}
		if err := e.settleDebt(ctx, commits, row); err != nil {
			return err
		}
		if err := e.paths(ctx, was); err != nil {
			return err
		}
		if err := e.memories(ctx, erased); err != nil {
			return err
		}
		data, err := encodeRecords(erased)
		if err != nil {
			return err
		}
		err = e.log.transact(ctx, types.TransactWriteItem{Update: &types.Update{
			TableName: &e.log.table.name, Key: key(e.id, sortOf(row)), UpdateExpression: aws.String("SET #record = :new"),
			ConditionExpression:       aws.String("#record = :old"),
			ExpressionAttributeNames:  map[string]string{"#record": "record"},
			ExpressionAttributeValues: item{":new": bytesOf(data), ":old": row["record"]},
		}})
		if !isConditionFailed(err) {
			return err
		}
	}
	return errors.New("others change the record all the time; run it once more")
}

// eraseFrom returns commits without versions of ids, and those that they had, as they were.
func eraseFrom(commits []*versionlog.Commit, ids map[string]bool) (erased []*versionlog.Commit, was []versionlog.Version) {
	for _, c := range commits {
		of := c
		for i := range of.Versions {
			if v := &of.Versions[i]; ids[v.ID] && !v.Redacted() {
				was = append(was, *v)
				c = c.Erase(v.ID)
			}
		}
		erased = append(erased, c)
	}
	return erased, was
}

// encodeRecords returns the records of commits, put together.
func encodeRecords(commits []*versionlog.Commit) ([]byte, error) {
	records := make([][]byte, len(commits))
	for i, c := range commits {
		var err error
		if records[i], err = versionlog.EncodeRecord(c); err != nil {
			return nil, err
		}
	}
	return joinRecords(records), nil
}

// rowOf returns the LOG row that has a commit, and its commits.
func (l *Log) rowOf(ctx context.Context, storeID string, seq uint64) (item, []*versionlog.Commit, error) {
	rows, _, err := l.table.page(ctx, between{partition: storeID, from: logSort(seq), to: logSort(maxSeq), limit: 1}, nil)
	if err != nil {
		return nil, nil, err
	}
	if len(rows) == 0 {
		return nil, nil, l.missing(ctx, storeID, seq)
	}
	commits, err := commitsOf(rows[0])
	return rows[0], commits, err
}

// settleDebt pays what the commits of a LOG row owe. Afterwards nobody does any more, see
// behind: it would be as before the versions were erased.
func (e *eraser) settleDebt(ctx context.Context, commits []*versionlog.Commit, logRow item) error {
	of := spanOf(commits)
	out, err := e.log.table.get(ctx, e.id, outSort(of), false)
	if err != nil || out == nil {
		return err
	}
	r := row{item: logRow}
	failed, err := e.pay([]debt{{of, outSort(of), commits, r.bytes("record")}})
	if len(failed) == 0 {
		err = nil
	}
	return errors.Join(err, e.stoppedBy())
}

// paths has the rows of paths that tell of versions, as what left a path last, tell of the
// newest other version that took place there.
func (e *eraser) paths(ctx context.Context, was []versionlog.Version) error {
	for _, v := range was {
		for _, path := range []string{v.Path, v.From} {
			if path == "" {
				continue
			}
			left, err := e.log.table.get(ctx, e.id, leftSort(path), false)
			if err != nil {
				return err
			}
			if r := (row{item: left}); left == nil || r.text("id") != v.ID {
				continue
			}
			if err := e.leave(ctx, path, &v); err != nil {
				return err
			}
		}
	}
	return nil
}

// leave replaces a version in the row of the path that it left.
func (e *eraser) leave(ctx context.Context, path string, v *versionlog.Version) error {
	names, values := map[string]string{"#id": "id"}, item{":id": text(v.ID)}
	change := types.TransactWriteItem{Delete: &types.Delete{
		TableName: &e.log.table.name, Key: key(e.id, leftSort(path)), ConditionExpression: aws.String("#id = :id"),
		ExpressionAttributeNames: names, ExpressionAttributeValues: values,
	}}
	for other, err := range e.log.versionsAt(ctx, e.id, path, v) {
		if err != nil {
			return err
		}
		if e.ids[other.ID] {
			continue
		}
		change = put(e.log.table.name, versionItem(e.id, leftSort(path), &other))
		change.Put.ConditionExpression = aws.String("#id = :id")
		change.Put.ExpressionAttributeNames, change.Put.ExpressionAttributeValues = names, values
		break
	}
	err := e.log.transact(ctx, change)
	if isConditionFailed(err) { // something newer left, or another process was faster
		return nil
	}
	return err
}

// memories writes the MEM rows of the versions that commits have erased.
func (e *eraser) memories(ctx context.Context, commits []*versionlog.Commit) error {
	var rows []types.WriteRequest
	for _, c := range commits {
		for i := range c.Versions {
			if v := &c.Versions[i]; v.Redacted() {
				rows = append(rows, putRequest(versionItem(e.id, memSort(v, i), v)))
			}
		}
	}
	return e.log.table.write(ctx, rows)
}

// contentsThere makes sure that a proposal's contents are there, in a store with erased
// versions: one may have been erased since it was stored. It returns the newest redaction
// that it has seen; a commit upon it cannot be made once there is another. Errors: errGone,
// errBeingErased.
func (s *store) contentsThere(ctx context.Context, p *versionlog.Proposal) (redacted uint64, err error) {
	s.mu.Lock()
	v := s.view
	if v == nil || v.meta.redacted == 0 {
		s.mu.Unlock()
		return 0, nil
	}
	redacted = v.meta.redacted
	pending := v.meta.erased != redacted
	s.mu.Unlock()
	if pending {
		if err := s.finishErasing(ctx); err != nil {
			return 0, awsconf.Explain(err)
		}
	}
	if s.log.blobs == nil {
		return redacted, nil
	}
	wanted := map[versionlog.Digest]bool{}
	for i := range p.Changes {
		if c := &p.Changes[i]; c.Action == versionlog.Put {
			wanted[c.Digest] = true
		}
	}
	if len(wanted) == 0 {
		return redacted, nil
	}
	notes, err := s.notes(ctx)
	if err != nil {
		return 0, err
	}
	for _, n := range notes {
		for _, d := range n.digests {
			if wanted[d] && !n.gone {
				return 0, errBeingErased
			}
		}
	}
	there, err := inParallel(wanted, func(d versionlog.Digest, _ bool) (bool, error) { return s.log.blobs(s.id).Has(ctx, d) })
	for _, has := range there {
		if err == nil && !has {
			err = errGone
		}
	}
	return redacted, err
}

// toErase returns the ids of the versions that unfinished redactions erase.
func (l *Log) toErase(ctx context.Context, storeID string) (map[string]bool, error) {
	notes, err := l.store(storeID).notes(ctx)
	if err != nil {
		return nil, err
	}
	ids := map[string]bool{}
	for _, n := range notes {
		c, err := l.commitAt(ctx, storeID, n.seq)
		if err != nil {
			return nil, err
		}
		for _, id := range c.Event.ErasedVersions() {
			ids[id] = true
		}
	}
	return ids, nil
}
