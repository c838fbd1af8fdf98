package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"mneme/errkind"
	"mneme/gateway/wire"
	"mneme/versionlog"
)

// CreateStore is part of versionlog.Log. After a lost reply, an existing store with its id
// is the one that the call has made.
func (l *Log) CreateStore(ctx context.Context, s versionlog.Store) error {
	r, err := newRequest(wire.OpCreateStore, &wire.Ask{New: wire.StoreOf(s)})
	if err != nil {
		return err
	}
	_, err = l.client.answer(ctx, r, nil)
	if errors.Is(err, versionlog.ErrExists) && r.repeated {
		if there, lookErr := l.Store(ctx, s.ID); lookErr == nil && there.Slug == s.Slug && there.CreatedAt.Equal(s.CreatedAt) {
			return nil
		}
	}
	return err
}

// Store is part of versionlog.Log.
func (l *Log) Store(ctx context.Context, id string) (versionlog.Store, error) {
	return l.store(ctx, &wire.Ask{Store: id})
}

// StoreNamed is part of versionlog.Log.
func (l *Log) StoreNamed(ctx context.Context, slug string) (versionlog.Store, error) {
	return l.store(ctx, &wire.Ask{Slug: wire.Text(slug)})
}

func (l *Log) store(ctx context.Context, a *wire.Ask) (versionlog.Store, error) {
	answer, err := l.client.ask(ctx, wire.OpStore, a)
	if err != nil {
		return versionlog.Store{}, err
	}
	if answer.Store == nil {
		return versionlog.Store{}, ErrProtocol
	}
	s := answer.Store.Store()
	if a.Store != "" && s.ID != a.Store || a.Store == "" && s.Slug != string(a.Slug) {
		return versionlog.Store{}, fmt.Errorf("%w: it is another store than was asked for", ErrProtocol)
	}
	return s, l.client.rules.checkStore(s)
}

// DeleteStore is part of versionlog.Log. After a lost reply, a missing store was deleted.
func (l *Log) DeleteStore(ctx context.Context, id string) error {
	r, err := newRequest(wire.OpDeleteStore, &wire.Ask{Store: id})
	if err != nil {
		return err
	}
	_, err = l.client.answer(ctx, r, nil)
	if errors.Is(err, versionlog.ErrNotFound) && r.repeated {
		err = nil
	}
	if err == nil {
		l.feed(id).forget()
	}
	return err
}

// Tip is part of versionlog.Log.
func (l *Log) Tip(ctx context.Context, storeID string) (versionlog.Tip, error) {
	answer, err := l.client.ask(ctx, wire.OpTip, &wire.Ask{Store: storeID})
	if err != nil {
		return versionlog.Tip{}, err
	}
	if answer.Tip == nil {
		return versionlog.Tip{}, ErrProtocol
	}
	l.saw(storeID, answer.Tip.Seq)
	return answer.Tip.Tip(), nil
}

// version asks for one version.
func (l *Log) version(ctx context.Context, op string, a wire.Ask) (versionlog.Version, error) {
	answer, err := l.client.ask(ctx, op, &a)
	if err != nil {
		return versionlog.Version{}, err
	}
	if answer.Version == nil {
		return versionlog.Version{}, ErrProtocol
	}
	v, err := versionlog.DecodeVersion(answer.Version)
	v.Time = v.Time.UTC()
	if err == nil && !answers(op, &a, &v) {
		err = errors.New("it is another version than was asked for")
	}
	if err == nil {
		err = l.client.rules.version(&v)
	}
	if err != nil {
		return versionlog.Version{}, fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	return v, nil
}

// answers reports whether a version is one that a request may be answered with.
func answers(op string, a *wire.Ask, v *versionlog.Version) bool {
	switch op {
	case wire.OpVersion:
		return v.ID == a.ID
	case wire.OpNewest:
		return v.MemoryID == a.ID
	case wire.OpLast:
		return v.At(string(a.Path))
	}
	return v.Path == string(a.Path) && (a.At == nil || v.Seq <= *a.At)
}

// Head is part of versionlog.Log.
func (l *Log) Head(ctx context.Context, storeID, path string) (versionlog.Version, error) {
	return l.version(ctx, wire.OpHead, wire.Ask{Store: storeID, Path: wire.Text(path)})
}

// Last is part of versionlog.Log.
func (l *Log) Last(ctx context.Context, storeID, path string) (versionlog.Version, error) {
	return l.version(ctx, wire.OpLast, wire.Ask{Store: storeID, Path: wire.Text(path)})
}

// Held is part of versionlog.Log.
func (l *Log) Held(ctx context.Context, storeID, path string) (bool, error) {
	answer, err := l.client.ask(ctx, wire.OpHeld, &wire.Ask{Store: storeID, Path: wire.Text(path)})
	return err == nil && answer.Yes, err
}

// Version is part of versionlog.Log.
func (l *Log) Version(ctx context.Context, storeID, id string) (versionlog.Version, error) {
	return l.version(ctx, wire.OpVersion, wire.Ask{Store: storeID, ID: id})
}

// Newest is part of versionlog.Log.
func (l *Log) Newest(ctx context.Context, storeID, memoryID string) (versionlog.Version, error) {
	return l.version(ctx, wire.OpNewest, wire.Ask{Store: storeID, ID: memoryID})
}

// SeqAt is part of versionlog.Log.
func (l *Log) SeqAt(ctx context.Context, storeID string, at time.Time) (uint64, error) {
	answer, err := l.client.ask(ctx, wire.OpSeqAt, &wire.Ask{Store: storeID, Time: &at})
	if err != nil {
		return 0, err
	}
	return answer.Seq, nil
}

// purge, unpurged and left are those of versionlog.Capabilities.
func (l *Log) purge(ctx context.Context, storeID string, versions []string) (places []versionlog.Purged, err error) {
	answer, err := l.client.ask(ctx, wire.OpPurge, &wire.Ask{Store: storeID, Versions: versions})
	if err != nil {
		return nil, err
	}
	for _, p := range answer.Purged {
		places = append(places, versionlog.Purged(p))
	}
	return places, nil
}

// maxForgotten is how many versions and digests one request to forget has.
const maxForgotten = 5000

var errNoForget = errkind.New(errkind.Unsupported, "the server is of an earlier mneme, or keeps nothing; run the redaction where it is")

// Forget makes the server erase the copies that its machine keeps of versions, and of texts
// that have those digests or contain a text, apart from log and contents.
func (l *Log) Forget(ctx context.Context, storeID string, versions []string, contents []versionlog.Digest, text string) (places []versionlog.Purged, err error) {
	if !l.forgets {
		return nil, errNoForget
	}
	for first := true; first || len(versions) > 0 || len(contents) > 0; first = false {
		v, c := min(len(versions), maxForgotten), min(len(contents), maxForgotten)
		answer, err := l.client.ask(ctx, wire.OpForget, &wire.Ask{Store: storeID, Versions: versions[:v], Blobs: contents[:c], Text: wire.Text(text)})
		if err != nil {
			return places, err
		}
		for _, p := range answer.Purged {
			p.Place = "the server's " + p.Place
			places = append(places, versionlog.Purged(p))
		}
		versions, contents = versions[v:], contents[c:]
	}
	return places, nil
}

func (l *Log) unpurged(ctx context.Context, storeID string) ([]uint64, error) {
	answer, err := l.client.ask(ctx, wire.OpUnpurged, &wire.Ask{Store: storeID})
	if err != nil {
		return nil, err
	}
	return answer.Seqs, nil
}

func (l *Log) left(ctx context.Context, storeID string) error {
	_, err := l.client.ask(ctx, wire.OpLeft, &wire.Ask{Store: storeID})
	return err
}

// Commit is part of versionlog.Log. A proposal that may have become a commit, since its reply
// was lost, is sent again under the same key.
func (l *Log) Commit(ctx context.Context, storeID string, p *versionlog.Proposal) (*versionlog.Commit, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := p.Validate(); err != nil { // also, so that JSON can hold the texts
		return nil, err
	}
	sent, err := l.riding(ctx, storeID, p)
	switch {
	case err != nil && p.Fresh:
		return nil, versionlog.Untried(err)
	case err != nil:
		return nil, err
	}
	r := &request{op: wire.OpCommit, header: http.Header{}, fresh: p.Fresh}
	r.header.Set(wire.StoreHeader, storeID)
	if r.body, err = wire.EncodeProposal(sent); err != nil {
		return nil, err
	}
	answer, err := l.client.answer(ctx, r, func() {
		if sent.Fresh {
			sent.Fresh = false
			r.body, _ = wire.EncodeProposal(sent) // which went well before
		}
	})
	if err != nil {
		return nil, err
	}
	c, err := wire.DecodeCommit(answer.Commit)
	if err == nil && c.Changes() && c.Key != p.Key {
		err = errors.New("it is another commit than was proposed")
	}
	if err == nil {
		err = l.client.rules.commit(storeID, c)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	l.made(storeID, recorded{c, len(answer.Commit)})
	return c, nil
}

// riding returns a copy of a proposal whose contents are few enough to ride with it. The
// others are stored already.
func (l *Log) riding(ctx context.Context, storeID string, p *versionlog.Proposal) (*versionlog.Proposal, error) {
	sent := *p
	sent.Changes = append([]versionlog.Change(nil), p.Changes...)
	room := wire.MaxRiding
	for i := range sent.Changes {
		c := &sent.Changes[i]
		if c.Content == nil {
			continue
		}
		if len(c.Content) <= min(room, l.can.MaxContent) {
			room -= len(c.Content)
			continue
		}
		if _, err := l.Blobs(storeID).Put(ctx, c.Content); err != nil {
			return nil, err
		}
		c.Content = nil
	}
	return &sent, nil
}
