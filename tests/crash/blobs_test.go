package crash

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"mneme/tests/harness"
)

// TestDamagedBlob holds that lost or changed bytes are an error, never other
// bytes, and that the rest goes on working. A large content has a file of its
// own, a small one a row of the database.
func TestDamagedBlob(t *testing.T) {
	t.Parallel()
	const small, large = 1, 20000 // lines
	file := func(damage func(path string) error) func(*testing.T, *harness.Env, string) {
		return func(t *testing.T, e *harness.Env, sum string) {
			if err := damage(e.BlobFile(t, sum)); err != nil {
				t.Fatal(err)
			}
		}
	}
	shell := func(command string) func(*testing.T, *harness.Env, string) {
		return file(func(path string) error { return exec.Command("sh", "-c", command, path).Run() })
	}
	row := func(statement string) func(*testing.T, *harness.Env, string) {
		return func(t *testing.T, e *harness.Env, sum string) { e.Spoil(t, sum, statement+` WHERE sha256 = ?`) }
	}
	for _, c := range []struct {
		name   string
		lines  int
		damage func(t *testing.T, e *harness.Env, sum string)
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
			harness.NeedTools(t, "python3")
			e := harness.NewEnv(t)
			e.Store("notes", "--max-memory-bytes", "1000000")
			lost := strings.Repeat("the lost words\n", c.lines)
			e.MustIn(t, lost, "write", "notes:/f")
			e.MustIn(t, "other\n", "write", "notes:/g")
			c.damage(t, e, e.Versions(t, "notes:/f")[0].SHA256)
			m := e.Mount(t, "notes")
			out := m.Sh(t, harness.PyErr(`
attempt(lambda: open("f").read()); attempt(lambda: open("f").read()); attempt(write, "f", b"x", "ab"); attempt(write, "f", b"x", "r+b")
print(open("g").read(), end=""); print(os.stat("f").st_size)`)+`! cat f 2> "$HOME/err"; grep -q 'Input/output error' "$HOME/err"; grep -c 'f.*' .mneme/errors | sed 's/[1-9].*/explained/'`)
			if want := fmt.Sprintf("EIO\nEIO\nEIO\nEIO\nother\n%d\nexplained\n", len(lost)); out != want {
				t.Errorf("got %q, want %q", out, want)
			}
			code := 7
			if c.name == "unreadable file" {
				code = 1
			}
			if r := e.Mneme("cat", "notes:/f"); r.Code != code || r.Stdout != "" {
				t.Errorf("mneme cat: %v, want exit code %d", r, code)
			}
			m.Sh(t, `echo x > h; echo new > f; test "$(cat f)" = new`) // a program that writes it again gets it back
			e.CheckHistory(t, "notes:/f", "", "created modified")
		})
	}
}

// TestSameBytesRepair holds that a program that writes the bytes which a damaged file should hold
// has them back, without a version: bytes that close acknowledges are there.
func TestSameBytesRepair(t *testing.T) {
	t.Parallel()
	e := harness.NewEnv(t)
	e.Store("notes", "--max-memory-bytes", "1000000")
	texts := map[string]string{"small": "the lost words\n", "large": strings.Repeat("the lost words\n", 20000)}
	damage := map[string]func(sum string){
		"small": func(sum string) { e.Spoil(t, sum, `UPDATE blobs SET data = x'00' WHERE sha256 = ?`) },
		"large": func(sum string) {
			if err := os.WriteFile(e.BlobFile(t, sum), []byte("other"), 0o644); err != nil {
				t.Fatal(err)
			}
		},
	}
	m := e.Mount(t, "notes")
	for name, text := range texts {
		path := filepath.Join(e.Dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		for _, way := range []string{`cp %s %s`, `cat %s > %s`, `dd if=%s of=%s conv=notrunc,fsync status=none`} {
			place := "notes:/" + name
			e.MustIn(t, text, "write", place)
			damage[name](e.Versions(t, place)[0].SHA256)
			if r := e.Mneme("cat", place); r.Code == 0 {
				t.Fatalf("%s is not damaged", place)
			}
			script := fmt.Sprintf(way, path, name)
			if strings.HasPrefix(way, "dd") { // what is damaged cannot be changed in part
				script = "! " + script + "; cp " + path + " " + name
			}
			m.Sh(t, script)
			if got := e.Must(t, "cat", place); got != text {
				t.Errorf("%s: %d bytes are there after %s, want %d", name, len(got), way, len(text))
			}
			e.CheckHistory(t, place, "", "created")
		}
	}
	e.Must(t, "fsck", "notes")
}
