package dynamolog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mneme/versionlog"
)

// A rebuild destroys nothing by number. Before it changes anything, a survey
// reads every record, in the bucket and in the table, and puts them together:
//
//  1. A copy of a record is valid if its own digest holds. Another copy is damaged, and may
//     be replaced by a valid one.
//  2. Two valid copies of one commit that differ are two histories. So are a commit that
//     does not follow the one before it, and a META row that names another commit than the
//     record does. A person must decide which history is the true one: the rebuild refuses,
//     and reports the known facts of both.
//  3. The rest is one chain from the first commit to the last, without gaps.
//
// survey is the outcome.
type survey struct {
	meta *meta // the table's, nil for none
	tip  versionlog.Tip
	// lacking are the records that the bucket lacks and the table has. In
	// damaged are those whose object is damaged.
	lacking []span
	damaged map[span]bool
	erased  map[string]uint64 // events, by the versions that they name
	owed    map[string]bool   // sort keys of ERASE rows that were there before the records were read
}

// errBusy says that a store changed while its index was rebuilt.
var errBusy = errors.New("commits are still being made to the store: end the mounts and commands that write to it, and run it again")

// recordCopy is what one object or one LOG row holds.
type recordCopy struct {
	where   string // to be told
	of      span   // by its name; of a row only the last
	commits []commitSum
	err     error // of a damaged one
}

// commitSum is what a survey keeps of a commit.
type commitSum struct {
	seq          uint64
	prev, digest versionlog.Digest
	by           string
	erases       []string // versions
	time         time.Time
}

func (c commitSum) String() string {
	const enough = 12 // hexadecimal digits
	return fmt.Sprintf("%.*s of %s by %.60q", enough, c.digest, c.time.UTC().Format(time.RFC3339), c.by)
}

func copyOf(where string, of span, storeID string, records []byte) recordCopy {
	c := recordCopy{where: where, of: of}
	commits, err := decodeRecords(records)
	if err != nil {
		c.err = err
		return c
	}
	if has := spanOf(commits); commits[0].StoreID != storeID || has.last != of.last || of.first != 0 && has.first != of.first {
		c.err = fmt.Errorf("%w: it has the records %d to %d of store %s", versionlog.ErrCorrupt, has.first, has.last, commits[0].StoreID)
		return c
	}
	if c.err = checkText(commits, records); c.err != nil {
		return c
	}
	c.of = spanOf(commits)
	for _, one := range commits {
		by := one.Session
		if by == "" {
			by = one.Actor.ID
		}
		c.commits = append(c.commits, commitSum{one.Seq, one.Prev, one.Digest, by, one.Event.ErasedVersions(), one.Time})
	}
	return c
}

// surveyStore reads all there is of a store's history. ErrCorrupt when it is not
// one history.
func (l *Log) surveyStore(ctx context.Context, id string) (*survey, error) {
	s := &survey{damaged: map[span]bool{}, erased: map[string]uint64{}, owed: map[string]bool{}}
	var err error
	if s.meta, err = l.table.meta(ctx, id); err != nil && !errors.Is(err, versionlog.ErrNotFound) {
		return nil, err
	}
	for i, err := range l.table.below(ctx, id, erasePrefix) {
		if err != nil {
			return nil, err
		}
		s.owed[sortOf(i)] = true
	}
	objects, err := l.objectCopies(ctx, id)
	if err != nil {
		return nil, err
	}
	rows, err := l.rowCopies(ctx, id)
	if err != nil {
		return nil, err
	}
	return s, s.judge(objects, rows)
}

// objectCopies reads the records in the bucket.
func (l *Log) objectCopies(ctx context.Context, id string) (copies []recordCopy, err error) {
	spans, err := l.recordSpans(ctx, id)
	if err != nil {
		return nil, err
	}
	for len(spans) > 0 {
		n := min(len(spans), recordsAtATime)
		wanted := map[span]bool{}
		for _, of := range spans[:n] {
			wanted[of] = true
		}
		found, err := inParallel(wanted, func(of span, _ bool) (recordCopy, error) {
			name := recordKey(id, of)
			data, err := l.records.get(ctx, name)
			return copyOf("object "+name, of, id, data), err
		})
		if err != nil {
			return nil, err
		}
		for _, of := range spans[:n] {
			copies = append(copies, found[of])
		}
		spans = spans[n:]
	}
	return copies, nil
}

// rowCopies reads the records in the table.
func (l *Log) rowCopies(ctx context.Context, id string) (copies []recordCopy, err error) {
	for i, err := range l.table.below(ctx, id, logPrefix) {
		if err != nil {
			return nil, err
		}
		var of span
		_, _ = fmt.Sscanf(sortOf(i), logPrefix+"%d", &of.last)
		r := row{item: i}
		c := copyOf("row "+sortOf(i), of, id, r.bytes("record"))
		if r.err != nil {
			c.err = r.err
		}
		copies = append(copies, c)
	}
	return copies, nil
}

// judge puts the copies together.
func (s *survey) judge(objects, rows []recordCopy) error {
	bucket, err := sumsOf(objects)
	if err != nil {
		return err
	}
	table, err := sumsOf(rows)
	if err != nil {
		return err
	}
	if err := s.follow(bucket, table); err != nil {
		return err
	}
	there := map[span]bool{}
	for _, o := range objects {
		if o.err == nil {
			there[o.of] = true
		} else {
			s.damaged[o.of] = true
		}
	}
	for _, r := range rows {
		if r.err == nil && !there[r.of] {
			s.lacking = append(s.lacking, r.of)
			there[r.of] = true
		}
	}
	for _, o := range objects {
		if o.err == nil || there[o.of] {
			continue
		}
		advice := "the table has no copy of it: restore the object"
		if o.of.first > s.tip.Seq {
			advice = "no other copy and no later commit is known: restore the object, or remove it if it never was a record"
		}
		return fmt.Errorf("%s: %w; %s", o.where, o.err, advice)
	}
	return nil
}

// sumsOf returns the commits of the copies that hold. A record of a newer format
// is an error: it is not damaged.
func sumsOf(copies []recordCopy) (map[uint64]commitSum, error) {
	sums := map[uint64]commitSum{}
	for _, c := range copies {
		if errors.Is(c.err, versionlog.ErrFormat) {
			return nil, fmt.Errorf("%s: %w", c.where, c.err)
		}
		for _, one := range c.commits {
			if other, ok := sums[one.seq]; ok && other.digest != one.digest {
				return nil, fmt.Errorf("%w: %s has commit %d as %v, another beside it as %v", versionlog.ErrCorrupt, c.where, one.seq, one, other)
			}
			sums[one.seq] = one
		}
	}
	return sums, nil
}

// follow walks the chain that bucket and table make together.
func (s *survey) follow(bucket, table map[uint64]commitSum) error {
	for seq := uint64(1); ; seq++ {
		inBucket, hasBucket := bucket[seq]
		inTable, hasTable := table[seq]
		one := inBucket
		switch {
		case !hasBucket && !hasTable:
			return s.end(bucket, table)
		case hasBucket && hasTable && inBucket.digest != inTable.digest:
			return fmt.Errorf("%w: bucket and table have different histories from commit %d on: the bucket has %v and goes to %d, the table has %v and goes to %d; neither was touched",
				versionlog.ErrCorrupt, seq, inBucket, last(bucket), inTable, last(table))
		case !hasBucket:
			one = inTable
		}
		if one.prev != s.tip.Digest {
			return fmt.Errorf("%w: commit %d, %v, does not follow commit %d, which is %.12s; nothing was touched", versionlog.ErrCorrupt, seq, one, s.tip.Seq, s.tip.Digest)
		}
		for _, id := range one.erases {
			s.erased[id] = one.seq
		}
		s.tip = versionlog.Tip{Seq: seq, Digest: one.digest, Time: one.time}
		if s.meta != nil && s.meta.tip.Seq == seq && s.meta.tip.Digest != one.digest {
			return fmt.Errorf("%w: the table names %.12s as commit %d, whose record is %v; nothing was touched", versionlog.ErrCorrupt, s.meta.tip.Digest, seq, one)
		}
	}
}

// end judges what lies beyond the end of the chain.
func (s *survey) end(bucket, table map[uint64]commitSum) error {
	newest := max(last(bucket), last(table))
	if s.meta != nil {
		newest = max(newest, s.meta.tip.Seq)
	}
	if newest > s.tip.Seq {
		return fmt.Errorf("%w: the record of commit %d is neither in the bucket nor in the table, and the history goes to %d; nothing was touched: restore the object %s",
			versionlog.ErrCorrupt, s.tip.Seq+1, newest, span{s.tip.Seq + 1, s.tip.Seq + 1}.name())
	}
	return nil
}

// last returns the highest sequence number.
func last(sums map[uint64]commitSum) (seq uint64) {
	for n := range sums {
		seq = max(seq, n)
	}
	return seq
}
