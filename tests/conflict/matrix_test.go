package conflict

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"mneme/internal/testing/awstest"
	"mneme/internal/testing/turn"
	"mneme/memory"
	"mneme/tests/harness"
	"mneme/versionlog"
)

var update = flag.Bool("update", false, "write the table of docs/SEMANTICS.md anew")

// way is a way to write a file. Its script makes f, or a line of it, "mine".
// $SRC is a file outside the store that holds "mine".
type way struct{ name, needs, script string }

// changeDatabase are the ways that change a database of SQLite's.
var changeDatabase = map[string]bool{"`sqlite3`": true}

func pythonWay(name, code string) way {
	return way{"Python: " + name, "python3", "python3 - <<'END'\nimport mmap, os, pathlib, shutil, tempfile\n" + code + "\nEND\n"}
}

func nodeWay(name, code string) way {
	return way{"Node: " + name, "node", "node - <<'END'\nconst fs = require('fs')\n" + code + "\nEND\n"}
}

func emacsWay(name, set string) way {
	edit := set + ` (goto-char (point-min)) (delete-char 1) (insert "mine") (save-buffer)`
	return way{name, "emacs", harness.EmacsCommand(edit) + ` > /dev/null 2> "$SRC.said" ||
		{ cat "$SRC.said" >&2; false; }`}
}

// goWay is what the test's own child does, a Go program.
func goWay(name, op string) way {
	return way{"Go: " + name, "", `echo '{"op":"` + op + `","path":"f","text":"mine\n"}' | MNEME_TEST_CHILD=agent "$SELF" . | grep -q '"errno":0'`}
}

var ways = []way{
	{"`>`", "", `echo mine > f`},
	{"`>` in sh", "", `sh -c 'echo mine > f'`},
	{"`>` around commands", "", `{ true; echo mine; } > f`},
	{"`>` around a program", "", `{ /bin/true; /bin/echo mine; } > f`},
	{"`exec 3>`", "", `exec 3> f; echo mine >&3; exec 3>&-`},
	{"`<>`", "", `echo mine 1<> f`},
	{"`>>`", "", `echo mine >> f`},
	{"`cat >`", "", `cat "$SRC" | cat > f`},
	{"`tee`", "", `cat "$SRC" | tee f > /dev/null`},
	{"`tee -a`", "", `cat "$SRC" | tee -a f > /dev/null`},
	{"`dd`", "", `cat "$SRC" | dd of=f status=none`},
	{"`dd conv=notrunc`", "", `cat "$SRC" | dd of=f conv=notrunc status=none`},
	{"`dd conv=fsync`", "", `cat "$SRC" | dd of=f conv=fsync status=none`},
	{"`cp`", "", `cp "$SRC" f`},
	{"`cp` of a pipe", "", `cat "$SRC" | cp /dev/stdin f`},
	{"`cp --remove-destination`", "", `cp --remove-destination "$SRC" f`},
	{"`cp --backup`", "", `cp --backup "$SRC" f`},
	{"`install`", "", `install "$SRC" f`},
	{"`mv` from elsewhere", "", `cp "$SRC" "$SRC.2"; mv "$SRC.2" f`},
	{"`mv` within the store", "", `cp "$SRC" g; mv g f`},
	{"`sort -o`", "", `sort -o f "$SRC"`},
	{"`shuf -o`", "", `shuf -o f "$SRC"`},
	{"`uniq`", "", `uniq "$SRC" f`},
	{"`rm`, then `>`", "", `rm f; echo mine > f`},
	{"`truncate`, then `>>`", "", `truncate -s 0 f; echo mine >> f`},
	{"`sed -i`", "", `sed -i 's/^1/mine/' f`},
	{"`sed >`, then `mv`", "", `sed 's/^1/mine/' f > f.tmp; mv f.tmp f`},
	{"`awk >`", "awk", `awk 'BEGIN { print "mine" > "f" }'`},
	{"`perl -i`", "perl", `perl -i -pe 's/^1/mine/' f`},
	{"Perl: `open`", "perl", `perl -e 'open(F, ">", "f") or die "$!"; print F "mine\n"; close(F) or die "$!"'`},
	{"`ed`", "ed", `printf '%s\n' '1s/^1/mine/' w q | ed -s f > /dev/null`},
	{"`ex`", "ex", `ex -s -N -u NONE -c '1s/^1/mine/' -c 'w!' -c 'q!' f < <(yes y) > /dev/null`},
	{"`vim`, file renamed away", "vim", `vim -es -N -u NONE -c 'set backupskip= backupcopy=no writebackup' -c '1s/^1/mine/' -c 'w!' -c 'q!' f < <(yes y) > /dev/null`},
	{"`vim`, written in place", "vim", `vim -es -N -u NONE -c 'set backupskip= backupcopy=yes writebackup' -c '1s/^1/mine/' -c 'w!' -c 'q!' f < <(yes y) > /dev/null`},
	emacsWay("`emacs`", ""),
	emacsWay("`emacs`, copying the backup", "(setq backup-by-copying t)"),
	emacsWay("`emacs`, `file-precious-flag`", "(setq file-precious-flag t)"),
	{"`patch`", "patch", `printf '%s\n' '--- f' '+++ f' '@@ -1,2 +1,2 @@' '-1' '+mine' ' 2' | patch -s f`},
	{"`rsync`", "rsync", `rsync "$SRC" f`},
	{"`rsync --inplace`", "rsync", `rsync --inplace "$SRC" f`},
	{"`tar -x`", "tar", `mkdir "$SRC.d"; cp "$SRC" "$SRC.d/f"; tar -C "$SRC.d" -c f | tar -x`},
	{"`tar -x --overwrite`", "tar", `mkdir "$SRC.d"; cp "$SRC" "$SRC.d/f"; tar -C "$SRC.d" -c f | tar -x --overwrite`},
	{"`git show >`", "git", `git init -q "$SRC.git"; cp "$SRC" "$SRC.git/f"; git -C "$SRC.git" add f; git -C "$SRC.git" show :f > f`},
	{"`sqlite3`", "sqlite3", `sqlite3 f "update t set x = 'mine' where x = '1'"`},
	pythonWay("`open(…, 'w')`", `f = open("f", "w"); f.write("mine\n"); f.close()`),
	pythonWay("`open(…, 'w')` and `fsync`", `f = open("f", "w"); f.write("mine\n"); f.flush(); os.fsync(f.fileno()); f.close()`),
	pythonWay("`open(…, 'r+')`, only writing", `f = open("f", "r+b", buffering=0); f.write(b"mine\n"); f.close()`),
	pythonWay("`open(…, 'r+')`, read first", `f = open("f", "r+b", buffering=0); s = f.read(); f.seek(0); f.write(s.replace(b"1", b"mine", 1)); f.close()`),
	pythonWay("`open(…, 'a')`", `f = open("f", "a"); f.write("mine\n"); f.close()`),
	pythonWay("`write_text`", `pathlib.Path("f").write_text("mine\n")`),
	pythonWay("`os.replace`", `open("f.tmp", "w").write("mine\n"); os.replace("f.tmp", "f")`),
	pythonWay("`tempfile` and `os.replace`", `
t = tempfile.NamedTemporaryFile("w", dir=".", delete=False); t.write("mine\n"); t.flush(); os.fsync(t.fileno()); t.close(); os.replace(t.name, "f")`),
	pythonWay("`shutil.copyfile`", `shutil.copyfile(os.environ["SRC"], "f")`),
	pythonWay("`shutil.move`", `shutil.copyfile(os.environ["SRC"], "g"); shutil.move("g", "f")`),
	pythonWay("`mmap`", `
f = open("f", "r+b", buffering=0); m = mmap.mmap(f.fileno(), 0); m[0:4] = b"mine"; m.flush(); m.close(); f.close()`),
	pythonWay("`os.truncate`, then `'a'`", `os.truncate("f", 0); open("f", "a").write("mine\n")`),
	nodeWay("`writeFileSync`", `fs.writeFileSync('f', 'mine\n')`),
	nodeWay("`openSync`", `const d = fs.openSync('f', 'w'); fs.writeSync(d, 'mine\n'); fs.closeSync(d)`),
	nodeWay("`promises.writeFile`", `fs.promises.writeFile('f', 'mine\n')`),
	nodeWay("`createWriteStream`", `const s = fs.createWriteStream('f'); s.end('mine\n')`),
	nodeWay("`appendFileSync`", `fs.appendFileSync('f', 'mine\n')`),
	nodeWay("`renameSync`", `fs.writeFileSync('f.tmp-1', 'mine\n'); fs.renameSync('f.tmp-1', 'f')`),
	goWay("`O_TRUNC`", "put"),
	goWay("`O_APPEND`", "append"),
	goWay("rename", "replace"),
}

// moments are when another session changes the file.
var moments = []struct {
	name  string
	point point
}{
	{"before `open`", atStart}, {"and searched, before `open`", searched}, {"after `open`", atOpened}, {"before `fsync` or `close`", atClose}, {"before `rename`, `unlink`", atName},
}

// matrixBackends are where the store of a matrix is.
var matrixBackends = []string{"embedded", "AWS"}

// TestEveryWayToWrite has another session change a file that a program is about
// to write, before it opens the file, likewise with another program of the session
// reading all files then, when it has just opened it, before it syncs or closes what it has written, and before it renames or removes the file or
// renames another over it, all at the very system call. The other session's
// change must be there afterwards, and what the program wrote is there, too, or
// the program says that it failed, or it is kept as a conflict.
func TestEveryWayToWrite(t *testing.T) {
	t.Parallel()
	t.Logf("%s=%d", turn.Variable, turn.Number())
	table := map[string][][]string{}
	t.Run("on", func(t *testing.T) {
		for _, backend := range matrixBackends {
			cells := make([][]string, len(ways))
			for i := range cells {
				cells[i] = make([]string, len(moments))
			}
			table[backend] = cells
			t.Run(backend, func(t *testing.T) {
				t.Parallel()
				if backend == "AWS" {
					fillMatrix(t, backend, cells)
				} else {
					harness.EachDaemon(t, func(t *testing.T) { fillMatrix(t, backend, cells) })
				}
			})
		}
	})
	if *update && !harness.BothDaemons() && !t.Failed() {
		writeMatrix(t, matrixText(table))
	}
	doc, err := os.ReadFile("../../docs/SEMANTICS.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range ways {
		if !strings.Contains(string(doc), "\n| "+w.name+" |") {
			t.Errorf("docs/SEMANTICS.md does not have %s; go test ./tests -run EveryWayToWrite -update writes it", w.name)
		}
	}
}

// tries reports whether a run tries a way at a moment. In CI it tries each way at one moment on
// each backend, and on the embedded one at another moment with the other daemon.
func tries(t *testing.T, backend string, way, moment int) bool {
	part := way + moment
	switch {
	case backend == "AWS":
		part += 1
	case harness.Raced(t):
		part += 3
	}
	return turn.Due(part, len(moments))
}

const matrixMounts = 4

// fillMatrix tries ways at moments, in a few mounts of one store. Those
// of the embedded store have heard of a change that comes before the open; on
// AWS they hear of nothing by themselves.
func fillMatrix(t *testing.T, backend string, cells [][]string) {
	e := harness.NewEnv(t)
	x := &matrix{heard: true}
	var flags []string
	if backend == "AWS" {
		e.GoRemote(awstest.S3(t), awstest.DynamoDB(t))
		x.heard, flags = false, []string{"--refresh=1h"}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	e.Store("notes", "--content", "any")
	x.prelude = fmt.Sprintf("export SELF='%s' SRC='%s'.${PWD##*/}; echo mine > \"$SRC\"\n", self, filepath.Join(e.Dir, "src"))
	x.other = e.OtherSession(t, "notes")
	var work sync.WaitGroup
	defer work.Wait()
	for worker := range matrixMounts {
		m := e.Mount(t, append([]string{"notes"}, flags...)...)
		tracer := startTracer(t, m)
		work.Go(func() {
			for i := worker; i < len(ways); i += matrixMounts {
				w := ways[i]
				t.Run(strings.NewReplacer("`", "", " ", "-", "/", "").Replace(w.name), func(t *testing.T) {
					if w.needs != "" {
						harness.NeedTools(t, w.needs)
					}
					for j := range moments {
						if tries(t, backend, i, j) {
							cells[i][j] = x.overtake(t, tracer, w, fmt.Sprintf("w%02d-%d", i, j), j)
						}
					}
				})
			}
		})
	}
}

// matrix is what all ways are tried with.
type matrix struct {
	prelude string // of every script
	other   *memory.Store
	heard   bool // the mount has heard of a change before the program begins
}

// overtake runs one way at one moment and returns what came of it.
func (x *matrix) overtake(t *testing.T, r *tracer, w way, dir string, moment int) string {
	t.Helper()
	before, theirs := []byte("1\n2\n3\n"), []byte("1\n2\nthree\n")
	if changeDatabase[w.name] {
		before, theirs = database(t, "1", "2", "3"), database(t, "1", "2", "three")
	}
	path := "/" + dir + "/f"
	c := traceCall{Script: x.prelude + w.script, Dir: dir, File: "f", Text: before, Point: moments[moment].point}
	if x.heard || c.Point == searched {
		c.Hear = int64(len(theirs))
	}
	reply, reached := r.run(t, c, func() {
		if _, err := x.other.Write(t.Context(), path, theirs, versionlog.ExpectAny()); err != nil {
			t.Errorf("the other session: %v", err)
		}
	})
	_, head, err := x.other.Read(t.Context(), path)
	if err != nil {
		t.Errorf("changed %s: %v\n%+v", moments[moment].name, err, reply)
	}
	mine := strings.Contains(string(head), "mine")
	loud := reply.Code != 0 || reply.Said != ""
	kept := slices.ContainsFunc(reply.Kept, func(text string) bool { return strings.Contains(text, "mine") })
	problem := ""
	switch {
	case !reached && (loud || !mine):
		problem = "the way does not write"
	case !reached:
		return "–"
	case !strings.Contains(string(head), "three"):
		problem = "the other session's change is gone"
	case mine:
		return "on top of it"
	case !loud && !kept:
		problem = "what was written is gone, and nobody was told"
	}
	if problem != "" {
		t.Errorf("changed %s: %s; there is %q\n%+v", moments[moment].name, problem, head, reply)
	}
	switch {
	case loud && kept:
		return "refused, kept"
	case kept:
		return "kept"
	}
	return "refused"
}

// database returns the bytes of a database with a table t of one column x.
func database(t *testing.T, rows ...string) []byte {
	t.Helper()
	file := filepath.Join(t.TempDir(), "db")
	sql := "create table t(x);"
	for _, x := range rows {
		sql += "insert into t values ('" + x + "');"
	}
	if out, err := exec.Command("sqlite3", file, sql).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

const (
	matrixBegin = "<!-- what every way to write does: tests/conflict/matrix_test.go -->\n"
	matrixEnd   = "<!-- end -->\n"
)

// matrixText is the table. Where the backends do the same they share a cell.
func matrixText(table map[string][][]string) string {
	var b strings.Builder
	b.WriteString("| way |")
	for _, moment := range moments {
		b.WriteString(" changed " + moment.name + " |")
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(moments)) + "\n")
	for i, w := range ways {
		b.WriteString("| " + w.name + " |")
		for j := range moments {
			embedded, aws := table["embedded"][i][j], table["AWS"][i][j]
			if embedded != aws {
				embedded += " (AWS: " + aws + ")"
			}
			b.WriteString(" " + embedded + " |")
		}
		b.WriteString("\n")
	}
	return b.String()
}

func writeMatrix(t *testing.T, text string) {
	t.Helper()
	const path = "../../docs/SEMANTICS.md"
	doc, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(doc), matrixBegin)
	_, after, ended := strings.Cut(rest, matrixEnd)
	if !found || !ended {
		t.Fatalf("%s has no place for the table", path)
	}
	if err := os.WriteFile(path, []byte(before+matrixBegin+text+matrixEnd+after), 0o644); err != nil {
		t.Fatal(err)
	}
}
