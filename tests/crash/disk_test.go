package crash

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mneme/tests/harness"
)

// TestAppendsOnDisk holds that a file which grows by appends, in a mount, takes little
// more than its size on disk when the mount has come to rest, and that every version is
// what it was.
func TestAppendsOnDisk(t *testing.T) {
	t.Parallel()
	e := harness.NewEnv(t)
	m := e.Mount(t, "notes")
	const (
		appends   = 100
		keptAhead = 5 << 20 // of the write-ahead log, for the next commits to write over
	)
	var text strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&text, "%d is line %d\n", i*i*i, i)
	}
	m.Sh(t, fmt.Sprintf(`
cat > f <<'END'
%sEND
for i in $(seq %d); do echo $i >> f; done`, text.String(), appends))
	database := filepath.Join(e.Stores, "log.db")
	size := func() int64 {
		info, err := os.Stat(database)
		if err != nil {
			t.Fatal(err)
		}
		ahead, err := os.Stat(database + "-wal")
		if err != nil {
			t.Fatal(err)
		}
		return info.Size() + max(0, ahead.Size()-keptAhead)
	}
	limit := int64(3*text.Len() + appends*2000)
	for deadline := time.Now().Add(time.Minute); size() > limit; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d bytes, want %d at most", size(), limit)
		}
	}
	versions := e.Versions(t, "notes:/f")
	blobs := e.EmbeddedBlobs(t)
	for _, v := range versions {
		if int64(len(blobs[v.SHA256])) != v.Size {
			t.Errorf("version %d has %d bytes", v.Seq, len(blobs[v.SHA256]))
		}
	}
	if want := appends + 1; len(versions) != want {
		t.Errorf("%d versions, want %d", len(versions), want)
	}
}
