package barefs

import (
	"fmt"
	"path/filepath"
	"testing"

	"mneme/internal/sqlite"
)

func newDatabase(t *testing.T) *database {
	t.Helper()
	d, err := createDatabase(filepath.Join(t.TempDir(), "record"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// filled returns n files that d has taken over, and their texts, of which every
// two are the same.
func filled(t *testing.T, d *database, n int) (files []*node, texts []string) {
	t.Helper()
	for i := range n {
		texts = append(texts, fmt.Sprint("text ", i/2))
		files = append(files, &node{path: fmt.Sprint("/", i), data: []byte(texts[i])})
	}
	if err := d.take(files); err != nil {
		t.Fatal(err)
	}
	return files, texts
}

func TestDatabaseRead(t *testing.T) {
	d := newDatabase(t)
	files, texts := filled(t, d, 2*batchSize+3)
	empty := &node{path: "/empty"}
	if err := d.take([]*node{empty}); err != nil {
		t.Fatal(err)
	}
	files, texts = append(files, empty), append(texts, "")
	half := len(files) / 2
	for _, part := range [][2]int{{0, half}, {half, len(files)}, {0, half}} {
		contents, err := d.read(files[part[0]:part[1]], files[half:])
		if err != nil {
			t.Fatal(err)
		}
		for i, data := range contents {
			if want := texts[part[0]+i]; string(data) != want {
				t.Errorf("%s has %q, want %q", files[part[0]+i].path, data, want)
			}
		}
	}
}

func TestDatabaseDamage(t *testing.T) {
	d := newDatabase(t)
	files, _ := filled(t, d, 4)
	if err := d.writer.Run(`UPDATE blobs SET data = x'00' WHERE data = ?`, []byte("text 1")); err != nil {
		t.Fatal(err)
	}
	if _, err := d.read(files[:2], nil); err != nil {
		t.Error(err)
	}
	if contents, err := d.read(files[1:3], nil); err == nil {
		t.Errorf("a damaged blob is read as %q", contents)
	}
}

func TestDatabaseKeep(t *testing.T) {
	d := newDatabase(t)
	n := &node{path: "/note"}
	for _, text := range []string{"", "one", "two", "one"} {
		n.data = []byte(text)
		if err := d.keep(n); err != nil {
			t.Fatal(err)
		}
	}
	var version, blobs int
	var data string
	err := d.writer.Each(`SELECT version, data, (SELECT count(*) FROM blobs) FROM names JOIN blobs USING (sha256) WHERE name = '/note'`,
		func(row *sqlite.Row) error {
			version, data, blobs = row.ColumnInt(0), row.ColumnText(1), row.ColumnInt(2)
			return nil
		})
	if err != nil {
		t.Fatal(err)
	}
	if version != 4 || data != "one" || blobs != 3 {
		t.Errorf("version %d is %q, %d blobs; want 4, one, 3", version, data, blobs)
	}
}
