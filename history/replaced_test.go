package history_test

import (
	"fmt"
	"testing"
	"time"

	"mneme/cas"
	"mneme/cas/memcas"
	"mneme/history"
	"mneme/memory"
	"mneme/versionlog"
	"mneme/versionlog/memlog"
)

// TestReplaced: a memory replaced another one at its path only if the same session had just
// renamed that away, as editors do. Changes without a session are no such save.
func TestReplaced(t *testing.T) {
	at := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	blobs := memcas.New()
	lib := memory.NewLibrary(memlog.New(&memlog.Options{Now: func() time.Time { return at }}), func(string) (cas.Store, error) { return blobs, nil })
	info, err := lib.CreateStore(t.Context(), "notes", nil)
	if err != nil {
		t.Fatal(err)
	}
	ada := &memory.Author{Actor: versionlog.Actor{Kind: versionlog.ActorUser, ID: "ada"}}
	for i, test := range []struct {
		away, back *memory.Author
		later      time.Duration
		want       bool
	}{
		{memory.SessionAuthor("s"), memory.SessionAuthor("s"), time.Second, true},
		{memory.SessionAuthor("s"), memory.SessionAuthor("s"), time.Hour, false},
		{memory.SessionAuthor("s"), memory.SessionAuthor("t"), time.Second, false},
		{ada, ada, time.Second, false},
	} {
		path := fmt.Sprint("/", i)
		as := func(author *memory.Author) *memory.Store {
			st, err := lib.Open(t.Context(), info.ID, author)
			if err != nil {
				t.Fatal(err)
			}
			return st
		}
		_, err := as(ada).Write(t.Context(), path, []byte("1"), versionlog.ExpectAny())
		if err == nil {
			_, err = as(test.away).Rename(t.Context(), path, path+".old", nil)
		}
		at = at.Add(test.later)
		var v versionlog.Version
		if err == nil {
			v, err = as(test.back).Write(t.Context(), path, []byte("2"), versionlog.ExpectAbsent())
		}
		if err != nil {
			t.Fatal(err)
		}
		if before, ok, err := history.Replaced(t.Context(), as(ada), path, v); err != nil || ok != test.want {
			t.Errorf("%d: it took the place of %+v, %v, %v", i, before, ok, err)
		}
	}
}
