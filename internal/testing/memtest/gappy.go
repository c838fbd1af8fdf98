package memtest

import (
	"context"
	"iter"
	"slices"
	"testing"

	"mneme/cas/memcas"
	"mneme/memory"
	"mneme/versionlog"
	"mneme/versionlog/memlog"
)

// redacting is a log in which versions are erased as a redaction does it.
type redacting struct {
	versionlog.Log
	erased map[uint64]bool // sequence numbers of their commits
}

func (l *redacting) version(v versionlog.Version) versionlog.Version {
	if l.erased[v.Seq] {
		v.Path, v.From, v.Spelling, v.Digest, v.Size = "", "", "", versionlog.Digest{}, 0
	}
	return v
}

func (l *redacting) versions(all iter.Seq2[versionlog.Version, error]) iter.Seq2[versionlog.Version, error] {
	return func(yield func(versionlog.Version, error) bool) {
		for v, err := range all {
			if !yield(l.version(v), err) {
				return
			}
		}
	}
}

func (l *redacting) commits(all iter.Seq2[*versionlog.Commit, error]) iter.Seq2[*versionlog.Commit, error] {
	return func(yield func(*versionlog.Commit, error) bool) {
		for c, err := range all {
			if err == nil && l.erased[c.Seq] {
				copied := *c
				copied.Versions = slices.Clone(c.Versions)
				for i, v := range copied.Versions {
					copied.Versions[i] = l.version(v)
				}
				c = &copied
			}
			if !yield(c, err) {
				return
			}
		}
	}
}

func (l *redacting) History(ctx context.Context, store, memory string, before uint64) iter.Seq2[versionlog.Version, error] {
	return l.versions(l.Log.History(ctx, store, memory, before))
}

func (l *redacting) Version(ctx context.Context, store, id string) (versionlog.Version, error) {
	v, err := l.Log.Version(ctx, store, id)
	return l.version(v), err
}

func (l *redacting) Commits(ctx context.Context, store string, after uint64) iter.Seq2[*versionlog.Commit, error] {
	return l.commits(l.Log.Commits(ctx, store, after))
}

func (l *redacting) CommitsBefore(ctx context.Context, store string, before uint64, f versionlog.Filter) iter.Seq2[*versionlog.Commit, error] {
	return l.commits(l.Log.CommitsBefore(ctx, store, before, f))
}

// NewGappy is New with a log in which the versions of the commits with these sequence numbers are
// erased, and with blobs that Lose removes.
func NewGappy(t *testing.T, erased ...uint64) *Fixture {
	t.Helper()
	log := &redacting{Log: memlog.New(nil), erased: map[uint64]bool{}}
	for _, seq := range erased {
		log.erased[seq] = true
	}
	f := &Fixture{T: t, Blobs: map[string]*memcas.Store{}}
	return f.open(log, &memory.StoreOptions{Content: versionlog.ContentAny})
}

// Lose removes the bytes of a version from the blobs of NewGappy.
func (f *Fixture) Lose(v versionlog.Version) {
	f.T.Helper()
	if err := f.Blobs[f.Info().ID].Delete(f.T.Context(), v.Digest); err != nil {
		f.T.Fatal(err)
	}
}
