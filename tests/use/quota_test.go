package use

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"mneme/tests/harness"
)

// TestQuotas holds that a mount adds to a store's history what its quota allows, and
// leaves the disk's reserve alone; that what it is refused changes nothing; and that
// deleting, and people, are not bounded.
func TestQuotas(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		flags   []string
		fill    string // what is allowed
		over    string // what is not
		message string
	}{
		"bytes":    {[]string{"--quota-bytes=300"}, `for i in 1 2 3; do head -c 90 /dev/zero | tr '\0' $i > f; done`, `head -c 90 /dev/zero | cat > f`, "Disk quota exceeded"},
		"memories": {[]string{"--quota-memories=2"}, `echo 1 > f; echo 2 > g; echo 3 > f`, `echo 4 | cat > h`, "Disk quota exceeded"},
		"versions": {[]string{"--quota-versions=3"}, `echo 1 > f; echo 2 > f; mv f g; cp g f 2>/dev/null || true`, `mv g h`, "Disk quota exceeded"},
		"reserve":  {[]string{"--min-free=1000000TiB"}, `true`, `echo 1 | cat > f`, "No space left on device"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := harness.NewEnv(t)
			e.Store("notes")
			e.MustIn(t, "old\n", "write", "notes:/old")
			m := e.Mount(t, append([]string{"notes"}, test.flags...)...)
			m.Sh(t, test.fill)
			before := m.Sh(t, `ls; cat *`)
			if message := m.Sh(t, `{ ! `+test.over+`; } 2>&1`); !strings.Contains(message, test.message) {
				t.Errorf("what is over the quota is told %q, want %q", message, test.message)
			}
			if after := m.Sh(t, `ls; cat *`); after != before {
				t.Errorf("what was refused has left %q, want %q", after, before)
			}
			m.Sh(t, `grep -q -e quota -e min-free .mneme/errors; rm old; ! ls old 2> /dev/null`)
			e.MustIn(t, "by a person\n", "write", "notes:/people")
		})
	}
}

// TestStoreQuota holds that the quota of a store bounds all its mounts together, is
// obeyed by those that are there when it is set, and lets them go on when it is raised.
func TestStoreQuota(t *testing.T) {
	t.Parallel()
	e := harness.NewEnv(t)
	e.Store("notes")
	one, other := e.Mount(t, "notes"), e.Mount(t, "notes")
	one.Sh(t, `head -c 90 /dev/zero | tr '\0' 1 > f`)
	e.Must(t, "store", "update", "notes", "--quota-bytes", "200")
	other.Sh(t, `head -c 90 /dev/zero | tr '\0' 2 > g`)
	refused := `{ ! head -c 90 /dev/zero | cat > h; } 2>&1`
	for _, m := range []*harness.Mount{one, other} {
		if message := m.Sh(t, refused); !strings.Contains(message, "Disk quota exceeded") {
			t.Errorf("what is over the quota is told %q", message)
		}
		m.Sh(t, `grep -q "the store has used 180 of 200 bytes of history" .mneme/errors`)
	}
	other.Sh(t, `rm g`)
	e.Must(t, "store", "update", "notes", "--quota-bytes", "300")
	other.Sh(t, `head -c 90 /dev/zero | tr '\0' 3 > h`)
}

// TestDeleteWhereTheDiskIsFull fills a disk with one store: another can be deleted all
// the same, and what that frees can be written.
func TestDeleteWhereTheDiskIsFull(t *testing.T) {
	t.Parallel()
	e := harness.NewEnv(t)
	if err := os.MkdirAll(e.Stores, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("none", e.Stores, "tmpfs", 0, "size=96m,mode=700"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(e.Stores, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	e.Store("notes")
	e.MustIn(t, "old\n", "write", "notes:/old")
	m := e.Mount(t, "junk")
	out := m.Sh(t, harness.PyErr(`
try:
    for i in range(2000): write("f%d" % i, os.urandom(50000).hex().encode())
except OSError as err: print(errno.errorcode[err.errno])`))
	if out != "ENOSPC\n" {
		t.Errorf("filling a disk of 96 MiB ends with %q", out)
	}
	m.Stop(t)
	var disk syscall.Statfs_t
	if err := syscall.Statfs(e.Stores, &disk); err != nil {
		t.Fatal(err)
	}
	const free = 5 << 20 // less than commands leave
	if err := os.WriteFile(filepath.Join(e.Stores, "filler"), make([]byte, int64(disk.Bavail)*disk.Frsize-free), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := e.MnemeIn(t, "new\n", "write", "notes:/new"); r.Code != 6 || !strings.Contains(r.Stderr, "are kept to delete with") {
		t.Errorf("writing to a full disk: %v", r)
	}
	e.Must(t, "rm", "notes:/old")
	e.Must(t, "store", "delete", "junk", "--yes")
	e.MustIn(t, "new\n", "write", "notes:/new")
	e.Must(t, "fsck", "notes")
}
