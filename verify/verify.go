// Package verify checks a store against its own history: every record, the heads that follow from
// the records, and the bytes of every version. It reads through package memory and writes nothing
// but blobs that Options.Salvage finds. Read verify.go first.
package verify

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"mneme/finding"
	"mneme/memory"
	"mneme/versionlog"
)

// Store checks a store against its own history: every commit record holds and
// follows the one before, the heads are what the records imply, and the blob
// of every version, live or not, is there with the right bytes. It calls
// report for every problem, never twice at once, and returns an error only
// when it could not look.
//
// Commits may be made meanwhile; those after its beginning are not checked.
// Blobs are read from the store's cas.Store: open the library without a cache
// of them, which would hide what is lost.
func Store(ctx context.Context, s *memory.Store, opts *Options, report func(Problem)) (Verification, error) {
	v := verifier{store: s, replay: newReplay(), erased: erasures{}}
	if opts != nil {
		v.opts = *opts
	}
	if v.opts.Progress == nil {
		v.opts.Progress = func(string, int, int) {}
	}
	if v.opts.Workers <= 0 {
		v.opts.Workers = 16
	}
	v.report = func(p Problem) {
		v.done.Problems++
		if p.Repaired {
			v.done.Repaired++
		}
		report(p)
	}
	if v.opts.PresenceOnly && v.opts.Against == nil {
		switch present, err := v.surveyed(ctx); {
		case err != nil:
			return v.done, fmt.Errorf("verify store %s: %w", s.Info().Slug, err)
		case present:
			return v.done, nil
		}
	}
	for _, step := range []func(context.Context) error{v.records, v.heads, v.blobs} {
		if err := step(ctx); err != nil {
			return v.done, fmt.Errorf("verify store %s: %w", s.Info().Slug, err)
		}
	}
	return v.done, nil
}

// records walks the commits up to the tip.
func (v *verifier) records(ctx context.Context) error {
	var err error
	if v.tip, err = v.store.Tip(ctx); err != nil {
		return err
	}
	for c, err := range v.store.Readable(ctx, v.tip.Seq, v.lose) {
		if err != nil {
			return err
		}
		v.commit(c)
	}
	v.flushLost()
	if err := v.unexplained(ctx); err != nil {
		return err
	}
	v.prove()
	if v.last != nil && v.last.Seq == v.tip.Seq && v.last.Digest != v.tip.Digest {
		v.report(Problem{
			Kind: ProblemRecord, Finding: finding.RecordTip, Subject: fmt.Sprintf("commit %d", v.tip.Seq),
			What: "it is not the one that the store's index names as its newest", Do: v.doIndex(),
		})
	}
	return nil
}

// unexplained reports the versions that were erased though no event says so. The event may
// be one that came meanwhile, or in a commit that cannot be read.
func (v *verifier) unexplained(ctx context.Context) error {
	if len(v.erased) == 0 {
		return nil
	}
	for c, err := range v.store.Commits(ctx, v.tip.Seq) {
		if errors.Is(err, versionlog.ErrCorrupt) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, id := range c.Event.ErasedVersions() {
			delete(v.erased, id)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(v.erased)) {
		seq, _, err := versionlog.LocateVersion(id)
		if err == nil && v.replay.hasGap(seq) {
			continue
		}
		v.report(Problem{
			Kind: ProblemRecord, Finding: finding.RecordErased, Subject: fmt.Sprintf("commit %d", seq),
			What: fmt.Sprintf("version %s was erased, and no later event says so", id), Do: adviceRecord,
		})
	}
	return nil
}

// lose notes that a commit cannot be read.
func (v *verifier) lose(seq uint64, why string) {
	v.replay.gap(seq)
	if !v.lost.Extend(seq, why) {
		v.flushLost()
		v.lost = memory.Gap{From: seq, To: seq, Why: why}
	}
}

func (v *verifier) flushLost() {
	if v.lost.From != 0 {
		v.report(Problem{Kind: ProblemRecord, Finding: finding.RecordUnreadable, Subject: v.lost.String(), What: v.lost.Why, Do: adviceRecord})
	}
	v.lost = memory.Gap{}
}

// commit checks one record and replays it.
func (v *verifier) commit(c *versionlog.Commit) {
	v.flushLost()
	wrong := func(kind finding.Kind, what string) {
		v.report(Problem{Kind: ProblemRecord, Finding: kind, Subject: fmt.Sprintf("commit %d", c.Seq), What: what, Do: adviceRecord})
	}
	if err := c.Verify(); err != nil {
		wrong(finding.RecordUnreadable, err.Error())
	} else {
		v.sees(c)
	}
	var before versionlog.Digest
	if v.last != nil {
		before = v.last.Digest
	}
	follows := c.Seq == 1 || v.last != nil && v.last.Seq == c.Seq-1 // else the one before is lost
	if follows && c.Prev != before {
		wrong(finding.RecordChain, "it does not follow the commit before it: the chain of digests is broken")
	}
	if what := epochs(v.last, c); what != "" {
		wrong(finding.RecordEpoch, what)
	}
	for _, what := range v.replay.commit(c) {
		wrong(finding.RecordVersions, what)
	}
	v.erased.add(c)
	v.last = c
	v.done.Commits++
	v.done.Versions += len(c.Versions)
	v.opts.Progress("commits", v.done.Commits, int(v.tip.Seq))
}

// heads compares the log's heads with those that the records imply. Paths that
// a later commit touched are left out.
func (v *verifier) heads(ctx context.Context) error {
	found := map[string]versionlog.Version{}
	for head, err := range v.store.Log().Heads(ctx, v.store.Info().ID, "/", "") {
		if err != nil {
			return err
		}
		found[head.Path] = head
		if !head.IsDir() {
			v.done.Memories++
		}
		v.opts.Progress("heads", len(found), len(v.replay.heads))
	}
	touched := map[string]bool{}
	for c, err := range v.store.Commits(ctx, v.tip.Seq) {
		if err != nil {
			return err
		}
		for _, later := range c.Versions {
			touched[later.Path], touched[later.From] = true, true
		}
	}
	for _, p := range v.replay.compare(found, touched) {
		p.Do = v.doIndex()
		v.report(p)
	}
	return nil
}
