package dynamolog

import (
	"context"
	"errors"
	"time"

	"mneme/errkind"
	"mneme/internal/awsconf"
	"mneme/internal/objectversions"
	"mneme/versionlog"
)

// collectPages removes the pages of snapshots that no snapshot has, as of a process that was
// killed before it put the manifest, and returns how many there were; to keep them is to count only. While another process
// makes a snapshot, which may need them, they stay.
func (s *store) collectPages(ctx context.Context, grace time.Duration, keep bool) (int, error) {
	of := shared{s.log.records, s.id}
	pages, err := of.orphanPages(ctx, grace)
	if err != nil || len(pages) == 0 || keep {
		return len(pages), err
	}
	bounded, release, err := s.leaseSnapshots(ctx)
	if errors.Is(err, errLeased) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer release()
	if pages, err = of.orphanPages(bounded, grace); err != nil {
		return 0, err
	}
	left, err := inParallel(pages, func(name string, _ bool) (left error, err error) {
		if err = of.records.remove(bounded, name); err == nil {
			err = objectversions.RemoveOne(bounded, of.s3, of.bucket, name)
		}
		if errors.Is(err, objectversions.ErrLeft) {
			return err, nil
		}
		return nil, err
	})
	if err != nil {
		return 0, err
	}
	for _, one := range left {
		if one != nil {
			return len(pages), one
		}
	}
	return len(pages), nil
}

// orphanPages returns the names of the pages that no snapshot has, and that were put at least
// grace ago, by the clock of the bucket. A snapshot that is damaged needs none.
func (b shared) orphanPages(ctx context.Context, grace time.Duration) (map[string]bool, error) {
	pages := map[string]bool{}
	for one, err := range b.listed(ctx, b.prefix()+"pages/", "") { // before the snapshots, which come behind their pages
		if err != nil {
			return nil, awsconf.Explain(err)
		}
		if grace <= 0 || one.age >= grace {
			pages[one.name] = true
		}
	}
	if len(pages) == 0 {
		return nil, nil
	}
	points, err := b.points(ctx)
	if err != nil {
		return nil, awsconf.Explain(err)
	}
	for seq := range points {
		saved, err := b.open(ctx, seq)
		if errkind.Of(err) == errkind.Corrupt || errors.Is(err, versionlog.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for name := range saved.Pages() {
			delete(pages, b.pageKey(name))
		}
	}
	return pages, nil
}
