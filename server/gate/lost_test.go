package gate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"sync/atomic"
	"testing"

	"mneme/cas"
	"mneme/gateway"
	"mneme/server/access"
	"mneme/versionlog"
	"mneme/versionlog/memlog"
)

// once is a transport that does something to the next answer.
type once struct {
	*http.Transport
	do atomic.Pointer[func(*http.Response) (*http.Response, error)]
}

func (o *once) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := o.Transport.RoundTrip(r)
	if do := o.do.Swap(nil); do != nil && err == nil {
		return (*do)(answer)
	}
	return answer, err
}

// lose loses the next answer, and cut the end of it.
func (o *once) lose() {
	do := func(answer *http.Response) (*http.Response, error) {
		_, _ = io.Copy(io.Discard, answer.Body)
		return nil, errors.Join(errLost, answer.Body.Close())
	}
	o.do.Store(&do)
}

func (o *once) cut() {
	do := func(answer *http.Response) (*http.Response, error) {
		whole, err := io.ReadAll(answer.Body)
		err = errors.Join(err, answer.Body.Close())
		answer.Body = &cut{io.NopCloser(bytes.NewReader(whole)), int64(len(whole) * 9 / 10)}
		return answer, err
	}
	o.do.Store(&do)
}

// TestLostReplies: what was done, and whose reply was lost, is not done again, nor said to have
// failed.
func TestLostReplies(t *testing.T) {
	log := memlog.New(nil)
	s := newServer(t, rawView(log, newBlobs()))
	network := &once{Transport: &http.Transport{}}
	l := s.dial(t, &gateway.Options{Transport: network})
	network.lose()
	id := addStore(t, l, "notes")
	network.lose()
	p := put("/a", "1")
	p.Changes[0].Content = nil
	if c, err := l.Commit(t.Context(), id, p); err != nil || c.Seq != 1 {
		t.Errorf("a commit: %+v, %v", c, err)
	}
	if tip, err := l.Tip(t.Context(), id); err != nil || tip.Seq != 1 {
		t.Errorf("the tip: %+v, %v", tip, err)
	}
	network.lose()
	if err := l.DeleteStore(t.Context(), id); err != nil {
		t.Errorf("a deletion: %v", err)
	}
	if err := l.DeleteStore(t.Context(), id); !errors.Is(err, versionlog.ErrNotFound) {
		t.Errorf("a second deletion: %v", err)
	}
}

// TestResumed: each walk goes on where its answer broke off, with nothing left out or twice.
func TestResumed(t *testing.T) {
	const many = 2500 // so that an answer has several frames
	log := memlog.New(nil)
	id := addStore(t, log, "notes")
	commit := func(p *versionlog.Proposal) *versionlog.Commit {
		c, err := log.Commit(t.Context(), id, p)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	p := put("/a", "0")
	for i := range many {
		p.Changes = append(p.Changes, put(fmt.Sprintf("/d/%04d", i), "x").Changes...)
		addStore(t, log, fmt.Sprintf("store-%04d", i))
	}
	memory := commit(p).Versions[0].MemoryID
	for i := range many {
		commit(put("/a", fmt.Sprint(i+1)))
	}
	network := &once{Transport: &http.Transport{}}
	far := newServer(t, rawView(log, newBlobs())).dial(t, &gateway.Options{Transport: network})
	ctx := t.Context()
	for name, walk := range map[string]func(versionlog.Log) iter.Seq2[string, error]{
		"stores": func(l versionlog.Log) iter.Seq2[string, error] {
			return of(l.Stores(ctx, ""), func(s versionlog.Store) string { return s.ID })
		},
		"heads":        func(l versionlog.Log) iter.Seq2[string, error] { return of(l.Heads(ctx, id, "/", ""), versionID) },
		"children":     func(l versionlog.Log) iter.Seq2[string, error] { return of(l.Children(ctx, id, "/d"), versionID) },
		"history":      func(l versionlog.Log) iter.Seq2[string, error] { return of(l.History(ctx, id, memory, 0), versionID) },
		"path history": func(l versionlog.Log) iter.Seq2[string, error] { return of(l.PathHistory(ctx, id, "/a"), versionID) },
		"commits":      func(l versionlog.Log) iter.Seq2[string, error] { return of(l.Commits(ctx, id, 3), commitID) },
		"commits before": func(l versionlog.Log) iter.Seq2[string, error] {
			return of(l.CommitsBefore(ctx, id, 0, versionlog.Filter{}), commitID)
		},
	} {
		var want []string
		for one, err := range walk(log) {
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, one)
		}
		network.cut()
		n := 0
		for one, err := range walk(far) {
			if err != nil || n >= len(want) || one != want[n] {
				t.Errorf("%s: item %d is %s, %v", name, n, one, err)
				break
			}
			n++
		}
		if n != len(want) || n < many-3 {
			t.Errorf("%s: %d items, want %d", name, n, len(want))
		}
		if network.do.Load() != nil {
			t.Errorf("%s: no answer was cut", name)
		}
	}
}

func of[T any](seq iter.Seq2[T, error], id func(T) string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for one, err := range seq {
			if err != nil {
				yield("", err)
				return
			}
			if !yield(id(one), nil) {
				return
			}
		}
	}
}

func versionID(v versionlog.Version) string { return v.ID }
func commitID(c *versionlog.Commit) string  { return c.Digest.String() }

// liar returns other bytes than it is asked for.
type liar struct{ cas.Store }

func (liar) Get(context.Context, cas.Digest) ([]byte, error) { return []byte("other bytes"), nil }

// TestVerified: the client believes no server what the bytes of a digest are.
func TestVerified(t *testing.T) {
	blobs := newBlobs()
	s := newServer(t, func(*http.Request) (*view, error) {
		return &view{memlog.New(nil), func(context.Context, string, access.Right) (cas.Store, error) { return liar{blobs.of("x")}, nil }, "", nil}, nil
	})
	b := s.dial(t, nil).Blobs("x")
	d := cas.Sum([]byte("bytes"))
	if data, err := b.Get(t.Context(), d); !errors.Is(err, cas.ErrCorrupt) || data != nil {
		t.Errorf("%q, %v", data, err)
	}
	if got := b.GetBatch(t.Context(), []cas.Digest{d, d}); got[0] != nil || got[1] != nil {
		t.Errorf("%q", got)
	}
}
