package memory

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"mneme/cas"
	"mneme/cas/memcas"
	"mneme/versionlog"
	"mneme/versionlog/memlog"
)

// TestDeletionsAtOnce: deletions of one proposer that are made at the same time, each by a Store of its
// own, pass a guard as far as they would one after the other; those that fail do not count.
func TestDeletionsAtOnce(t *testing.T) {
	blobs := memcas.New()
	lib := NewLibrary(memlog.New(nil), func(string) (cas.Store, error) { return blobs, nil })
	info, err := lib.CreateStore(t.Context(), "notes", &StoreOptions{Policy: versionlog.Policy{Guard: versionlog.Guard{DeletesPerMinute: 2}}})
	if err != nil {
		t.Fatal(err)
	}
	open := func() *Store {
		s, err := lib.Open(t.Context(), info.ID, SessionAuthor("s"))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	for i := range 3 {
		if _, err := open().Remove(t.Context(), "/none", versionlog.ExpectExists()); err == nil {
			t.Errorf("removal %d of nothing passes", i)
		}
	}
	var stores []*Store
	for i := range 20 {
		s := open()
		if _, err := s.Write(t.Context(), fmt.Sprint("/", i), []byte("x"), versionlog.ExpectAbsent()); err != nil {
			t.Fatal(err)
		}
		stores = append(stores, s)
	}
	var passed atomic.Int64
	var all sync.WaitGroup
	for i, s := range stores {
		all.Go(func() {
			if _, err := s.Remove(t.Context(), fmt.Sprint("/", i), versionlog.ExpectExists()); err == nil {
				passed.Add(1)
			}
		})
	}
	all.Wait()
	if n := passed.Load(); n != 2 {
		t.Errorf("%d deletions have passed, want 2", n)
	}
}

// TestDeletionsAreBounded: proposers are forgotten where there are too many, first those that have
// deleted nothing for a minute, and never one that is committing.
func TestDeletionsAreBounded(t *testing.T) {
	var d deletions
	change := []versionlog.Change{{Action: versionlog.Remove, Path: "/a"}}
	by := func(i int) proposer { return proposer{store: fmt.Sprint(i)} }
	deleted := []versionlog.Version{{Op: versionlog.OpDeleted, Path: "/a"}}
	_, pending := d.begin(by(0), change)
	for i := 1; i < maxDeleters; i++ {
		_, done := d.begin(by(i), change)
		done(deleted)
	}
	d.of[by(5)].last -= parts
	_, done := d.begin(by(maxDeleters), change)
	done(deleted)
	if _, there := d.of[by(5)]; there || len(d.of) != maxDeleters {
		t.Errorf("%d are counted, one of a minute ago: %v", len(d.of), there)
	}
	for i := range 100 {
		_, done := d.begin(by(maxDeleters+1+i), change)
		done(nil)
	}
	if before, _ := d.begin(by(0), change); before != 1 || len(d.of) != maxDeleters {
		t.Errorf("%d are counted, %d of one that is committing", len(d.of), before)
	}
	pending(nil)
}
