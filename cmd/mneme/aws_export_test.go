package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAWSExport: a store that goes from S3 and DynamoDB to a disk and back is the same
// archive everywhere.
func TestAWSExport(t *testing.T) {
	t.Parallel()
	p := newAWSPlace(t)
	p.must("two\n", "write", "notes:/a.md")
	p.must("", "mv", "notes:/a.md", "notes:/dir/b.md")
	archive := p.must("", "export", "notes")
	file := filepath.Join(t.TempDir(), "notes.tar")
	if err := os.WriteFile(file, []byte(archive), 0o600); err != nil {
		t.Fatal(err)
	}
	disk := p.with("file://" + t.TempDir() + "/stores")
	disk.must(archive, "import", "-")
	if have := disk.must("", "export", "notes"); have != archive {
		t.Error("the archive of the store on the disk is another one")
	}
	disk.must("three\n", "write", "notes:/c.md")
	longer := disk.must("", "export", "notes")
	p.must(longer, "import", "-", "--mode", "replace", "--keep", filepath.Join(t.TempDir(), "unused"))
	if have := p.must("", "export", "notes"); have != longer {
		t.Error("the archive of the store in S3 is another one, once what came later was brought there")
	}
	p.must("", "import", file, "notes", "--mode", "merge")
	p.must("", "store", "delete", "notes", "--yes")
	p.must("", "import", file)
	if have := p.must("", "export", "notes"); have != archive {
		t.Error("the archive of the store that was made anew in S3 is another one")
	}
	p.must("", "fsck", "notes")

	// A change that does not fit a transaction there is refused before anything is made or
	// deleted.
	var puts []string
	for i := range 98 {
		puts = append(puts, fmt.Sprintf(`{"action":"put","path":"/many/%d","content":""}`, i))
	}
	disk.must(`{"changes":[`+strings.Join(puts, ",")+`]}`, "apply", "notes")
	large := disk.must("", "export", "notes")
	p.must("", "store", "archive", "notes", "--yes")
	whole := p.must("", "export", "notes")
	kept := filepath.Join(t.TempDir(), "kept.tar")
	if e := p.mneme(large, "import", "-", "--mode", "replace", "--keep", kept); e.code == 0 || !strings.Contains(e.stderr, "too many changes") {
		t.Errorf("%+v", e)
	}
	if have := p.must("", "export", "notes"); have != whole {
		t.Error("a store was replaced by one that cannot be kept there")
	}
	p.must("", "store", "delete", "notes", "--yes")
	if e := p.mneme(large, "import", "-"); e.code == 0 || p.must("", "store", "list", "--json") != "" {
		t.Errorf("%+v, and there is a store", e)
	}
}
