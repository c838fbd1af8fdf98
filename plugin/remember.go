package plugin

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"mneme/cas"
	"mneme/errkind"
	"mneme/history"
	"mneme/memory"
	"mneme/session"
	"mneme/tools"
	"mneme/versionlog"
)

// Remember makes a turn one memory, /threads/THREAD/TURN.md, with all entries of the batch or
// none. It is idempotent by the ids of thread and turn:
//
//  1. If the memory exists with the same bytes, or its path ever had them, the turn was
//     remembered already, also if it was edited, moved or removed since: Already, with the
//     version of that time. If the memory exists with other bytes, the turn was remembered with
//     other texts: Refused.
//  2. Otherwise it is written on the condition that its path is free, under a key made of the
//     ids, the same in every process. If the key has a version that was erased since, the turn
//     is Refused, and stays erased. If it has another text, which was removed since, the next
//     key is tried.
//  3. If the reply is lost, the same write is retried under the same key until the deadline.
//     After that it is Unknown, and the same batch, by whatever process, settles it.
//
// Turns of one Provider are written one after the other.
func (p *Provider) Remember(ctx context.Context, b Batch) (answer Remembered) {
	began := time.Now()
	defer p.catch(func() { answer = p.forgot(began, nil, Unknown, Later, reasonPanic) })
	defer func() { p.logCall("remember", &answer.Diagnostics) }()
	t, err := p.turnOf(&b)
	switch {
	case err != nil:
		return p.forgot(began, nil, Refused, Never, "invalid: "+err.Error())
	case t.place == nil:
		return p.forgot(began, t, Refused, Never, reasonNoStore)
	}
	return within(ctx, p, func(ctx context.Context) Remembered {
		return p.remember(ctx, began, t)
	}, func(reason string) Remembered {
		if t.begun.Load() {
			return p.forgot(began, t, Unknown, Later, reason)
		}
		return p.forgot(began, t, Refused, Later, reason+"; nothing was written")
	})
}

// turn is a batch on its way into a store.
type turn struct {
	place   *tools.Place // nil: no store takes it
	path    string
	text    []byte
	entries []string     // their ids
	nth     atomic.Int64 // its key
	begun   atomic.Bool  // it may have been written
	warned  []string     // of credentials
}

// turnOf checks a batch. The text of its error may be shown and logged.
func (p *Provider) turnOf(b *Batch) (*turn, error) {
	if err := b.check(); err != nil {
		return nil, err
	}
	switch {
	case b.ThreadID == "":
		return nil, errors.New("field thread_id: it is missing")
	case b.turn() == "":
		return nil, errors.New("field turn_id: it is missing, and so is run_id")
	case len(b.Entries) == 0:
		return nil, errors.New("field entries: there are none")
	case len(b.Entries) > MaxEntries:
		return nil, fmt.Errorf("field entries: there are %d, at most %d", len(b.Entries), MaxEntries)
	}
	t := &turn{place: p.takes(), path: pathOf(b.ThreadID, b.turn())}
	seen := map[string]bool{}
	for i := range b.Entries {
		e := &b.Entries[i]
		id := idOf(i, e)
		switch {
		case seen[id]:
			return nil, fmt.Errorf("entry %d: field id: another entry has it", i+1)
		case !utf8.ValidString(e.ID + e.Role + e.Text):
			return nil, fmt.Errorf("entry %d: it is not Unicode", i+1)
		}
		seen[id] = true
		t.entries = append(t.entries, id)
	}
	var err error
	if t.text, err = textOf(b); err != nil {
		return nil, err
	}
	return t, nil
}

// key returns the nth key of a turn, by which any process finds the commit of the turn, also when
// path and text were erased. It stays in the history. A guess of the ids can be checked against it,
// a guess of the text cannot.
func (t *turn) key() string {
	sum := sha256.New()
	for _, part := range []string{t.place.Store.Info().ID, t.path, strconv.FormatInt(t.nth.Load(), 10)} {
		fmt.Fprintf(sum, "%d:%s", len(part), part)
	}
	return "plugin:" + hex.EncodeToString(sum.Sum(nil))
}

// remember writes a turn, unless it is there.
func (p *Provider) remember(ctx context.Context, began time.Time, t *turn) Remembered {
	store := t.place.Store.Info().Slug
	select {
	case p.writing <- struct{}{}:
		defer func() { <-p.writing }()
	case <-ctx.Done():
		return p.forgot(began, t, Refused, Later, reasonBusy+"; nothing was written")
	}
	for try := 0; ; try++ {
		v, status, err := t.write(ctx)
		switch {
		case err == nil && status == Refused:
			return p.forgot(began, t, Refused, Never, "conflict: the turn was remembered before with other texts")
		case err == nil && status == Already && t.begun.Load() && v.Session == t.place.Session.ID():
			return p.remembered(began, t, v, Written) // by the try whose reply was lost
		case err == nil:
			return p.remembered(began, t, v, status)
		case !isFinal(err) && try < maxTries && pause(ctx, try):
			continue
		}
		return p.failed(began, t, store, err)
	}
}

// maxTries is how often a commit whose reply was lost is tried again.
const maxTries = 5

// pause waits before another try. It reports false if there is no time for one.
func pause(ctx context.Context, try int) bool {
	timer := time.NewTimer(20 * time.Millisecond << try)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// isFinal reports whether an error says for certain that nothing was written, and that
// another try at once does not help.
func isFinal(err error) bool {
	return memory.IsFinal(err) && errkind.Of(err) != errkind.Unavailable
}

// write writes a turn, or finds the version that holds it. Refused is that another text is
// there.
func (t *turn) write(ctx context.Context) (v versionlog.Version, status Status, err error) {
	for n := int64(0); ; n++ {
		if v, status, err = t.find(ctx); err != nil || status != "" {
			return v, status, err
		}
		t.nth.Store(n)
		if v, status, err = t.commit(ctx); err != nil || status != "" {
			return v, status, err
		}
	}
}

// commit writes a turn under its key. The status is "" where the key has another text.
func (t *turn) commit(ctx context.Context) (v versionlog.Version, status Status, err error) {
	t.begun.Store(true)
	change := memory.Change{Action: versionlog.Put, Path: t.path, Content: t.text, Expect: versionlog.ExpectAbsent()}
	c, err := t.place.Session.Batch(ctx, []memory.Change{change}, &session.WriteOptions{
		Key: t.key(), Meta: map[string]string{"tool": "plugin"},
		Warn: func(f memory.SecretsFound) { t.warned = []string{f.String()} },
	})
	switch {
	case errors.Is(err, versionlog.ErrConflict), err == nil && len(c.Versions) == 0: // another process was faster
		if v, status, err = t.find(ctx); err == nil && status == "" {
			err = fmt.Errorf("%s: %w", t.path, errGone)
		}
		return v, status, err
	case err != nil:
		return v, "", err
	}
	switch v = c.Versions[0]; {
	case v.Redacted():
		return v, "", errErased
	case v.Digest != cas.Sum(t.text):
		return v, "", nil
	case c.Session != t.place.Session.ID(): // another process was as fast
		return v, Already, nil
	}
	return v, Written, nil
}

// errErased says that what a turn wrote was erased since.
var errErased = errkind.New(errkind.Exists, "what the turn wrote was erased since; it is not written again")

// errGone says that what was in the way of a turn is there no more: another try can help.
var errGone = errkind.New(errkind.Unavailable, "it was removed meanwhile")

// find looks for the turn at its path, and in the past of that path. The status is "" if it
// never was there, and nothing is in its way.
func (t *turn) find(ctx context.Context) (v versionlog.Version, status Status, err error) {
	want := cas.Sum(t.text)
	head, err := t.place.Store.Head(ctx, t.path)
	isThere := err == nil
	switch {
	case isThere && head.Digest == want:
		return head, Already, nil
	case err != nil && !errors.Is(err, versionlog.ErrNotFound):
		return v, "", err
	}
	for v, err := range history.Versions(ctx, t.place.Store, t.path) {
		switch {
		case errors.Is(err, versionlog.ErrNotFound):
			return v, "", nil
		case err != nil:
			return v, "", err
		case v.Digest == want:
			return v, Already, nil
		}
	}
	if isThere {
		return head, Refused, nil
	}
	return v, "", nil
}

// remembered is the answer to a turn that a version holds.
func (p *Provider) remembered(began time.Time, t *turn, v versionlog.Version, status Status) Remembered {
	answer := Remembered{Provider: p.about(), Diagnostics: p.diagnostics(began)}
	if status == Written {
		answer.Written = len(t.entries)
	}
	answer.Diagnostics.Receipt = t.receipt(status, "")
	if status == Written {
		answer.Diagnostics.Receipt.Warnings = t.warned
	}
	for i := range answer.Diagnostics.Receipt.Entries {
		e := &answer.Diagnostics.Receipt.Entries[i]
		e.Path, e.Version, e.Seq = cmp.Or(v.Path, t.path), v.ID, v.Seq
	}
	return answer
}

// failed is the answer to a turn for which the store has an error.
func (p *Provider) failed(began time.Time, t *turn, store string, err error) Remembered {
	if errors.Is(err, errErased) {
		return p.forgot(began, t, Refused, Never, "redacted: "+errErased.Error())
	}
	kind := errkind.Of(err)
	reason := p.reasonOf(store, "remember", err)
	if size, ok := errors.AsType[*memory.SizeError](err); ok {
		reason = fmt.Sprintf("%s: the turn has %d bytes, and a memory of store %s at most %d", kind, size.Size, store, size.Limit)
	}
	status, retry := Refused, retryOf(kind)
	if !memory.IsFinal(err) && t.begun.Load() {
		status, retry = Unknown, Later
	} else {
		reason += "; nothing was written"
	}
	return p.forgot(began, t, status, retry, reason)
}

// forgot is the answer to a batch that is not, or perhaps not, in a store. t is nil if there is
// no telling where it would be.
func (p *Provider) forgot(began time.Time, t *turn, status Status, retry Retry, reason string) Remembered {
	answer := Remembered{Provider: p.about(), Diagnostics: p.diagnostics(began, reason)}
	answer.Diagnostics.Retry = retry
	answer.Diagnostics.Receipt = t.receipt(status, reason)
	return answer
}

func (t *turn) receipt(status Status, reason string) *Receipt {
	r := &Receipt{Entries: []ReceiptEntry{}}
	if t == nil {
		return r
	}
	store := ""
	if t.place != nil {
		r.Key, store = t.key(), t.place.Store.Info().Slug
	}
	for _, id := range t.entries {
		r.Entries = append(r.Entries, ReceiptEntry{ID: id, Store: store, Path: t.path, Status: status, Reason: reason})
	}
	return r
}
