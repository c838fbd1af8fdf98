package dynamolog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"mneme/internal/awsconf"
	"mneme/internal/objectversions"
	"mneme/versionlog"
)

// Orphans are contents that no version has, and pages of snapshots that no snapshot has.
type Orphans struct {
	Contents int
	Bytes    int64 // of them
	Pages    int
}

// CollectOptions are the settings of Log.Collect.
type CollectOptions struct {
	Grace    time.Duration         // how long ago a content must have been put, by the servers
	Keep     bool                  // only count
	Progress func(done, total int) // of the contents that no version has
}

var errMayNotCollect = errors.New("to remove contents takes credentials that may write the table, and delete from the bucket, as those of the policies admin and redact")

// Collect removes the contents of a store that no version has, the pages that no snapshot has,
// and the rows that dead collectors and processes have left in the table. A content stays
//
//   - that a version has, by the rows or by a record in the bucket. So contents that a redaction
//     must purge are left to that, and a process that can write rows cannot make a collector
//     delete contents that the bucket's history needs. If bucket and table are not one history,
//     all stay: ErrIndex;
//   - that was put less than Grace ago, by the clock of the bucket;
//   - of a store without commits: an import, perhaps by another machine, puts all contents first;
//   - that a commit gets meanwhile, see condemned.
//
// The bucket may keep old versions of deleted contents, which the credentials may not remove:
// objectversions.ErrLeft. Orphans counts the removals before an error.
func (l *Log) Collect(ctx context.Context, storeID string, opts *CollectOptions) (Orphans, error) {
	s := l.store(storeID)
	found, err := s.collectContents(ctx, opts)
	if err == nil || errors.Is(err, objectversions.ErrLeft) {
		var pagesErr error
		found.Pages, pagesErr = s.collectPages(ctx, opts.Grace, opts.Keep)
		err = errors.Join(err, pagesErr)
	}
	return found, explainCollect(err)
}

// EraseOrphans removes the contents of a store that no version has, and that Collect would remove
// without a grace time, and returns how many that were.
func (l *Log) EraseOrphans(ctx context.Context, storeID string) (int, error) {
	found, err := l.store(storeID).collectContents(ctx, &CollectOptions{Progress: func(int, int) {}})
	return found.Contents, explainCollect(err)
}

// explainCollect adds to an error which credentials it takes.
func explainCollect(err error) error {
	if err = awsconf.Explain(err); errors.Is(err, fs.ErrPermission) && !errors.Is(err, objectversions.ErrLeft) {
		err = fmt.Errorf("%w: %w", errMayNotCollect, err)
	}
	return err
}

func (s *store) collectContents(ctx context.Context, opts *CollectOptions) (found Orphans, err error) {
	if !opts.Keep {
		if err := s.tidy(ctx); err != nil {
			return found, err
		}
	}
	table, err := s.readTable(ctx, nil)
	if err != nil || table.tip.Seq == 0 {
		return found, err
	}
	if opts.Keep {
		err = s.lookInBucket(ctx, table)
	} else {
		_, err = s.readBucket(ctx, table, nil)
	}
	if err != nil {
		return found, err
	}
	sizes := map[versionlog.Digest]int64{}
	for one, err := range s.log.blobs(s.id).Stored(ctx) {
		if err != nil {
			return found, err
		}
		if !table.needs[one.Digest] && (opts.Grace <= 0 || one.Age >= opts.Grace) {
			sizes[one.Digest] = one.Size
		}
	}
	gone := make([]versionlog.Digest, 0, len(sizes))
	for d := range sizes {
		gone = append(gone, d)
	}
	opts.Progress(0, len(gone))
	if !opts.Keep {
		slices.SortFunc(gone, func(a, b versionlog.Digest) int { return slices.Compare(a[:], b[:]) })
		gone, err = s.removeContents(ctx, gone, table.tip.Seq, func(done int) { opts.Progress(done, len(sizes)) })
	}
	for _, d := range gone {
		found.Contents++
		found.Bytes += sizes[d]
	}
	return found, err
}

// tidy finishes what processes that have died left to do in the table, and removes the GONE
// rows that they left.
func (s *store) tidy(ctx context.Context) error {
	if s.log.readOnly {
		return versionlog.ErrReadOnly
	}
	if err := s.finishErasing(ctx); err != nil {
		return err
	}
	if err := s.removeVoid(ctx); err != nil {
		return err
	}
	return s.collect(ctx)
}

// lookInBucket is readBucket of whatever is there: to look only, records that are not in the bucket
// yet are no matter.
func (s *store) lookInBucket(ctx context.Context, table *chain) error {
	return s.eachRecord(ctx, func(_ span, data []byte) error {
		commits, err := decodeRecords(data)
		for _, c := range commits {
			for i := range c.Versions {
				if d := c.Versions[i].Digest; !d.IsZero() {
					table.needs[d] = true
				}
			}
		}
		return err
	})
}
