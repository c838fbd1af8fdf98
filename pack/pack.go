// Package pack renders a memory store as one block of text of bounded size, for the prompt
// of a model: an index of the memories, the pinned ones, then the newest.
//
// A pack is a function of the store's past and of its options alone. So the pack of one
// sequence number is the same bytes at any time, in any process and from any log that has
// the history, and a provider's prompt cache still hits. Three things may change it:
// content that was damaged, mended or redacted.
//
// A pack is UTF-8 and is never longer than it may be. The paths and contents in it were
// chosen by others. A content stands as it is between frames, which are lines that begin
// with a boundary in brackets. The boundary is made of the digest of the newest commit in
// the pack. The author of a memory could not know that digest, so no memory can imitate a
// frame. A path that could be taken for something else is quoted. docs/FORMAT.md describes
// the text.
package pack

import (
	"context"

	"mneme/memory"
	"mneme/versionlog"
)

// Pack is a rendered store.
type Pack struct {
	Text        []byte
	Seq         uint64            // of the commit after which the store is shown
	Digest      versionlog.Digest // chain digest of that commit; zero where Seq is 0
	Shown, Left int               // memories whose content is in the text, if only in part; others
}

// Render returns the pack of a store, whose text has so many bytes at most, MinBytes to
// MaxBytes. ErrOptions; versionlog.ErrNotFound: there is no commit Options.Seq, or none
// Options.Since. Both come in an OptionError. Other errors are those of the store.
func Render(ctx context.Context, st *memory.Store, maxBytes int, opts *Options) (Pack, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	var err error
	if o.Prefix, err = o.check(maxBytes); err != nil {
		return Pack{}, err
	}
	at, err := momentOf(ctx, st, o.Seq)
	if err != nil {
		return Pack{}, &OptionError{"Seq", err}
	}
	p := &page{limit: maxBytes, boundary: at.boundary(st)}
	if o.Since != nil {
		err = p.writeChanges(ctx, st, at, &o)
	} else {
		err = p.writeState(ctx, st, at, &o)
	}
	if err != nil {
		return Pack{}, err
	}
	return Pack{Text: p.text, Seq: at.seq, Digest: at.digest, Shown: p.shown, Left: p.total - p.shown}, nil
}

// writeState writes the store as it was at a moment.
func (p *page) writeState(ctx context.Context, st *memory.Store, at moment, o *Options) error {
	heads, err := headsAt(ctx, st, at.seq, o.Prefix)
	if err != nil {
		return err
	}
	pins, err := pinsOf(heads, o)
	if err != nil {
		return err
	}
	p.begin(st, at, len(heads))
	p.writeIndex(heads, o.Prefix)
	c := contents{page: p, store: st}
	if err := c.writePinned(ctx, pins); err != nil {
		return err
	}
	if err := c.writeNewest(ctx, newest(heads), "newest"); err != nil {
		return err
	}
	p.end()
	return nil
}
