package tests

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the table of docs/SEMANTICS.md anew")

// way is a way to write a file. Its script makes f, or a line of it, "mine"; it
// runs $OPEN while it has f open and $RENAME before it renames something over
// f, if it does. $SRC is a file outside the store that holds "mine".
type way struct{ name, needs, script string }

func pythonWay(name, code string) way {
	return way{"Python: " + name, "python3", "python3 - <<'END'\nimport mmap, os, pathlib, shutil, subprocess, tempfile\ndef at(point): os.system(os.environ[point])\n" + code + "\nEND\n"}
}

func nodeWay(name, code string) way {
	return way{"Node: " + name, "node", "node - <<'END'\nconst fs = require('fs'); const at = p => require('child_process').execSync(process.env[p])\n" + code + "\nEND\n"}
}

// goWay is what the test's own child does, a Go program.
func goWay(name, op string) way {
	return way{"Go: " + name, "", `echo '{"op":"` + op + `","path":"f","text":"mine\n"}' | MNEME_TEST_CHILD=agent "$SELF" . | grep -q '"errno":0'`}
}

var ways = []way{
	{"`>`", "", `echo mine > f`},
	{"`>` in sh", "", `sh -c 'echo mine > f'`},
	{"`>` around commands", "", `{ $OPEN; echo mine; } > f`},
	{"`>` around a program", "", `{ $OPEN; /bin/echo mine; } > f`},
	{"`exec 3>`", "", `exec 3> f; $OPEN; echo mine >&3; exec 3>&-`},
	{"`<>`", "", `{ $OPEN; echo mine; } 1<> f`},
	{"`>>`", "", `{ $OPEN; echo mine; } >> f`},
	{"`cat >`", "", `{ $OPEN; cat "$SRC"; } | cat > f`},
	{"`tee`", "", `{ $OPEN; cat "$SRC"; } | tee f > /dev/null`},
	{"`tee -a`", "", `{ $OPEN; cat "$SRC"; } | tee -a f > /dev/null`},
	{"`dd`", "", `{ $OPEN; cat "$SRC"; } | dd of=f status=none`},
	{"`dd conv=notrunc`", "", `{ $OPEN; cat "$SRC"; } | dd of=f conv=notrunc status=none`},
	{"`dd conv=fsync`", "", `{ $OPEN; cat "$SRC"; } | dd of=f conv=fsync status=none`},
	{"`cp`", "", `cp "$SRC" f`},
	{"`cp` of a pipe", "", `{ $OPEN; cat "$SRC"; } | cp /dev/stdin f`},
	{"`cp --remove-destination`", "", `cp --remove-destination "$SRC" f`},
	{"`cp --backup`", "", `cp --backup "$SRC" f`},
	{"`install`", "", `install "$SRC" f`},
	{"`mv` from elsewhere", "", `cp "$SRC" "$SRC.2"; mv "$SRC.2" f`},
	{"`mv` within the store", "", `cp "$SRC" g; $RENAME; mv g f`},
	{"`sort -o`", "", `sort -o f "$SRC"`},
	{"`shuf -o`", "", `shuf -o f "$SRC"`},
	{"`uniq`", "", `uniq "$SRC" f`},
	{"`rm`, then `>`", "", `rm f; echo mine > f`},
	{"`truncate`, then `>>`", "", `truncate -s 0 f; echo mine >> f`},
	{"`sed -i`", "", `sed -i -e "1e $RENAME" -e 's/^1/mine/' f`},
	{"`sed >`, then `mv`", "", `sed 's/^1/mine/' f > f.tmp; $RENAME; mv f.tmp f`},
	{"`awk >`", "awk", `awk 'BEGIN { print "mine" > "f" }'`},
	{"`perl -i`", "perl", `perl -i -pe 'system($ENV{RENAME}) if $. == 1; s/^1/mine/' f`},
	{"Perl: `open`", "perl", `perl -e 'open(F, ">", "f") or die "$!"; system($ENV{OPEN}); print F "mine\n"; close(F) or die "$!"'`},
	{"`ed`", "ed", `printf '%s\n' '1s/^1/mine/' "!$OPEN" w q | ed -s f > /dev/null`},
	{"`ex`", "ex", `ex -s -N -u NONE -c '1s/^1/mine/' -c "call system('$RENAME')" -c 'w!' -c 'q!' f < <(yes y) > /dev/null`},
	{"`vim`, file renamed away", "vim", `vim -es -N -u NONE -c 'set backupcopy=no writebackup' -c '1s/^1/mine/' -c "call system('$RENAME')" -c 'w!' -c 'q!' f < <(yes y) > /dev/null`},
	{"`vim`, written in place", "vim", `vim -es -N -u NONE -c 'set backupcopy=yes' -c '1s/^1/mine/' -c "call system('$RENAME')" -c 'w!' -c 'q!' f < <(yes y) > /dev/null`},
	{"`patch`", "patch", `printf '%s\n' '--- f' '+++ f' '@@ -1,2 +1,2 @@' '-1' '+mine' ' 2' | patch -s f`},
	{"`tar -x`", "tar", `mkdir "$SRC.d"; cp "$SRC" "$SRC.d/f"; tar -C "$SRC.d" -c f | tar -x`},
	{"`tar -x --overwrite`", "tar", `mkdir "$SRC.d"; cp "$SRC" "$SRC.d/f"; tar -C "$SRC.d" -c f | tar -x --overwrite`},
	{"`git show >`", "git", `git init -q "$SRC.git"; cp "$SRC" "$SRC.git/f"; git -C "$SRC.git" add f; git -C "$SRC.git" show :f > f`},
	pythonWay("`open(…, 'w')`", `f = open("f", "w"); at("OPEN"); f.write("mine\n"); f.close()`),
	pythonWay("`open(…, 'w')` and `fsync`", `f = open("f", "w"); at("OPEN"); f.write("mine\n"); f.flush(); os.fsync(f.fileno()); f.close()`),
	pythonWay("`open(…, 'r+')`, only writing", `f = open("f", "r+b", buffering=0); at("OPEN"); f.write(b"mine\n"); f.close()`),
	pythonWay("`open(…, 'r+')`, read first", `f = open("f", "r+b", buffering=0); s = f.read(); at("OPEN"); f.seek(0); f.write(s.replace(b"1", b"mine", 1)); f.close()`),
	pythonWay("`open(…, 'a')`", `f = open("f", "a"); at("OPEN"); f.write("mine\n"); f.close()`),
	pythonWay("`write_text`", `pathlib.Path("f").write_text("mine\n")`),
	pythonWay("`os.replace`", `open("f.tmp", "w").write("mine\n"); at("RENAME"); os.replace("f.tmp", "f")`),
	pythonWay("`tempfile` and `os.replace`", `
t = tempfile.NamedTemporaryFile("w", dir=".", delete=False); t.write("mine\n"); t.flush(); os.fsync(t.fileno()); t.close(); at("RENAME"); os.replace(t.name, "f")`),
	pythonWay("`shutil.copyfile`", `shutil.copyfile(os.environ["SRC"], "f")`),
	pythonWay("`shutil.move`", `shutil.copyfile(os.environ["SRC"], "g"); at("RENAME"); shutil.move("g", "f")`),
	pythonWay("`mmap`", `
f = open("f", "r+b", buffering=0); m = mmap.mmap(f.fileno(), 0); at("OPEN"); m[0:4] = b"mine"; m.flush(); m.close(); f.close()`),
	pythonWay("`os.truncate`, then `'a'`", `os.truncate("f", 0); open("f", "a").write("mine\n")`),
	nodeWay("`writeFileSync`", `fs.writeFileSync('f', 'mine\n')`),
	nodeWay("`openSync`", `const d = fs.openSync('f', 'w'); at('OPEN'); fs.writeSync(d, 'mine\n'); fs.closeSync(d)`),
	nodeWay("`promises.writeFile`", `fs.promises.writeFile('f', 'mine\n')`),
	nodeWay("`createWriteStream`", `const s = fs.createWriteStream('f'); s.end('mine\n')`),
	nodeWay("`appendFileSync`", `fs.appendFileSync('f', 'mine\n')`),
	nodeWay("`renameSync`", `fs.writeFileSync('f.tmp-1', 'mine\n'); at('RENAME'); fs.renameSync('f.tmp-1', 'f')`),
	goWay("`O_TRUNC`", "put"),
	goWay("`O_APPEND`", "append"),
	goWay("rename", "replace"),
}

// moments are when another session changes the file.
var moments = []struct{ name, point string }{
	{"before `open`", ""}, {"while it is open", "$OPEN"}, {"before `rename`", "$RENAME"},
}

// TestEveryWayToWrite has another session change a file that a program is about
// to write, before it opens the file, while it has it open, and before it
// renames another over it. The other session's change must be there afterwards,
// and what the program wrote is there, too, or the program says that it failed,
// or it is kept as a conflict.
func TestEveryWayToWrite(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	m := e.mount(t, "notes")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	hook := filepath.Join(e.dir, "hook")
	if err := os.WriteFile(hook, []byte("#!/bin/sh\nprintf '1\\n2\\nthree\\n' | mneme write notes:/$D/f > /dev/null 2>> $SRC.hook || exit 0\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	table := make([][]string, len(ways))
	t.Run("ways", func(t *testing.T) {
		for i, w := range ways {
			table[i] = make([]string, len(moments))
			t.Run(strings.NewReplacer("`", "", " ", "-", "/", "").Replace(w.name), func(t *testing.T) {
				if w.needs != "" {
					needTools(t, w.needs)
				}
				for j, moment := range moments {
					table[i][j] = "–"
					if moment.point != "" && !w.runs(moment.point) {
						continue
					}
					dir := fmt.Sprintf("w%02d-%d", i, j)
					table[i][j] = m.overtake(t, w, dir, j, hook, self)
				}
			})
		}
	})
	text := matrixText(table)
	if *update {
		writeMatrix(t, text)
	}
	doc, err := os.ReadFile("../docs/SEMANTICS.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range ways {
		if !strings.Contains(string(doc), "\n| "+w.name+" |") {
			t.Errorf("docs/SEMANTICS.md does not have %s; go test ./tests -run EveryWayToWrite -update writes it", w.name)
		}
	}
}

// runs reports whether a way has a point at which something can come between.
func (w way) runs(point string) bool {
	name := strings.TrimPrefix(point, "$")
	for _, form := range []string{point, `{` + name + `}`, `("` + name + `")`, `('` + name + `')`} {
		if strings.Contains(w.script, form) {
			return true
		}
	}
	return false
}

// overtake runs one way at one moment and returns what came of it.
func (m *mount) overtake(t *testing.T, w way, dir string, moment int, hook, self string) string {
	t.Helper()
	points := []string{"true", "true"}
	before := hook
	if moment > 0 {
		points[moment-1], before = hook, "true"
	}
	r := m.try(t, `
		set +e +o pipefail
		export D=`+dir+` SELF='`+self+`' OPEN='`+points[0]+`' RENAME='`+points[1]+`' SRC=$(mktemp)
		echo mine > "$SRC"
		mkdir $D; cd $D; printf '1\n2\n3\n' > f || exit 99
		`+before+`
		( set -e -o pipefail; `+w.script+`
		) > "$SRC.out" 2> "$SRC.err"
		code=$?
		cat "$SRC.out" "$SRC.err" >&2
		if [ $code != 0 ] || [ -s "$SRC.err" ]; then echo loud; fi
		head=$(mneme cat notes:/$D/f)
		case $head in *three*) echo theirs;; esac
		case $head in *mine*) echo mine;; esac
		cd ..
		for about in .mneme/conflicts/*/about; do
			if grep -qs "\"path\": \"/$D/f\"" "$about" && grep -q mine "${about%about}yours"; then echo kept; fi
		done
		test ! -s "$SRC.hook" || echo hook failed`)
	has := func(word string) bool { return strings.Contains("\n"+r.stdout, "\n"+word+"\n") }
	problem := ""
	var result []string
	switch {
	case r.code != 0 || has("hook failed"):
		problem = "the script did not run"
	case !has("theirs"):
		problem = "the other session's change is gone"
	case has("mine"):
		return "on top of it"
	case !has("loud") && !has("kept"):
		problem = "what was written is gone, and nobody was told"
	}
	if has("loud") {
		result = append(result, "refused")
	}
	if has("kept") {
		result = append(result, "kept")
	}
	if problem != "" {
		t.Errorf("changed %s: %s\n%v", moments[moment].name, problem, r)
	}
	return strings.Join(result, ", ")
}

const (
	matrixBegin = "<!-- what every way to write does: tests/matrix_test.go -->\n"
	matrixEnd   = "<!-- end -->\n"
)

func matrixText(table [][]string) string {
	var b strings.Builder
	b.WriteString("| way |")
	for _, moment := range moments {
		b.WriteString(" changed " + moment.name + " |")
	}
	b.WriteString("\n|---|---|---|---|\n")
	for i, w := range ways {
		fmt.Fprintf(&b, "| %s | %s |\n", w.name, strings.Join(table[i], " | "))
	}
	return b.String()
}

func writeMatrix(t *testing.T, text string) {
	t.Helper()
	const path = "../docs/SEMANTICS.md"
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
