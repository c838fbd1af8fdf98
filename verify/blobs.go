package verify

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"

	"mneme/cas"
	"mneme/finding"
)

// surveyed asks the index of the log whether every blob is present. False: it cannot tell, or a
// blob is missing, of which the records tell more.
func (v *verifier) surveyed(ctx context.Context) (bool, error) {
	survey := v.store.Log().Capabilities().Survey
	if survey == nil {
		return false, nil
	}
	found, err := survey(ctx, v.store.Info().ID)
	if err != nil || found == nil {
		return false, err
	}
	for _, d := range found.Elsewhere {
		if ok, err := v.store.Blobs().Has(ctx, d); err != nil || !ok {
			return false, err
		}
	}
	v.done = Verification{Commits: found.Commits, Versions: found.Versions, Memories: found.Memories, Blobs: found.Contents}
	return true, nil
}

// verifiedAtOnce is up to how many bytes of blobs a worker has in memory, unless one is longer.
const verifiedAtOnce = 1 << 20

// blobs looks at the blob of every version, several at once. The versions of a memory follow
// one another, for stores that keep them against each other.
func (v *verifier) blobs(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for _, head := range v.replay.heads { // a live version says best what is lost
		u := v.replay.blobs[head.Digest]
		if !v.replay.live(u.example) || head.Path < u.example.Path {
			u.example = head
			v.replay.blobs[head.Digest] = u
		}
	}
	wanted := slices.SortedFunc(maps.Keys(v.replay.blobs), func(a, b cas.Digest) int {
		first, second := v.replay.blobs[a].example, v.replay.blobs[b].example
		return cmp.Or(cmp.Compare(first.MemoryID, second.MemoryID), cmp.Compare(first.Seq, second.Seq), bytes.Compare(a[:], b[:]))
	})
	var mu sync.Mutex // guards v.done and calls of Report and Progress
	queue := make(chan []cas.Digest)
	var workers sync.WaitGroup
	for range min(v.opts.Workers, len(wanted)) {
		workers.Go(func() {
			for batch := range queue {
				for d, read := range v.lookAll(ctx, batch) {
					n, problem, err := v.blob(ctx, d, read)
					if err != nil {
						cancel(err) // the first one counts
						return
					}
					mu.Lock()
					v.done.Blobs++
					v.done.Bytes += n
					if problem != nil {
						v.report(*problem)
					}
					v.opts.Progress("blobs", v.done.Blobs, len(v.replay.blobs))
					mu.Unlock()
				}
			}
		})
	}
	for len(wanted) > 0 && ctx.Err() == nil {
		n := v.batch(wanted)
		select {
		case queue <- wanted[:n]:
		case <-ctx.Done():
		}
		wanted = wanted[n:]
	}
	close(queue)
	workers.Wait()
	return context.Cause(ctx)
}

// batch returns how many of the first blobs are read together.
func (v *verifier) batch(wanted []cas.Digest) int {
	n := 0
	for most, size := cas.BatchSize(v.store.Blobs()), int64(0); n < len(wanted); n++ {
		size += v.replay.blobs[wanted[n]].size
		if n > 0 && (n >= most || size > verifiedAtOnce) {
			break
		}
	}
	return n
}

// lookAll yields each blob of a batch with its bytes, nil where look has to say what is wrong.
func (v *verifier) lookAll(ctx context.Context, batch []cas.Digest) iter.Seq2[cas.Digest, []byte] {
	return func(yield func(cas.Digest, []byte) bool) {
		read := make([][]byte, len(batch))
		if len(batch) > 1 && !v.opts.PresenceOnly {
			read = cas.GetBatch(ctx, v.store.Blobs(), batch)
		}
		for i, d := range batch {
			if !yield(d, read[i]) {
				return
			}
		}
	}
}

// blob looks at one blob, whose bytes may have been read. It returns how many bytes that were,
// and what is wrong.
func (v *verifier) blob(ctx context.Context, d cas.Digest, data []byte) (int64, *Problem, error) {
	if data != nil && int64(len(data)) == v.replay.blobs[d].size {
		return int64(len(data)), nil, nil
	}
	read, err := v.look(ctx, d)
	if err == nil || !errors.Is(err, cas.ErrNotFound) && !errors.Is(err, cas.ErrCorrupt) {
		return read, nil, err
	}
	use := v.replay.blobs[d]
	p := &Problem{Kind: ProblemBlob, Finding: finding.BlobDamaged, Subject: "blob " + d.String(), What: "the bytes are damaged"}
	if errors.Is(err, cas.ErrNotFound) {
		p.Finding, p.What = finding.BlobMissing, "the bytes are gone"
	}
	var needs *cas.NeedsError
	needsOther := errors.As(err, &needs)
	if needsOther {
		p.Finding, p.What = finding.BlobBase, fmt.Sprintf("the bytes are kept against blob %v, which is damaged", needs.Blob)
	}
	p.Version, p.Current = use.example, v.replay.live(use.example)
	what := "an earlier version"
	p.Do = "nothing else needs them; a file with this SHA-256 from a backup, written anywhere in the store, mends it"
	if p.Current {
		what = "the current version"
		p.Do = "write it again from a copy, or bring an earlier version back"
	}
	p.What += fmt.Sprintf("; they are %s of %s (%s)", what, use.example.Path, use.example.ID)
	if use.versions > 1 {
		p.What += fmt.Sprintf(" and of %d more", use.versions-1)
	}
	if needsOther {
		p.Do = "the bytes of that blob mend these, too; or " + p.Do
	}
	return read, p, v.salvage(ctx, d, p)
}

func (v *verifier) look(ctx context.Context, d cas.Digest) (int64, error) {
	if v.opts.PresenceOnly {
		ok, err := v.store.Blobs().Has(ctx, d)
		if err == nil && !ok {
			err = cas.ErrNotFound
		}
		return 0, err
	}
	data, err := v.store.Blobs().Get(ctx, d)
	if err == nil && int64(len(data)) != v.replay.blobs[d].size {
		err = fmt.Errorf("%w: %d bytes, the record says %d", cas.ErrCorrupt, len(data), v.replay.blobs[d].size)
	}
	return int64(len(data)), err
}

// salvage puts the bytes back if they are found elsewhere.
func (v *verifier) salvage(ctx context.Context, d cas.Digest, p *Problem) error {
	if v.opts.Salvage == nil {
		return nil
	}
	data, ok := v.opts.Salvage(d)
	if !ok || cas.Sum(data) != d {
		return nil
	}
	if _, err := v.store.Blobs().Put(ctx, data); err != nil {
		return fmt.Errorf("put blob %v back: %w", d, err)
	}
	p.Repaired = true
	return nil
}
