package dynamolog

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"mneme/errkind"
	"mneme/internal/awsconf"
	"mneme/versionlog"
	"mneme/versionlog/snapshot"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// shared are the snapshots of a store in its bucket. There is one of every commit whose
// number Log.distance divides, made by the process whose commit that was, when it has
// time: the last ones may be missing. They share their pages. All may be removed at any time.
type shared struct {
	records
	storeID string
}

func (b shared) prefix() string             { return storePrefix(b.storeID) + "snap/" }
func (b shared) pointPrefix() string        { return b.prefix() + "at/" }
func (b shared) pointKey(seq uint64) string { return b.pointPrefix() + fmt.Sprintf("%020d", seq) }
func (b shared) pageKey(name string) string { return b.prefix() + name }
func (b shared) at(seq uint64) sharedOne    { return sharedOne{b, seq} }

// points returns of which commits there are snapshots.
func (b shared) points(ctx context.Context) (map[uint64]bool, error) {
	seqs := map[uint64]bool{}
	for name, err := range b.list(ctx, b.pointPrefix()) {
		if err != nil {
			return nil, err
		}
		if seq, err := strconv.ParseUint(strings.TrimPrefix(name, b.pointPrefix()), 10, 64); err == nil && name == b.pointKey(seq) { // else not mneme's
			seqs[seq] = true
		}
	}
	return seqs, nil
}

// before opens the newest snapshot of a commit from the one to the other that the distance
// divides, and is whole; nil where there is none. taken is the newest that there is, whole or
// not.
func (l *Log) before(ctx context.Context, b shared, from, seq uint64) (saved *snapshot.Snapshot, taken uint64, err error) {
	points, err := b.points(ctx)
	if err != nil {
		return nil, 0, awsconf.Explain(err)
	}
	for _, point := range slices.Backward(slices.Sorted(maps.Keys(points))) {
		if point < from || point > seq || point%l.distance != 0 {
			continue
		}
		taken = max(taken, point)
		saved, err := b.open(ctx, point)
		if err == nil {
			return saved, taken, nil
		}
		if kind := errkind.Of(err); ctx.Err() != nil || kind != errkind.Corrupt && !errors.Is(err, versionlog.ErrNotFound) && !errors.Is(err, versionlog.ErrFormat) {
			return nil, 0, err
		}
		l.logger.Warn("a snapshot in the bucket is of no use, trying an earlier one", "store", b.storeID, "op", "open", "err", err)
	}
	return nil, taken, nil
}

// open opens the snapshot of a commit.
func (b shared) open(ctx context.Context, seq uint64) (*snapshot.Snapshot, error) {
	saved, err := snapshot.Open(ctx, b.at(seq))
	if err != nil {
		return nil, err
	}
	if saved.StoreID != b.storeID || saved.Tip.Seq != seq {
		return nil, fmt.Errorf("object %s: %w: it is of store %q, commit %d", b.pointKey(seq), versionlog.ErrCorrupt, saved.StoreID, saved.Tip.Seq)
	}
	return saved, nil
}

// clear removes all snapshots.
func (b shared) clear(ctx context.Context) error {
	for name, err := range b.list(ctx, b.prefix()) { // the points first
		if err != nil {
			return err
		}
		if err := b.records.remove(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// sharedOne are the objects of one of them.
type sharedOne struct {
	shared
	seq uint64
}

func (o sharedOne) key(name string) string {
	if strings.HasPrefix(name, "pages/") {
		return o.pageKey(name)
	}
	return o.pointKey(o.seq)
}

// Get implements snapshot.Source.
func (o sharedOne) Get(ctx context.Context, name string, limit int) ([]byte, error) {
	ctx, cancel := awsconf.WithTimeout(ctx)
	defer cancel()
	data, err := o.getUpTo(ctx, o.key(name), int64(limit)+1)
	return data, awsconf.Explain(err)
}

// Put implements snapshot.Sink. It does not replace an existing object.
func (o sharedOne) Put(ctx context.Context, name string, data []byte) error {
	ctx, cancel := awsconf.WithTimeout(ctx)
	defer cancel()
	err := o.upload(ctx, o.key(name), data, aws.String("*"))
	if codeOf(err) == "PreconditionFailed" {
		return nil
	}
	return awsconf.Explain(err)
}

// foldLater has the snapshots made that are due once the commits of a transaction are in.
func (s *store) foldLater(of span) {
	distance := s.log.distance
	if (of.first-1)/distance == of.last/distance {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.folding { // else it is done by the one that is under way
		s.folding = true
		s.log.work.Go(s.foldAll)
	}
}

func (s *store) foldAll() {
	for folded := true; folded; {
		began := time.Now()
		var err error
		if folded, err = s.fold(s.log.life); err != nil {
			if s.log.life.Err() == nil {
				s.log.logger.Warn("no snapshot could be put into the bucket, the next commits try again", "store", s.id, "op", "fold", "err", err)
			}
			folded = false
		}
		if folded && pause(s.log.life, time.Since(began)) != nil { // half of the time is for others
			folded = false
		}
		s.mu.Lock()
		s.folding = folded
		s.mu.Unlock()
	}
}

// fold puts the next snapshot into the bucket, and reports whether one was due.
func (s *store) fold(ctx context.Context) (folded bool, err error) {
	bounded, release, err := s.leaseSnapshots(ctx)
	if errors.Is(err, errLeased) {
		return false, nil
	}
	if err != nil {
		return false, awsconf.Explain(err)
	}
	defer release()
	return s.foldNext(bounded)
}

// foldNext is fold by the process that has the SNAP row.
func (s *store) foldNext(ctx context.Context) (folded bool, err error) {
	m, err := s.log.table.meta(ctx, s.id)
	if err != nil {
		return false, awsconf.Explain(err)
	}
	if m.erased < m.redacted {
		return false, nil
	}
	of := shared{s.log.records, s.id}
	last, taken, err := s.log.before(ctx, of, m.redacted, m.tip.Seq)
	if err != nil {
		return false, err
	}
	if last == nil {
		last = snapshot.Empty(s.id, m.creation)
	}
	distance := s.log.distance
	from := max(last.Tip.Seq, taken, m.redacted)
	seq := from - from%distance + distance
	if seq > m.tip.Seq {
		return false, nil
	}
	if m.redacted > last.Tip.Seq {
		err = s.foldAnew(ctx, of.at(seq), m)
	} else {
		err = last.Fold(ctx, of.at(seq), seq, s.log.Commits(ctx, s.id, max(last.Tip.Seq, 1)-1))
		if errkind.Of(err) == errkind.Corrupt { // a page of it
			err = s.foldAnew(ctx, of.at(seq), m)
		}
	}
	return true, err
}

// foldAnew makes a snapshot of the whole history up to it: commits of which versions were
// erased do not tell what they have changed.
func (s *store) foldAnew(ctx context.Context, to sharedOne, m *meta) error {
	at := snapshot.Point{StoreID: s.id, Creation: m.creation}
	state, err := versionlog.Replay(to.seq, func(yield func(*versionlog.Commit, error) bool) {
		for c, err := range s.log.Commits(ctx, s.id, 0) {
			if err == nil {
				at.Tip = at.Tip.After(c)
			}
			if !yield(c, err) {
				return
			}
		}
	})
	if err != nil {
		return err
	}
	return snapshot.Write(ctx, to, at, state.Heads(ctx, "/", ""))
}
