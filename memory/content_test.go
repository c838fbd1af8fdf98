package memory_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"mneme/cas"
	"mneme/cas/memcas"
	"mneme/memory"
	"mneme/versionlog"
	"mneme/versionlog/memlog"
)

// keeper is a log that keeps contents of up to ten bytes, and refuses commits
// when it is told to.
type keeper struct {
	versionlog.Log
	kept   *memcas.Store
	refuse error
}

func (k *keeper) Capabilities() versionlog.Capabilities {
	return versionlog.Capabilities{MaxContent: 10}
}

func (k *keeper) Commit(ctx context.Context, storeID string, p *versionlog.Proposal) (*versionlog.Commit, error) {
	if k.refuse != nil {
		return nil, k.refuse
	}
	for _, c := range p.Changes {
		if c.Content == nil {
			continue
		}
		if d, err := k.kept.Put(ctx, c.Content); err != nil || d != c.Digest {
			return nil, errors.Join(err, errors.New("the digest is another content's"))
		}
	}
	return k.Log.Commit(ctx, storeID, p)
}

// TestContentGoesToTheLog: a log that keeps contents gets those of its size
// with the commit, and nothing is put beforehand; larger ones are put.
func TestContentGoesToTheLog(t *testing.T) {
	ctx := t.Context()
	log := &keeper{Log: memlog.New(nil), kept: memcas.New()}
	put := memcas.New()
	lib := memory.NewLibrary(log, func(string) (cas.Store, error) { return put, nil })
	info, err := lib.CreateStore(ctx, "notes", nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := lib.Open(ctx, info.ID, author)
	if err != nil {
		t.Fatal(err)
	}
	where := func(text string) (kept, stored bool) {
		t.Helper()
		var errs [2]error
		kept, errs[0] = log.kept.Has(ctx, cas.Sum([]byte(text)))
		stored, errs[1] = put.Has(ctx, cas.Sum([]byte(text)))
		if err := errors.Join(errs[:]...); err != nil {
			t.Fatal(err)
		}
		return kept, stored
	}
	for _, text := range []string{"small", "", strings.Repeat("large", 10)} {
		v, err := s.Write(ctx, "/a", []byte(text), versionlog.ExpectAny())
		if err != nil || v.Digest != cas.Sum([]byte(text)) || v.Size != int64(len(text)) {
			t.Fatalf("version %+v, %v", v, err)
		}
		if kept, stored := where(text); kept != (len(text) <= 10) || stored == kept {
			t.Errorf("%q is in the log: %v, in the blob store: %v", text, kept, stored)
		}
	}
	if _, err := s.Write(ctx, "/nil", nil, versionlog.ExpectAny()); err != nil {
		t.Error(err)
	}
	log.refuse = versionlog.ErrArchived
	if _, err := s.Write(ctx, "/b", []byte("refused"), versionlog.ExpectAny()); !errors.Is(err, versionlog.ErrArchived) {
		t.Errorf("error is %v", err)
	}
	if kept, stored := where("refused"); kept || stored {
		t.Error("a refused commit left its content")
	}
}
