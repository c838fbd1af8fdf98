package dynamolog

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"mneme/cas"
	"mneme/errkind"
	"mneme/internal/awsconf"
	"mneme/internal/objectversions"
	"mneme/versionlog"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

var (
	// errGone says that a commit needs a content that is not stored.
	errGone = fmt.Errorf("%w: the content of a change is not stored; it may have been erased since it was", cas.ErrNotFound)

	errBeingErased = errkind.New(errkind.Unavailable, "a redaction is erasing a content that the change brings back, and the process that does so has ended, "+
		"or its credentials may not delete it; run the redaction once more with those of an admin")
)

// note is what an ERASE row says.
type note struct {
	seq     uint64
	digests []versionlog.Digest
	gone    bool // only old versions of objects are left
}

// notes returns what redactions have left to do in the bucket.
func (s *store) notes(ctx context.Context) (notes []note, err error) {
	for i, err := range s.log.table.below(ctx, s.id, erasePrefix) {
		if err != nil {
			return nil, err
		}
		r := row{item: i}
		n := note{seq: uint64(r.int("seq")), gone: r.boolean("gone")}
		digests, _ := i["digests"].(*types.AttributeValueMemberL)
		if digests == nil {
			r.fail("digests")
			return nil, r.err
		}
		for _, a := range digests.Value {
			one := row{item: item{"sha256": a, "store_id": i["store_id"], "sk": i["sk"]}}
			n.digests = append(n.digests, one.digest("sha256"))
			r.err = errors.Join(r.err, one.err)
		}
		if r.err != nil {
			return nil, r.err
		}
		notes = append(notes, n)
	}
	return notes, nil
}

// Purge is one of the log's Capabilities.
func (l *Log) Purge(ctx context.Context, storeID string) ([]versionlog.Purged, error) {
	if l.readOnly {
		return nil, versionlog.ErrReadOnly
	}
	s := l.store(storeID)
	err := s.finishErasing(ctx)
	if err == nil {
		select {
		case s.erasing <- struct{}{}:
			err = s.purgeNotes(ctx)
			<-s.erasing
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	done := s.purged
	s.purged = nil
	if len(done) > 0 && ctx.Err() == nil { // they say it
		err = nil
	}
	return done, awsconf.Explain(err)
}

// purgeNotes removes from the bucket, and from this machine, what redactions have erased,
// and notes what has become of it. One call at a time: see store.erasing.
func (s *store) purgeNotes(ctx context.Context) error {
	notes, err := s.notes(ctx)
	if err != nil || len(notes) == 0 {
		return err
	}
	s.mu.Lock()
	s.purged = nil // what was not done last time is told of anew
	s.mu.Unlock()
	p := &purge{store: s}
	s.removeSnapshot()
	p.note("rows of table "+s.log.table.name, nil)
	p.note("the heads on the disk of this machine", nil)
	p.note("records in the bucket", p.records(ctx, notes))
	p.note("contents in the bucket", p.contents(ctx, notes))
	p.note("snapshots in the bucket", p.snapshots(ctx))
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case p.left == nil || errors.Is(p.left, objectversions.ErrLeft) && !p.failed:
		return errors.Join(p.left, p.leave(ctx, notes))
	}
	return p.left
}

// purge is one run.
type purge struct {
	*store
	left   error // what is left, and why
	failed bool  // more than old versions are
}

// note tells of a place.
func (p *purge) note(place string, err error) {
	one := versionlog.Purged{Place: place}
	if err = awsconf.Explain(err); err != nil {
		one.Why = err.Error()
		p.left = errors.Join(p.left, err)
		p.failed = p.failed || !errors.Is(err, objectversions.ErrLeft)
	} else {
		one.At = p.log.now().UTC()
	}
	p.mu.Lock()
	p.purged = append(p.purged, one)
	p.mu.Unlock()
}

// leave removes the ERASE rows, or notes in them that only old versions are left.
func (p *purge) leave(ctx context.Context, notes []note) error {
	for _, n := range notes {
		change := types.TransactWriteItem{Delete: &types.Delete{TableName: &p.log.table.name, Key: key(p.id, eraseSort(n.seq))}}
		if p.left != nil {
			change = types.TransactWriteItem{Update: &types.Update{
				TableName: &p.log.table.name, Key: key(p.id, eraseSort(n.seq)), UpdateExpression: aws.String("SET #gone = :gone"),
				ConditionExpression:      aws.String("attribute_exists(sk)"),
				ExpressionAttributeNames: map[string]string{"#gone": "gone"}, ExpressionAttributeValues: item{":gone": boolean(true)},
			}}
		}
		if err := p.log.transact(ctx, change); err != nil && !isConditionFailed(err) {
			return err
		}
	}
	return nil
}

// records makes those in the bucket what the LOG rows say.
func (p *purge) records(ctx context.Context, notes []note) error {
	var old error
	for _, n := range notes {
		redaction, err := p.log.commitAt(ctx, p.id, n.seq)
		if err != nil {
			return err
		}
		done := map[string]bool{}
		for _, id := range redaction.Event.ErasedVersions() {
			seq, _, err := versionlog.LocateVersion(id)
			if err != nil {
				return err
			}
			logRow, commits, err := p.log.rowOf(ctx, p.id, seq)
			if err != nil {
				return err
			}
			if done[sortOf(logRow)] {
				continue
			}
			done[sortOf(logRow)] = true
			err = p.record(ctx, seq, spanOf(commits))
			if errors.Is(err, objectversions.ErrLeft) {
				old = err
			} else if err != nil {
				return err
			}
		}
	}
	return old
}

// record makes the object of a commit what its LOG row says, and removes what it was. The
// object is looked at first: what is written, if nobody has written meanwhile, is no older.
func (p *purge) record(ctx context.Context, seq uint64, of span) error {
	name := recordKey(p.id, of)
	for attempt := range 5 {
		if err := backoff(ctx, attempt); err != nil {
			return err
		}
		there, tag, err := p.log.records.getTagged(ctx, name)
		if err != nil {
			return err
		}
		logRow, _, err := p.log.rowOf(ctx, p.id, seq)
		if err != nil {
			return err
		}
		r := row{item: logRow}
		if want := r.bytes("record"); !bytes.Equal(there, want) {
			err = p.log.records.uploadOver(ctx, name, want, tag)
		}
		if codeOf(err) == "PreconditionFailed" {
			continue
		}
		if err != nil {
			return err
		}
		return objectversions.Remove(ctx, p.log.records.s3, p.log.records.bucket, name)
	}
	return fmt.Errorf("object %s: others change it all the time", name)
}

// contents removes those that no version has any more. Of what was removed before, and may
// be there again, only old versions go.
func (p *purge) contents(ctx context.Context, notes []note) error {
	if p.log.blobs == nil {
		return nil
	}
	gone := map[versionlog.Digest]bool{} // by digest: whether the content itself is
	for _, n := range notes {
		for _, d := range n.digests {
			before, noted := gone[d]
			gone[d] = n.gone && (before || !noted)
		}
	}
	if len(gone) == 0 {
		return nil
	}
	for c, err := range p.log.commitRows(ctx, p.id, 0) {
		if err != nil {
			return err
		}
		for i := range c.Versions {
			delete(gone, c.Versions[i].Digest)
		}
	}
	if now, err := p.notes(ctx); err != nil || len(now) < len(notes) { // another process has done it
		return err
	}
	blobs := p.log.blobs(p.id)
	outcomes, err := inParallel(gone, func(d versionlog.Digest, gone bool) (old error, err error) {
		if !gone {
			err = blobs.Delete(ctx, d)
		}
		if err == nil {
			err = blobs.DeleteOld(ctx, d)
		}
		if errors.Is(err, objectversions.ErrLeft) {
			return err, nil
		}
		return nil, err
	})
	for _, old := range outcomes {
		if err == nil && old != nil {
			err = old
		}
	}
	return err
}

// snapshots removes those in the bucket; the next commits make them again.
func (p *purge) snapshots(ctx context.Context) error {
	of := shared{p.log.records, p.id}
	if err := of.clear(ctx); err != nil {
		return err
	}
	return objectversions.Remove(ctx, p.log.records.s3, p.log.records.bucket, of.prefix())
}
