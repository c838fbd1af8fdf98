package forget

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"mneme/cas"
	"mneme/memory"
	"mneme/versionlog"
)

// erasure is one erasing of versions from log, contents and the caches of this process.
//
//  1. Events name the versions, at most versionlog.MaxRedacted each. Records and heads lose them with the event.
//  2. A walk over the history finds the contents that no version has any longer, and the versions that still
//     have a path of an erased one. Where a record cannot be read, its versions may have any content, and all
//     stay.
//  3. Those contents are deleted, unless the log does that.
//  4. The caches of this process are emptied, before the log is purged of the traces of the versions, since its
//     connections hold pages, and after, since other requests have read meanwhile.
//
// Each step skips the work that an earlier erasure has done, so an interrupted erasure is repeated by its ids.
type erasure struct {
	st      *memory.Store
	ids     []string
	receipt *Receipt
}

// erase does that, with the event that some of the versions get, and calls progress with how many are erased. It
// notes in the receipt what was done, also where it returns an error.
func (e *erasure) erase(ctx context.Context, reason string, event func(ids ...string) *versionlog.Event, progress func(done int)) error {
	if err := e.st.MayErase(); err != nil {
		return err
	}
	contents, err := e.contents(ctx)
	if err != nil {
		return e.wrap(err)
	}
	for some := range slices.Chunk(e.ids, versionlog.MaxRedacted) {
		c, err := e.st.Erase(ctx, event(some...), reason)
		if err != nil {
			return err
		}
		if c.Changes() {
			e.receipt.Sequence = append(e.receipt.Sequence, c.Seq)
			e.receipt.Versions = append(e.receipt.Versions, c.Event.ErasedVersions()...)
		}
		progress(len(e.receipt.Versions))
	}
	if err := e.eraseContents(ctx, contents); err != nil {
		return e.wrap(err)
	}
	e.receipt.note("the caches of this process", e.st.Forget())
	places, err := e.st.Purge(ctx, e.ids)
	e.receipt.add(places)
	if forgetErr := e.st.Forget(); err == nil && forgetErr != nil {
		err = e.wrap(forgetErr)
	}
	return err
}

func (e *erasure) wrap(err error) error { return fmt.Errorf("store %s: %w", e.st.Info().Slug, err) }

// contents returns those of the versions that are not erased yet.
func (e *erasure) contents(ctx context.Context) (map[cas.Digest]bool, error) {
	contents := map[cas.Digest]bool{}
	for _, id := range e.ids {
		v, err := e.st.Version(ctx, id)
		if err != nil {
			return nil, err
		}
		if !v.Digest.IsZero() {
			contents[v.Digest] = true
		}
	}
	return contents, nil
}

// eraseContents deletes those of the contents that no version has any more, and counts them.
func (e *erasure) eraseContents(ctx context.Context, contents map[cas.Digest]bool) error {
	all := len(contents)
	unread, err := e.walk(ctx, contents)
	if err != nil {
		return err
	}
	e.receipt.Erased, e.receipt.Kept = len(contents), all-len(contents)
	if e.st.ErasesContents() {
		return nil
	}
	if unread > 0 && len(contents) > 0 {
		e.receipt.note("contents", fmt.Errorf("commit %d cannot be read, and its versions may have them, too", unread))
		e.receipt.Erased = 0
		return nil
	}
	for d := range contents {
		err := e.st.EraseContent(ctx, d)
		if errors.Is(err, errors.ErrUnsupported) {
			e.receipt.note("contents", err)
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// walk leaves those of the contents that no version has any more, and notes the versions that still say the path
// of an erased one. It returns the last commit that it could not read; 0: it has read all.
func (e *erasure) walk(ctx context.Context, contents map[cas.Digest]bool) (unread uint64, err error) {
	tip, err := e.st.Tip(ctx)
	if err != nil {
		return 0, err
	}
	erased := map[string]bool{}
	for _, id := range e.ids {
		erased[id] = true
	}
	for c, err := range e.st.Readable(ctx, tip.Seq, func(seq uint64, _ string) { unread = seq }) {
		if err != nil {
			return 0, err
		}
		for i := range c.Versions {
			v := &c.Versions[i]
			delete(contents, v.Digest)
			if erased[v.Parent] && !v.Redacted() && (v.From != "" || v.Op == versionlog.OpDeleted) {
				e.receipt.PathsIn = append(e.receipt.PathsIn, v.ID)
			}
		}
	}
	return unread, nil
}
