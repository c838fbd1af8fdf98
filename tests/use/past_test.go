package use

import (
	"fmt"
	"strings"
	"testing"

	"mneme/tests/harness"
)

// TestPastInTheMount looks at points in time with ordinary programs, in a mount that can be
// written and in one whose files the kernel opens by itself.
func TestPastInTheMount(t *testing.T) {
	t.Parallel()
	for name, store := range map[string]string{"written": "notes", "read-only": "notes:ro"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			harness.NeedTools(t, "rsync", "rg")
			e := harness.NewEnv(t)
			e.Store("notes", "--content", "any", "--max-memory-bytes", "4000000")
			w := e.Mount(t, "notes", "--session", "writer") // 1 is the creation of the store
			w.Sh(t, `mkdir -p dir/sub; echo one > a.md; echo x > dir/sub/x.md; head -c 3000000 /dev/urandom > big; : > empty
				printf 'caf\303\251' > "$(printf 'caf\303\251')"`)
			then := head(t, e)
			w.Sh(t, `cp -r . "$HOME/then"; mv a.md b.md; echo two >> b.md; rm -r dir big; mkdir new; echo n > new/n.md`)
			m := e.Mount(t, store)
			sh := func(script string) string {
				t.Helper()
				return m.Sh(t, "at=.mneme/at/"+then+"; "+script)
			}
			sh(`test -z "$(ls -A .mneme/at)"; test "$(find .mneme/at | wc -l)" = 1
				diff -r "$HOME/then" $at; diff -r .mneme/at/HEAD . ; cp -r $at "$HOME/copy"; diff -r "$HOME/then" "$HOME/copy"
				test -z "$(find $at -type l -o -perm /` + map[string]string{"written": "022", "read-only": "222"}[name] + `)"; test "$(stat -c %s $at/big)" = 3000000`)
			if name == "written" { // a user who is not root can change and remove a copy
				sh(`test -z "$(find $at "$HOME/copy" ! -perm -200)"`)
			}
			sh(`rsync -a $at/ "$HOME/synced"; diff -r "$HOME/then" "$HOME/synced"; test -z "$(rsync -ai $at/ "$HOME/synced")"
				tar -cf - -C $at . | { mkdir "$HOME/tar"; tar -xf - -C "$HOME/tar"; }; diff -r "$HOME/then" "$HOME/tar"
				test "$(grep -rlx one $at)" = $at/a.md; test "$(rg -lx one $at)" = $at/a.md; (cd $at/dir/sub; test "$(cat ../../a.md x.md)" = "$(printf 'one\nx')")`)
			sh(`! diff -r $at .mneme/at/HEAD > "$HOME/diff"; grep -q "Only in $at: a.md" "$HOME/diff"; grep -q "Only in .mneme/at/HEAD: b.md" "$HOME/diff"
				dd if=$at/big bs=1000 skip=2000 count=10 2> "$HOME/err" | cmp - <(dd if="$HOME/then/big" bs=1000 skip=2000 count=10 2> "$HOME/err")
				python3 -c 'import mmap, sys
files = [open(p, "rb") for p in sys.argv[1:]]
a, b = (mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ) for f in files)
assert a[1234567:2345678] == b[1234567:2345678]' $at/big "$HOME/then/big"`)
			sh(`for change in "touch $at/x" "rm $at/a.md" "mkdir $at/y" "mv $at/a.md ." "rm -r $at" "chmod 777 $at/a.md" "truncate -s 0 $at/a.md" "ln $at/a.md z" "mkdir .mneme/at/x" "cp /dev/null $at/a.md"; do
				! $change 2> "$HOME/err"; grep -Eq 'Read-only|not permitted|Permission' "$HOME/err"; done; diff -r "$HOME/then" $at`)
			for _, point := range []string{"9999", "-1", "00120", "99999999999999999999", "HEAD~9999", "HEAD@" + then, "2026-13-01"} {
				sh(fmt.Sprintf(`! ls .mneme/at/%s 2> "$HOME/err"; grep -q 'No such file' "$HOME/err"`, point))
				m.Eventually(t, fmt.Sprintf(`grep -qF 'at/%s' .mneme/errors; test "$(grep -c 'look up' .mneme/errors)" = 1`, point))
			}
			sh(`test "$(ls .mneme/at/0 | wc -l)" = 0; test "$(ls .mneme/at/1999-12-31 | wc -l)" = 0; diff -r .mneme/at/2199-12-31 .mneme/at/HEAD; diff -r .mneme/at/HEAD~0 .mneme/at/HEAD`)

			// HEAD is looked up again, and the earlier node stays.
			sh(fmt.Sprintf(`cd .mneme/at/HEAD; test ! -e later.md; %q write notes:/later.md <<< later; test ! -e later.md; test "$(cat b.md)" = "$(printf 'one\ntwo')"`, harness.Binary))
			m.Eventually(t, `test -e .mneme/at/HEAD/later.md; test ! -e .mneme/at/HEAD~1/later.md`)
		})
	}
}

// TestPastBesideWriters searches the newest commit again and again while others are made.
func TestPastBesideWriters(t *testing.T) {
	t.Parallel()
	e := harness.NewEnv(t)
	e.Store("notes")
	m := e.Mount(t, "notes")
	m.Sh(t, `mkdir d; for i in $(seq 20); do echo text > d/$i; done`)
	done := m.Background(t, `for i in $(seq 30); do echo text > more$i; mv d/$((i % 20 + 1)) d/$((i % 20 + 1)).x; mv d/$((i % 20 + 1)).x d/$((i % 20 + 1)); done; : > done`)
	m.Sh(t, `until test -e done; do (cd .mneme/at/HEAD; test "$(grep -rl text d | wc -l)" = 20; test "$(find d -type f | wc -l)" = 20); done`)
	if r := done(); r.Code != 0 {
		t.Error(r)
	}
}

// TestPastKeptByTheKernel: what is below a sequence number is asked for once.
func TestPastKeptByTheKernel(t *testing.T) {
	for name, store := range map[string]string{"written": "notes", "read-only": "notes:ro"} {
		t.Run(name, func(t *testing.T) {
			e := harness.NewEnv(t)
			e.Store("notes")
			for _, path := range []string{"a.md", "d/b.md", "d/e/c.md"} {
				e.MustIn(t, path, "write", "notes:/"+path)
			}
			m := e.Mount(t, store, "--metrics-addr", "127.0.0.1:0")
			look := func() {
				m.Sh(t, `grep -r . .mneme/at/4 > "$HOME/found"; find .mneme/at/4 -size 3c > "$HOME/found"; test "$(cat .mneme/at/4/d/b.md)" = d/b.md`)
			}
			look()
			asked := m.During(t, look)
			for _, kind := range []string{"OPEN", "OPENDIR", "RELEASE", "RELEASEDIR"} {
				if store == "notes" {
					delete(asked, kind)
				}
			}
			if len(asked) > 0 {
				t.Errorf("the kernel asked again: %v", asked)
			}
		})
	}
}

// TestPastTakenOver goes on reading in the past when the process that serves the mount is
// killed: through what is open, from the directory that the program stands in, and by names.
func TestPastTakenOver(t *testing.T) {
	t.Parallel()
	for name, store := range map[string]string{"written": "notes", "read-only": "notes:ro"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := harness.NewEnv(t)
			e.Store("notes")
			w := e.Mount(t, "notes")
			w.Sh(t, `mkdir d; seq 10000 > d/big.md; echo a > d/a.md; tail -c +101 d/big.md > "$HOME/rest"`)
			m := e.Mount(t, store, "--keep")
			m.Sh(t, fmt.Sprintf(`cd .mneme/at/HEAD/d; exec 5< big.md 6< a.md; head -c 100 <&5 > "$HOME/head"; ls -l > "$HOME/ls"
				keeper=$(sed -n 's/^.* %s .* - fuse.mneme mneme:\([0-9]*\).*/\1/p' /proc/self/mountinfo); kill -9 $(pgrep -P $keeper)
				cmp - "$HOME/rest" <&5; test "$(cat <&6)" = a; test "$(cat a.md)" = a; test "$(ls)" = "$(printf 'a.md\nbig.md')"; test "$(ls ..)" = d
				cat big.md | tail -c +101 | cmp - "$HOME/rest"`, strings.ReplaceAll(m.At, "/", `\/`)))
		})
	}
}

// TestVersionsAndEvents reads all versions of memories, and the newest changes, in a mount
// that can be written, and in one whose lists and texts the kernel keeps.
func TestVersionsAndEvents(t *testing.T) {
	t.Parallel()
	for name, store := range map[string]string{"written": "notes", "read-only": "notes:ro"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := harness.NewEnv(t)
			e.Store("notes")
			w := e.Mount(t, "notes", "--session", "writer")
			w.Sh(t, `mkdir d; echo one > a.md; mv a.md b.md; echo two >> b.md; echo x > d/x.md; rm -r d`)
			m := e.Mount(t, store)
			m.Sh(t, `ls .mneme/versions > "$HOME/ls"; test "$(cat "$HOME/ls")" = b.md; cd .mneme/versions/b.md; set -- *; test $# = 3
				test "$(cat $1 $2 $3)" = "$(printf 'one\none\none\ntwo')"; test "$(stat -c %s $3)" = 8
				cd ../d/x.md; test "$(cat *)" = x; test ! -e ../y.md; ! rm * 2> "$HOME/err"; grep -q Read-only "$HOME/err"`)
			same := fmt.Sprintf(`diff .mneme/events <(%q log notes --json)`, harness.Binary)
			m.Sh(t, same)
			e.MustIn(t, "three", "write", "notes:/c.md")
			m.Eventually(t, `test "$(ls .mneme/versions)" = "$(printf 'b.md\nc.md')"`)
			m.Eventually(t, same)
			e.MustIn(t, "four", "write", "notes:/b.md")
			m.Eventually(t, `set -- $(ls -v .mneme/versions/b.md); test $# = 4; test "$(cat .mneme/versions/b.md/$4)" = four`)
			e.MustIn(t, "deep", "write", "notes:/imp/deep/y.md") // in directories that no commit made
			e.Must(t, "rm", "notes:/imp/deep/y.md")
			m.Eventually(t, `test "$(cat .mneme/versions/imp/deep/y.md/*)" = deep; test ! -e .mneme/versions/imp/dee`)
		})
	}
}

// TestMountOfThePast mounts stores as they were, which others go on writing.
func TestMountOfThePast(t *testing.T) {
	t.Parallel()
	e := harness.NewEnv(t)
	e.Store("notes")
	w := e.Mount(t, "notes")
	w.Sh(t, `mkdir d; echo one > a.md; echo x > d/x.md; cp -r . "$HOME/then"`)
	then := head(t, e)
	w.Sh(t, `mv a.md b.md; rm -r d; echo two > c.md`)
	m := e.Mount(t, "notes", "--as-of", then)
	m.Sh(t, `diff -r "$HOME/then" .; diff -r . .mneme/at/HEAD; ! touch x 2> "$HOME/err"; grep -q Read-only "$HOME/err"
			test "$(ls .mneme/versions/a.md | wc -l)" = 1; test ! -e .mneme/versions/b.md; grep -q "after commit `+then+`," .mneme/README; test -z "$(cat .mneme/errors)"`)
	e.MustIn(t, "more", "write", "notes:/a.md")
	m.Sh(t, `test "$(cat a.md)" = one`)
	// A place in it is the past, also for commands, and nothing is changed by way of one.
	if out := m.Sh(t, `for change in "write ./a.md" "rm ./a.md" "rm -r ./d" "mv ./a.md ./z.md" "mv notes:/c.md ./c.md" "restore ./a.md@`+then+`" "restore . --at 1 --dry-run" "undo . --session x --dry-run"; do
				echo x | mneme $change 2> "$HOME/err" && exit 1; test $? = 5; grep -q 'after commit `+then+`' "$HOME/err"; done
			(cd d; mneme ls ..); mneme cat ./a.md; mneme log ./a.md --json | wc -l; mneme show ./a.md --json | grep -c '"seq": *[0-9]'; mneme blame ./a.md | grep -c one
			mneme diff ./a.md --stat; mneme diff . 1 HEAD --stat | tail -n 1; mneme diff ./a.md notes:/a.md 2> "$HOME/err" || echo $?; mneme status | grep -cF "notes:ro (as of `+then+`)"; mneme cat notes:/a.md`); out != "a.md\nd/\none\n1\n1\n1\n+1 -0\n2 memories changed, +2 -0\n2\n1\nmore" {
		t.Errorf("places of the past:\n%s", out)
	}
	e.Must(t, "rm", "notes:/a.md")
	kept := e.Mount(t, "notes", "--as-of", then, "--keep")
	kept.Sh(t, `diff -r "$HOME/then" .`)
	for _, args := range [][]string{{"--as-of", "9999"}, {"--as-of", "soon"}, {"--as-of", "HEAD", "--keep"}} {
		if r := e.Mneme(append([]string{"mount", "notes", "--at", t.TempDir()}, args...)...); r.Code == 0 {
			t.Errorf("%v mounts", args)
		}
	}
}

// head is the sequence number of the newest commit.
func head(t *testing.T, e *harness.Env) string {
	t.Helper()
	line := e.Must(t, "log", "notes", "-n", "1", "--json")
	_, rest, _ := strings.Cut(line, `"seq":`)
	seq, _, _ := strings.Cut(rest, ",")
	return strings.TrimSpace(seq)
}
