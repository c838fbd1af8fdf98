package versionlog

import "testing"

// TestOnlyRemoves: an archived store is only removed from, whatever of that was erased since.
func TestOnlyRemoves(t *testing.T) {
	deleted, made := Version{Op: OpDeleted, Path: "/d/x"}, Version{Op: OpCreated, Path: "/d/"}
	goneDeleted, goneMade := Version{Op: OpDeleted}, Version{Op: OpCreated}
	for _, test := range []struct {
		versions []Version
		want     bool
	}{
		{[]Version{deleted}, true}, {[]Version{deleted, made}, true}, {[]Version{goneDeleted, made}, true}, {[]Version{deleted, goneMade}, true},
		{[]Version{made}, false}, {[]Version{goneMade}, false}, {[]Version{goneDeleted, {Op: OpCreated, Path: "/f"}}, false}, {[]Version{deleted, {Op: OpCreated, Path: "/e/"}}, false},
		{[]Version{goneDeleted, {Op: OpModified, Path: "/f"}}, false},
	} {
		if got := onlyRemoves(test.versions); got != test.want {
			t.Errorf("%+v: %v", test.versions, got)
		}
	}
}
