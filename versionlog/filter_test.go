package versionlog

import (
	"testing"
	"time"
)

func TestFilterTakes(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	c := &Commit{Session: "s", Actor: Actor{ID: "a"}, Time: at, Versions: []Version{
		{Op: OpCreated, MemoryID: "m"}, {Op: OpDeleted, MemoryID: "n"},
	}}
	for _, test := range []struct {
		filter Filter
		want   bool
	}{
		{Filter{}, true},
		{Filter{Session: "s", ActorID: "a", From: at, To: at, Op: OpCreated, MemoryID: "m"}, true},
		{Filter{Session: "t"}, false},
		{Filter{ActorID: "b"}, false},
		{Filter{From: at.Add(1)}, false},
		{Filter{To: at.Add(-1)}, false},
		{Filter{Op: OpModified}, false},
		{Filter{MemoryID: "o"}, false},
		{Filter{Op: OpDeleted}, true},
		{Filter{MemoryID: "n"}, true},
		{Filter{Op: OpCreated, MemoryID: "n"}, false}, // of another version
	} {
		if got := test.filter.Takes(c); got != test.want {
			t.Errorf("%+v: %v, want %v", test.filter, got, test.want)
		}
	}
}
