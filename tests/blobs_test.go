package tests

import (
	"database/sql"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/ncruces/go-sqlite3/driver" // as sqlite3
)

// database opens the embedded store's database behind mneme's back.
func (e *env) database(t testing.TB) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite3", filepath.Join(e.stores, "log.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	if _, err := db.Exec(`PRAGMA busy_timeout = 10000`); err != nil {
		t.Fatal(err)
	}
	return db
}

// embeddedBlobs reads every content that the embedded store has, by SHA-256: the small
// ones from its database, the others from their files.
func (e *env) embeddedBlobs(t testing.TB) map[string]string {
	t.Helper()
	found := map[string]string{}
	add := func(sum, data string) {
		if got := sumOf(data); got != sum {
			t.Errorf("blob %s holds something else, of %d bytes", sum, len(data))
		}
		found[sum] = data
	}
	db := e.database(t)
	defer db.Close()
	rows, err := db.Query(`SELECT sha256, data FROM blobs`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var sum, data []byte
		if err := rows.Scan(&sum, &data); err != nil {
			t.Fatal(err)
		}
		add(hex.EncodeToString(sum), string(data))
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(e.stores, "stores", "*", "blobs", "??", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasPrefix(filepath.Base(file), ".") {
			continue
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		add(filepath.Base(file), string(data))
	}
	return found
}

// spoil runs a statement that changes the row of one small blob, whose SHA-256
// is its ?.
func (e *env) spoil(t testing.TB, sum, statement string) {
	t.Helper()
	raw, err := hex.DecodeString(sum)
	if err != nil {
		t.Fatal(err)
	}
	db := e.database(t)
	defer db.Close()
	result, err := db.Exec(statement, raw)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := result.RowsAffected(); err != nil || n != 1 {
		t.Fatalf("%s: %d rows, %v", statement, n, err)
	}
}

// TestDamagedBlob holds that lost or changed bytes are an error, never other
// bytes, and that the rest goes on working. A large content has a file of its
// own, a small one a row of the database.
func TestDamagedBlob(t *testing.T) {
	t.Parallel()
	const small, large = 1, 20000 // lines
	file := func(damage func(path string) error) func(*testing.T, *env, string) {
		return func(t *testing.T, e *env, sum string) {
			if err := damage(e.blobFile(t, sum)); err != nil {
				t.Fatal(err)
			}
		}
	}
	shell := func(command string) func(*testing.T, *env, string) {
		return file(func(path string) error { return exec.Command("sh", "-c", command, path).Run() })
	}
	row := func(statement string) func(*testing.T, *env, string) {
		return func(t *testing.T, e *env, sum string) { e.spoil(t, sum, statement+` WHERE sha256 = ?`) }
	}
	for _, c := range []struct {
		name   string
		lines  int
		damage func(t *testing.T, e *env, sum string)
	}{
		{"changed file", large, shell(`chmod u+w "$0"; printf X | dd of="$0" bs=1 seek=$(($(stat -c %s "$0") - 1)) conv=notrunc status=none`)},
		{"emptied file", large, file(func(path string) error { return os.WriteFile(path, nil, 0o644) })},
		{"longer file", large, shell(`chmod u+w "$0"; echo more >> "$0"`)},
		{"removed file", large, file(os.Remove)},
		{"unreadable file", large, shell(`rm "$0" && mkdir "$0"`)},
		{"changed row", small, row(`UPDATE blobs SET data = CAST(replace(CAST(data AS TEXT), 'lost', 'LOST') AS BLOB)`)},
		{"emptied row", small, row(`UPDATE blobs SET data = x''`)},
		{"longer row", small, row(`UPDATE blobs SET data = CAST(data || x'0a' AS BLOB)`)},
		{"removed row", small, row(`DELETE FROM blobs`)},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			needTools(t, "python3")
			e := newEnv(t)
			e.store("notes", "--max-memory-bytes", "1000000")
			lost := strings.Repeat("the lost words\n", c.lines)
			e.mustIn(t, lost, "write", "notes:/f")
			e.mustIn(t, "other\n", "write", "notes:/g")
			c.damage(t, e, e.versions(t, "notes:/f")[0].SHA256)
			m := e.mount(t, "notes")
			out := m.sh(t, pyErr(`
attempt(lambda: open("f").read()); attempt(lambda: open("f").read()); attempt(write, "f", b"x", "ab"); attempt(write, "f", b"x", "r+b")
print(open("g").read(), end=""); print(os.stat("f").st_size)`)+`! cat f 2> "$HOME/err"; grep -q 'Input/output error' "$HOME/err"; grep -c 'f.*' .mneme/errors | sed 's/[1-9].*/explained/'`)
			if want := fmt.Sprintf("EIO\nEIO\nEIO\nEIO\nother\n%d\nexplained\n", len(lost)); out != want {
				t.Errorf("got %q, want %q", out, want)
			}
			code := 7
			if c.name == "unreadable file" {
				code = 1
			}
			if r := e.mneme("cat", "notes:/f"); r.code != code || r.stdout != "" {
				t.Errorf("mneme cat: %v, want exit code %d", r, code)
			}
			m.sh(t, `echo x > h; echo new > f; test "$(cat f)" = new`) // who writes it anew gets it back
			e.checkHistory(t, "notes:/f", "", "created modified")
		})
	}
}

// TestSameBytesRepair holds that whoever writes what a damaged file should hold
// has it back, without a version: what close acknowledges is there.
func TestSameBytesRepair(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.store("notes", "--max-memory-bytes", "1000000")
	texts := map[string]string{"small": "the lost words\n", "large": strings.Repeat("the lost words\n", 20000)}
	damage := map[string]func(sum string){
		"small": func(sum string) { e.spoil(t, sum, `UPDATE blobs SET data = x'00' WHERE sha256 = ?`) },
		"large": func(sum string) {
			if err := os.WriteFile(e.blobFile(t, sum), []byte("other"), 0o644); err != nil {
				t.Fatal(err)
			}
		},
	}
	m := e.mount(t, "notes")
	for name, text := range texts {
		path := filepath.Join(e.dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		for _, way := range []string{`cp %s %s`, `cat %s > %s`, `dd if=%s of=%s conv=notrunc,fsync status=none`} {
			place := "notes:/" + name
			e.mustIn(t, text, "write", place)
			damage[name](e.versions(t, place)[0].SHA256)
			if r := e.mneme("cat", place); r.code == 0 {
				t.Fatalf("%s is not damaged", place)
			}
			script := fmt.Sprintf(way, path, name)
			if strings.HasPrefix(way, "dd") { // what is damaged cannot be changed in part
				script = "! " + script + "; cp " + path + " " + name
			}
			m.sh(t, script)
			if got := e.must(t, "cat", place); got != text {
				t.Errorf("%s: %d bytes are there after %s, want %d", name, len(got), way, len(text))
			}
			e.checkHistory(t, place, "", "created")
		}
	}
	e.must(t, "fsck", "notes")
}

// blobFile finds the file that holds a blob: a large one of the embedded store,
// or any that a server of the test keeps.
func (e *env) blobFile(t testing.TB, sum string) string {
	t.Helper()
	var found string
	err := filepath.WalkDir(e.stores, func(path string, _ os.DirEntry, err error) error {
		if strings.Contains(path, sum) || strings.HasSuffix(strings.ReplaceAll(path, "/", ""), sum) {
			found = path
		}
		return err
	})
	if err != nil || found == "" {
		t.Fatalf("no file for blob %s: %v", sum, err)
	}
	return found
}
