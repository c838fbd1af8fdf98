package memory

import (
	"strconv"
	"testing"

	"mneme/versionlog"
)

func TestInternerIsBounded(t *testing.T) {
	var heads Interner
	for i := range 3 * maxShared {
		v := versionlog.Version{
			ID: versionlog.FormatVersionID([16]byte{}), MemoryID: versionlog.FormatMemoryID([16]byte{}),
			Op: versionlog.OpCreated, Session: strconv.Itoa(i),
		}
		first, second := heads.NewHead(&v), heads.NewHead(&v)
		if first.by != second.by || first.by.odd != nil {
			t.Fatalf("two heads of session %d share nothing", i)
		}
		if len(heads.shared) > maxShared {
			t.Fatalf("%d authors are kept, at most %d may", len(heads.shared), maxShared)
		}
	}
}
