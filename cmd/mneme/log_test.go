package main

import (
	"fmt"
	"testing"

	"mneme/cas"
	"mneme/cas/memcas"
	"mneme/memory"
	"mneme/versionlog"
	"mneme/versionlog/memlog"
)

// TestNewestCommits goes over the seams of what is held at a time.
func TestNewestCommits(t *testing.T) {
	ctx := t.Context()
	blobs := memcas.New()
	lib := memory.NewLibrary(memlog.New(nil), func(string) (cas.Store, error) { return blobs, nil })
	info, err := lib.CreateStore(ctx, "notes", nil)
	if err != nil {
		t.Fatal(err)
	}
	st, err := lib.Open(ctx, info.ID, &memory.Author{Actor: versionlog.Actor{Kind: versionlog.ActorUser, ID: "u"}})
	if err != nil {
		t.Fatal(err)
	}
	const total = 2*commitsAtOnce + 1
	for i := range total {
		if _, err := st.Write(ctx, "/a", fmt.Append(nil, i), versionlog.ExpectAny()); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range []uint64{0, 1, commitsAtOnce, commitsAtOnce + 1, total, total + 1} {
		want, left := uint64(total), n
		if n == 0 || n > total {
			left = total
		}
		for c, err := range newestCommits(ctx, st, n) {
			if err != nil {
				t.Fatal(err)
			}
			if c.Seq != want {
				t.Fatalf("newest %d: sequence %d, want %d", n, c.Seq, want)
			}
			want, left = want-1, left-1
		}
		if left != 0 {
			t.Errorf("newest %d: %d are missing", n, left)
		}
	}
}
