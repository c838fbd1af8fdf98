package dynamolog

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"mneme/versionlog"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// A redaction goes through these states, which META and the ERASE row record:
//
//  1. Its transaction commits the event, and with it "redacted", its sequence number, in
//     META, and an ERASE row. "erased", in META, is the redaction before: until they are the
//     same, no commit is made to the store, and no follower gets the event.
//  2. The rows are erased: the debts of a version are paid; then the rows of the paths that
//     it left, its MEM row, and, last, its record in the LOG row, which lists the others. So
//     the erasure may be repeated at any time, and by many processes at once: each step has a
//     condition, or has the same result in every process.
//  3. "erased" becomes "redacted".
//  4. The ERASE row goes once the bucket is purged, see purge.go.
//
// A process that can write finishes states 1 to 3 where it finds them, since they need only
// the rights of commits. State 4 needs a person: a process that can write rows can write such
// events, and may not delete from the bucket. Erasing in the transaction of the event was
// dropped: a transaction has at most 100 rows, and an event names 500 versions. Purging the
// bucket before state 3 was dropped: no process could commit if the one that found the event
// may not delete.

// eraseSort is the sort key of the ERASE row of a redaction.
func eraseSort(seq uint64) string { return fmt.Sprintf("%s%020d", erasePrefix, seq) }

// eraseItem is the ERASE row of a redaction.
func eraseItem(storeID string, seq uint64) item {
	i := key(storeID, eraseSort(seq))
	i["seq"] = number(seq)
	return i
}

// unpurged returns the redactions whose ERASE rows are there, by their sequence numbers.
func (l *Log) unpurged(ctx context.Context, storeID string) (seqs []uint64, err error) {
	for i, err := range l.table.below(ctx, storeID, erasePrefix) {
		if err != nil {
			return nil, err
		}
		r := row{item: i}
		seqs = append(seqs, uint64(r.int("seq")))
		if r.err != nil {
			return nil, r.err
		}
	}
	return seqs, nil
}

// finishErasing makes sure that no redaction is in the states 1 or 2, and that the view knows.
func (s *store) finishErasing(ctx context.Context) error {
	select {
	case s.erasing <- struct{}{}:
		defer func() { <-s.erasing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	m, err := s.log.table.meta(ctx, s.id)
	if err != nil {
		return err
	}
	if m.erased == m.redacted {
		return s.sawErased(ctx, m)
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
	err = s.log.transact(ctx, types.TransactWriteItem{Update: &types.Update{
		TableName: &s.log.table.name, Key: key(s.id, metaSort), UpdateExpression: aws.String("SET #erased = :redacted"),
		ConditionExpression:       aws.String("#creation = :creation AND #redacted = :redacted"),
		ExpressionAttributeNames:  map[string]string{"#erased": "erased", "#redacted": "redacted", "#creation": "creation"},
		ExpressionAttributeValues: item{":redacted": number(m.redacted), ":creation": text(m.creation)},
	}})
	if isConditionFailed(err) { // another process has, and another redaction is in
		return s.catchUp(ctx)
	}
	if err != nil {
		return err
	}
	m.erased = m.redacted
	return s.sawErased(ctx, m)
}

// sawErased has the view know that all is erased that a META row tells of. One that was read
// before may have what was erased, and goes. A view that has another redaction as the newest,
// as that of a process that does not follow, catches up.
func (s *store) sawErased(ctx context.Context, m *meta) error {
	s.mu.Lock()
	other := s.view != nil && s.view.meta.redacted != m.redacted
	if s.view != nil && !other && s.view.meta.erased != m.erased {
		s.view = nil
	}
	s.mu.Unlock()
	if other {
		return s.catchUp(ctx)
	}
	return nil
}

// eraser erases the versions of one redaction.
type eraser struct {
	*store
	ids map[string]bool
}

// logRow is a LOG row, and its commits.
type logRow struct {
	item
	commits []*versionlog.Commit
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
	for attempt := range 10 {
		if err := backoff(ctx, attempt); err != nil {
			return err
		}
		rows, was, err := e.look(ctx, seqs)
		if err != nil || len(rows) == 0 {
			return err
		}
		if err := e.payDebts(ctx, rows); err != nil {
			return err
		}
		if err := e.paths(ctx, was); err != nil {
			return err
		}
		if err := e.records(ctx, rows); err != nil {
			return err
		}
	}
	return errors.New("others change the records all the time; run it once more")
}

// look returns the LOG rows that have versions to erase, and these versions.
func (e *eraser) look(ctx context.Context, seqs map[uint64]bool) (rows map[string]logRow, was []versionlog.Version, err error) {
	found, err := inParallel(seqs, func(seq uint64, _ bool) (logRow, error) { return e.log.rowOf(ctx, e.id, seq) })
	if err != nil {
		return nil, nil, err
	}
	rows = map[string]logRow{}
	for _, one := range found {
		sort := sortOf(one.item)
		if _, seen := rows[sort]; seen {
			continue
		}
		if _, has := eraseFrom(one.commits, e.ids); len(has) > 0 {
			rows[sort], was = one, append(was, has...)
			continue
		}
		remembered, err := e.remembered(ctx, one)
		if err != nil {
			return nil, nil, err
		}
		if len(remembered) > 0 {
			rows[sort], was = one, append(was, remembered...)
		}
	}
	return rows, was, nil
}

// remembered returns the versions that a LOG row does without and their MEM rows have, such
// as a process has written that slept since it read them.
func (e *eraser) remembered(ctx context.Context, of logRow) (was []versionlog.Version, err error) {
	var wanted []ref
	for _, c := range of.commits {
		for i := range c.Versions {
			if v := &c.Versions[i]; e.ids[v.ID] {
				wanted = append(wanted, ref{e.id, memSort(v, i)})
			}
		}
	}
	found, err := e.log.table.getAll(ctx, wanted)
	if err != nil {
		return nil, err
	}
	for _, i := range found {
		v, err := versionOf(i)
		if err != nil {
			return nil, err
		}
		if !v.Redacted() {
			was = append(was, v)
		}
	}
	return was, nil
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

// rowOf returns the LOG row that has a commit.
func (l *Log) rowOf(ctx context.Context, storeID string, seq uint64) (logRow, error) {
	rows, _, err := l.table.page(ctx, between{partition: storeID, from: logSort(seq), to: logSort(maxSeq), limit: 1}, nil)
	if err != nil {
		return logRow{}, err
	}
	if len(rows) == 0 {
		return logRow{}, l.missing(ctx, storeID, seq)
	}
	commits, err := commitsOf(rows[0])
	return logRow{rows[0], commits}, err
}

// payDebts pays the debts of the commits of LOG rows. No process pays them afterwards, see
// behind: it would write the versions as before they were erased.
func (e *eraser) payDebts(ctx context.Context, rows map[string]logRow) error {
	var wanted []ref
	for _, one := range rows {
		wanted = append(wanted, ref{e.id, outSort(spanOf(one.commits))})
	}
	owed, err := e.log.table.getAll(ctx, wanted)
	if err != nil || len(owed) == 0 {
		return err
	}
	var debts []debt
	for _, one := range rows {
		of := spanOf(one.commits)
		out := row{item: owed[ref{e.id, outSort(of)}]}
		if out.item == nil {
			continue
		}
		r := row{item: one.item}
		debts = append(debts, debt{span: of, sort: outSort(of), commits: one.commits, records: r.bytes("record"), guarded: out.boolean("guarded"), alone: true})
	}
	failed, err := e.pay(debts)
	if len(failed) == 0 {
		err = nil
	}
	return errors.Join(err, e.stoppedBy())
}

// paths has the rows of paths that tell of versions, as what left a path last, tell of the
// newest other version that took place there before.
func (e *eraser) paths(ctx context.Context, was []versionlog.Version) error {
	var wanted []ref
	asked := map[string]bool{"": true}
	for i := range was {
		for _, path := range []string{was[i].Path, was[i].From} {
			if !asked[path] {
				asked[path] = true
				wanted = append(wanted, ref{e.id, leftSort(path)})
			}
		}
	}
	found, err := e.log.table.getAll(ctx, wanted)
	if err != nil {
		return err
	}
	left := map[string]*versionlog.Version{} // by path
	for _, i := range found {
		v, err := versionOf(i)
		if err != nil {
			return err
		}
		if e.ids[v.ID] {
			left["/"+sortOf(i)[len(leftPrefix):]] = &v
		}
	}
	before, err := e.before(ctx, left)
	if err != nil {
		return err
	}
	_, err = inParallel(left, func(path string, v *versionlog.Version) (struct{}, error) {
		return struct{}{}, e.leave(ctx, path, v, before[path])
	})
	return err
}

// before returns, by path, the newest version that took place there before one, and stays.
// It walks over the log once.
func (e *eraser) before(ctx context.Context, left map[string]*versionlog.Version) (map[string]*versionlog.Version, error) {
	found := map[string]*versionlog.Version{}
	newest := uint64(0)
	for _, v := range left {
		newest = max(newest, v.Seq)
	}
	if newest == 0 {
		return found, nil
	}
	// The newest may share its row with later commits.
	rows := between{partition: e.id, from: logSort(0), to: logSort(newest + maxRows), backwards: true}
	for i, err := range e.log.table.rows(ctx, rows) {
		if err != nil {
			return nil, err
		}
		commits, err := commitsOf(i)
		if err != nil {
			return nil, err
		}
		for _, c := range slices.Backward(commits) {
			for i := len(c.Versions) - 1; i >= 0; i-- {
				v := &c.Versions[i]
				for _, path := range []string{v.Path, v.From} {
					of := left[path]
					if of != nil && found[path] == nil && v.ID < of.ID && !v.Redacted() && !e.ids[v.ID] && v.At(path) {
						found[path] = v
					}
				}
			}
		}
		if len(found) == len(left) {
			break
		}
	}
	return found, nil
}

// leave replaces a version in the row of the path that it left, by another or by nothing.
func (e *eraser) leave(ctx context.Context, path string, v, by *versionlog.Version) error {
	names, values := map[string]string{"#id": "id"}, item{":id": text(v.ID)}
	change := types.TransactWriteItem{Delete: &types.Delete{
		TableName: &e.log.table.name, Key: key(e.id, leftSort(path)), ConditionExpression: aws.String("#id = :id"),
		ExpressionAttributeNames: names, ExpressionAttributeValues: values,
	}}
	if by != nil {
		change = put(e.log.table.name, versionItem(e.id, leftSort(path), by))
		change.Put.ConditionExpression = aws.String("#id = :id")
		change.Put.ExpressionAttributeNames, change.Put.ExpressionAttributeValues = names, values
	}
	err := e.log.transact(ctx, change)
	if isConditionFailed(err) { // something newer left, or another process was faster
		return nil
	}
	return err
}

// records erases from MEM and LOG rows. A LOG row that others have changed meanwhile is looked
// at again.
func (e *eraser) records(ctx context.Context, rows map[string]logRow) error {
	erased := map[string][]*versionlog.Commit{}
	var memories []types.WriteRequest
	for sort, one := range rows {
		commits, _ := eraseFrom(one.commits, e.ids)
		erased[sort] = commits
		memories = append(memories, e.memories(commits)...)
	}
	if err := e.log.table.write(ctx, memories); err != nil {
		return err
	}
	_, err := inParallel(rows, func(sort string, one logRow) (struct{}, error) {
		data, err := encodeRecords(erased[sort])
		if err == nil {
			err = e.log.transact(ctx, types.TransactWriteItem{Update: &types.Update{
				TableName: &e.log.table.name, Key: key(e.id, sort), UpdateExpression: aws.String("SET #record = :new"),
				ConditionExpression:       aws.String("#record = :old"),
				ExpressionAttributeNames:  map[string]string{"#record": "record"},
				ExpressionAttributeValues: item{":new": bytesOf(data), ":old": one.item["record"]},
			}})
		}
		if isConditionFailed(err) {
			err = nil
		}
		return struct{}{}, err
	})
	return err
}

// memories are the MEM rows of the versions that commits have erased.
func (s *store) memories(commits []*versionlog.Commit) (rows []types.WriteRequest) {
	for _, c := range commits {
		for i := range c.Versions {
			if v := &c.Versions[i]; v.Redacted() {
				rows = append(rows, putRequest(versionItem(s.id, memSort(v, i), v)))
			}
		}
	}
	return rows
}
