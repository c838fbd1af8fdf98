package use

import (
	"strings"
	"testing"

	"mneme/tests/harness"
)

// once is the history of a file that was written and then changed once.
var once = []string{"created f", "modified f"}

// TestShell holds what a shell's own ways of writing leave in the history.
func TestShell(t *testing.T) {
	t.Parallel()
	runUseCases(t, []useCase{
		{name: "write new", script: `echo x > f; cat f`, out: "x\n", log: []string{"created f"}},
		{name: "write existing", script: `echo x > f; echo y > f; cat f`, out: "y\n", log: once},
		{name: "write shorter", script: `echo long long > f; echo y > f; cat f`, out: "y\n", log: once},
		{name: "append new", script: `echo x >> f; cat f`, out: "x\n", log: []string{"created f"}},
		{name: "append existing", script: `echo x > f; echo y >> f; cat f`, out: "x\ny\n", log: once},
		{name: "make empty", script: `: > f; stat -c %s f`, out: "0\n", log: []string{"created f"}},
		{name: "empty existing", script: `echo x > f; : > f; stat -c %s f`, out: "0\n", log: once},
		{name: "equal bytes", script: `echo x > f; echo x > f; cat f`, out: "x\n", log: []string{"created f"}},
		{name: "append nothing", script: `echo x > f; printf '' >> f; cat f`, out: "x\n", log: []string{"created f"}},
		{name: "brace group", script: `{ echo a; echo b; } > f; cat f`, out: "a\nb\n", log: []string{"created f"}},
		// Every program that ends closes the file: what there is so far is a
		// version, but what has only been emptied is not.
		{name: "brace group with programs", script: `{ echo a; sleep .1; echo b; } > f; cat f`, out: "a\nb\n", log: []string{"created f"}},
		{name: "brace group beginning with a program", script: `echo x > f; { sleep .1; echo b; } > f; cat f`, out: "b\n", log: once},
		{name: "loop redirected", script: `for i in 1 2 3; do /bin/echo $i; done > f; cat f`, out: "1\n2\n3\n",
			log: []string{"created f", "modified f", "modified f"}},
		{name: "subshell", script: `( echo a; ( echo b ); echo c ) > f; cat f`, out: "a\nb\nc\n", log: once},
		{name: "pipeline", script: `seq 3 | sort -r > f; cat f`, out: "3\n2\n1\n", log: []string{"created f"}},
		{name: "here document", script: "cat > f <<END\none\ntwo\nEND\ncat f", out: "one\ntwo\n", log: []string{"created f"}},
		{name: "command in background", script: `{ sleep .2; echo late; } > f & wait; cat f`, out: "late\n", log: []string{"created f"}},
		{name: "descriptor kept", script: `exec 3> f; echo a >&3; echo b >&3; exec 3>&-; cat f`, out: "a\nb\n",
			log: []string{"created f", "modified f"}}, // echo closes its copy of the descriptor
		{name: "read and write descriptor", script: `echo abc > f; exec 3<> f; printf X >&3; exec 3>&-; cat f`, out: "Xbc\n", log: once},
		{name: "noclobber", script: `set -C; echo a > f; echo b > f 2>/dev/null || echo refused; cat f`, out: "refused\na\n",
			log: []string{"created f"}},
		{name: "fifty appends", script: `for i in $(seq 50); do echo $i >> f; done; wc -l < f`, out: "50\n",
			log: append([]string{"created f"}, repeat("modified f", 49)...)},
		{name: "touch new", script: `touch f; stat -c %s f`, out: "0\n", log: []string{"created f"}},
		{name: "touch existing", script: `echo x > f; touch f; touch -d 2001-02-03 f; date -r f +%F`, out: "2001-02-03\n",
			log: []string{"created f"}},
		{name: "chmod", script: `echo x > f; chmod 600 f; stat -c %a f; chmod 755 f; stat -c %a f`, out: "600\n755\n",
			log: []string{"created f"}},
		{name: "umask", script: `umask 027; echo x > f; mkdir d; stat -c %a f d; echo x > d/f`, out: "640\n750\n",
			log: []string{"created f", "created d/f"}},
	})
}

func repeat(line string, n int) []string {
	lines := make([]string, n)
	for i := range lines {
		lines[i] = line
	}
	return lines
}

// TestCoreutils holds what the everyday commands do, reading and changing.
func TestCoreutils(t *testing.T) {
	t.Parallel()
	three := []string{"created a", "created d/b", "created d/e/c"}
	const makeThree = `mkdir -p d/e; echo alpha > a; echo beta > d/b; echo gamma > d/e/c; `
	runUseCases(t, []useCase{
		{name: "cat head tail wc", script: `seq 100 > f; cat f | wc -l; head -n 2 f; tail -n 2 f; tail -c 4 f; wc -c < f; tac f | head -n 1`,
			out: "100\n1\n2\n99\n100\n100\n292\n100\n", log: []string{"created f"}},
		{name: "grep -r", script: makeThree + `grep -r a . | sort; grep -rl gamma; grep -rc beta d | sort`,
			out: "./a:alpha\n./d/b:beta\n./d/e/c:gamma\nd/e/c\nd/b:1\nd/e/c:0\n", log: three},
		{name: "rg", needs: []string{"rg"}, script: makeThree + `rg --sort path a .; rg -l gamma .; rg --files | sort`,
			out: "./a:alpha\n./d/b:beta\n./d/e/c:gamma\n./d/e/c\na\nd/b\nd/e/c\n", log: three},
		{name: "find", script: makeThree + `find . -type f | sort; find . -type d | sort; find . -name 'b*'; find . -size -2 -type f | wc -l; find . -newermt 2001-01-01 -type f | wc -l; find . -empty`,
			out: "./a\n./d/b\n./d/e/c\n.\n./d\n./d/e\n./d/b\n3\n3\n", log: three},
		{name: "ls", script: makeThree + `ls -lR | grep -c gamma || true; ls -R; ls -A; ls -l a | cut -c 1-12; stat -c '%F %s %h' a d`,
			out: "0\n.:\na\nd\n\n./d:\nb\ne\n\n./d/e:\nc\na\nd\n-rw-r--r-- 1\nregular file 6 1\ndirectory 0 1\n", log: three},
		{name: "du", script: makeThree + `du -a --apparent-size -b . | sort -k 2 | tail -n +2 | cut -f 2`, out: "./a\n./d\n./d/b\n./d/e\n./d/e/c\n", log: three},
		{name: "diff cmp", script: makeThree + `cp a z; cmp a z && echo same; diff a d/b || true; cp -r d y; diff -r d y && echo same trees`,
			out: "same\n1c1\n< alpha\n---\n> beta\nsame trees\n", log: append(three, "created z", "created y/e/c", "created y/b")},
		{name: "cp over", script: `echo x > f; cp "$OLD" f; cat f`, out: "old\n", log: once},
		{name: "cp -a", script: `touch -d 2001-02-03 "$OLD"; cp -a "$OLD" f; date -r f +%F`, out: "2001-02-03\n", log: []string{"created f"}},
		{name: "cp equal", script: `echo old > f; cp "$OLD" f; cat f`, out: "old\n", log: []string{"created f"}},
		{name: "cp --backup", script: `echo x > f; cp --backup "$OLD" f; cat f f~`, out: "old\nx\n", log: once, scratch: []string{"f~"}},
		{name: "cp -r out", script: makeThree + `cp -r . "$OUT/x"; cd "$OUT/x"; cat a d/b d/e/c`, out: "alpha\nbeta\ngamma\n", log: three},
		{name: "install", script: `install -m 600 "$OLD" f; cat f; stat -c %a f`, out: "old\n600\n", log: []string{"created f"}},
		{name: "mv file", script: `echo x > a; mv a b; cat b; test ! -e a`, out: "x\n", log: []string{"created a", "renamed a > b"}},
		{name: "mv into directory", script: `mkdir d; echo x > a; mv a d; cat d/a`, out: "x\n", log: []string{"created a", "renamed a > d/a"}},
		{name: "mv over", script: `echo x > a; echo y > b; mv a b; cat b; ls`, out: "x\nb\n",
			log: []string{"created a", "created b", "modified b", "deleted a"}},
		{name: "mv from outside", script: `mv "$OLD" f; cat f`, out: "old\n", log: []string{"created f"}},
		{name: "mv from outside over", script: `echo x > f; mv "$OLD" f; cat f`, out: "old\n", log: []string{"created f", "deleted f", "created f"}},
		{name: "mv out", script: `echo x > f; mv f "$OUT/f"; cat "$OUT/f"; ls`, out: "x\n", log: []string{"created f", "deleted f"}},
		{name: "mv directory", script: makeThree + `mv d x; cat x/b x/e/c; ls`, out: "beta\ngamma\na\nx\n",
			log: append(three, "renamed d/b > x/b", "renamed d/e/c > x/e/c")},
		{name: "mv directory into directory", script: makeThree + `mkdir y; mv d y; find . -type f | sort`, out: "./a\n./y/d/b\n./y/d/e/c\n",
			log: append(three, "renamed d/b > y/d/b", "renamed d/e/c > y/d/e/c")},
		{name: "mv empty directory", script: `mkdir d; mv d e; ls; echo x > e/f`, out: "e\n", log: []string{"created e/f"}},
		{name: "mv --exchange", script: `echo x > a; echo y > b
			python3 - <<'END'
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
if libc.renameat2(-100, b"a", -100, b"b", 2) != 0:
    print(os.strerror(ctypes.get_errno()))
END
			cat a b`, out: "Invalid argument\nx\ny\n", log: []string{"created a", "created b"}},
		{name: "rm", script: `echo x > f; rm f; ls -A`, log: []string{"created f", "deleted f"}},
		{name: "rm then write", script: `echo x > f; rm f; echo y > f; cat f`, out: "y\n", log: []string{"created f", "deleted f", "created f"}},
		{name: "rm -r", script: makeThree + `rm -r d; ls; rm -rf a nothing; ls -A`, out: "a\n",
			log: append(three, "deleted d/b", "deleted d/e/c", "deleted a")},
		{name: "mkdir rmdir", script: `mkdir -p a/b/c; find . | sort; rmdir a/b/c; rmdir a/b; ls a; rmdir a; ls -A`, out: ".\n./a\n./a/b\n./a/b/c\n"},
		{name: "truncate", script: `echo hello > f; truncate -s 3 f; cat f; echo; truncate -s 5 f; stat -c %s f; truncate -s 0 f; stat -c %s f`,
			out: "hel\n5\n0\n", log: append([]string{"created f"}, repeat("modified f", 3)...)},
		{name: "truncate same", script: `echo hello > f; truncate -s 6 f; cat f`, out: "hello\n", log: []string{"created f"}},
		{name: "truncate new", script: `truncate -s 4 f; od -An -c f`, out: "  \\0  \\0  \\0  \\0\n", log: []string{"created f"}},
		{name: "tee", script: `echo x | tee f; echo y | tee -a f; echo z | tee f g > /dev/null; cat f g`, out: "x\ny\nz\nz\n",
			log: []string{"created f", "modified f", "modified f", "created g"}},
		{name: "dd", script: `echo abcdef > f; printf XY | dd of=f bs=1 seek=2 conv=notrunc status=none; cat f; dd if=f bs=2 skip=1 count=1 status=none; echo`,
			out: "abXYef\nXY\n", log: once},
		{name: "dd new", script: `dd if="$OLD" of=f bs=1 status=none; cat f; dd if=/dev/zero of=g bs=1k count=3 conv=fsync status=none; stat -c %s g`,
			out: "old\n3072\n", log: []string{"created f", "created g"}},
		{name: "sort in place", script: `printf 'b\na\n' > f; sort -o f f; cat f`, out: "a\nb\n", log: once},
		{name: "split", script: `seq 4 > f; split -l 2 f part-; cat part-aa part-ab`, out: "1\n2\n3\n4\n",
			log: []string{"created f", "created part-aa", "created part-ab"}},
		{name: "tar", script: makeThree + `tar cf "$OUT/t.tar" a d; mkdir x; cd x; tar xf "$OUT/t.tar"; cat a d/b d/e/c`, out: "alpha\nbeta\ngamma\n",
			log: append(three, "created x/a", "created x/d/b", "created x/d/e/c")},
		{name: "tar over", script: `echo old > f; tar cf "$OUT/t.tar" f; echo new > f; tar xf "$OUT/t.tar"; cat f`, out: "old\n",
			log: []string{"created f", "modified f", "deleted f", "created f"}},
		{name: "tar --overwrite", script: `echo old > f; tar cf "$OUT/t.tar" f; echo new > f; tar xf "$OUT/t.tar" --overwrite; cat f`, out: "old\n",
			log: []string{"created f", "modified f", "modified f"}},
		{name: "xargs and find -exec", script: makeThree + `find . -type f -exec sed -i s/a/A/ {} +; cat a d/b d/e/c`, out: "Alpha\nbetA\ngAmma\n",
			log: append(three, "modified a", "modified d/b", "modified d/e/c")},
	})
}

// TestEditors holds that a save is one version of the file that was edited.
func TestEditors(t *testing.T) {
	t.Parallel()
	runUseCases(t, []useCase{
		{name: "sed -i", script: `echo x > f; sed -i s/x/y/ f; cat f; ls -A`, out: "y\nf\n", log: once},
		{name: "sed -i unchanged", script: `echo x > f; sed -i s/q/y/ f; cat f`, out: "x\n", log: []string{"created f"}},
		{name: "sed -i with backup", script: `echo x > f; sed -i.orig s/x/y/ f; cat f f.orig`, out: "y\nx\n", log: []string{"created f", "renamed f > f.orig", "created f"}},
		{name: "sed -i with tilde", script: `echo x > f; sed -i~ s/x/y/ f; cat f f~`, out: "y\nx\n", log: once, scratch: []string{"f~"}},
		{name: "perl -i", needs: []string{"perl"}, script: `echo x > f; perl -i -pe s/x/y/ f; cat f; ls -A`, out: "y\nf\n", log: once},
		{name: "perl -i with backup", needs: []string{"perl"}, script: `echo x > f; perl -i~ -pe s/x/y/ f; cat f f~`, out: "y\nx\n", log: once, scratch: []string{"f~"}},
		{name: "gawk -i inplace", needs: []string{"gawk"}, script: `echo x > f; gawk -i inplace '{ print "y" }' f; cat f; ls -A`, out: "y\nf\n", log: once},
		{name: "ed", needs: []string{"ed"}, script: `echo x > f; printf 's/x/y/\nw\nq\n' | ed -s f; cat f; ls -A`, out: "y\nf\n", log: once},
		{name: "ex", needs: []string{"vim"}, script: `echo x > f; vim -es -c 's/x/y/' -c wq f; cat f; ls -A`, out: "y\nf\n", log: once},
		{name: "vim new", needs: []string{"vim"}, script: `vim -es -c 'normal ihello' -c wq f; cat f; ls -A`, out: "hello\nf\n", log: []string{"created f"}},
		{name: "vim", needs: []string{"vim"}, script: vim(``), out: "y\nf\n", log: once},
		{name: "vim backupcopy=yes", needs: []string{"vim"}, script: vim(`backupcopy=yes`), out: "y\nf\n", log: once},
		{name: "vim backupcopy=no", needs: []string{"vim"}, script: vim(`backupcopy=no`), out: "y\nf\n", log: once},
		{name: "vim backup", needs: []string{"vim"}, script: vim(`backup backupskip= backupdir=. backupcopy=auto`), out: "y\nf\nf~\n", log: once, scratch: []string{"f~"}},
		{name: "vim backup yes", needs: []string{"vim"}, script: vim(`backup backupskip= backupdir=. backupcopy=yes`), out: "y\nf\nf~\n", log: once, scratch: []string{"f~"}},
		{name: "vim backup no", needs: []string{"vim"}, script: vim(`backup backupskip= backupdir=. backupcopy=no`), out: "y\nf\nf~\n", log: once, scratch: []string{"f~"}},
		{name: "vim fsync", needs: []string{"vim"}, script: vim(`fsync writebackup backupcopy=no`), out: "y\nf\n", log: once},
		{name: "vim several saves", needs: []string{"vim"},
			script: `echo x > f; vim -u NONE -es -c 's/x/y/' -c w -c 's/y/z/' -c w -c w -c 's/z/zz/' -c wq f; cat f; ls -A`, out: "zz\nf\n",
			log: append([]string{"created f"}, repeat("modified f", 3)...)},
		{name: "vim undo file", needs: []string{"vim"}, script: vim(`undofile undodir=.`), out: "y\n.f.un~\nf\n", log: once, scratch: []string{".f.un~"}},
		{name: "nano", needs: []string{"nano", "python3"}, script: `echo x > f; ` + nano("", "hello ") + `cat f; ls -A`, out: "hello x\nf\n", log: once},
		{name: "nano new", needs: []string{"nano", "python3"}, script: nano("", "hello") + `cat f; ls -A`, out: "hello\nf\n", log: []string{"created f"}},
		{name: "nano backup", needs: []string{"nano", "python3"}, script: `echo x > f; ` + nano("-B", "hello ") + `cat f f~; ls -A`, out: "hello x\nx\nf\nf~\n", log: once,
			scratch: []string{"f~"}},
		{name: "emacs", needs: []string{"emacs"}, script: `echo x > f; ` + emacs(`(delete-char 1) (insert "y") (save-buffer)`) + `cat f f~; ls -A`, out: "y\nx\nf\nf~\n", log: once,
			scratch: []string{"f~"}},
		{name: "emacs new", needs: []string{"emacs"}, script: emacs(`(insert "y\n") (save-buffer)`) + `cat f; ls -A`, out: "y\nf\n", log: []string{"created f"}},
		{name: "emacs backup-by-copying", needs: []string{"emacs"}, script: `echo x > f; ` + emacs(`(setq backup-by-copying t) (delete-char 1) (insert "y") (save-buffer)`) + `cat f f~; ls -A`,
			out: "y\nx\nf\nf~\n", log: once, scratch: []string{"f~"}},
		{name: "emacs file-precious-flag", needs: []string{"emacs"}, script: `echo x > f; ` + emacs(`(setq file-precious-flag t) (delete-char 1) (insert "y") (save-buffer)`) + `cat f f~; ls -A`,
			out: "y\nx\nf\nf~\n", log: once, scratch: []string{"f~"}},
		{name: "emacs several saves", needs: []string{"emacs"}, script: `echo x > f; ` + emacs(`(insert "a") (save-buffer) (insert "b") (save-buffer) (do-auto-save) (insert "c") (do-auto-save) (save-buffer)`) + `cat f; ls -A`,
			out: "abcx\nf\nf~\n", log: append([]string{"created f"}, repeat("modified f", 3)...), scratch: []string{"f~"}},
		{name: "auto-save by hand", script: `echo x > f; echo xx > '#f#'; echo y > f; rm '#f#'; cat f`, out: "y\n", log: once},
		{name: "gedit by hand", script: `echo x > f; echo y > .goutputstream-ABC123; mv .goutputstream-ABC123 f; cat f; ls -A`, out: "y\nf\n", log: once},
		{name: "patch", needs: []string{"patch"}, script: `printf 'a\nb\nc\n' > f; printf -- '--- f\n+++ f\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n' | patch -s f; cat f; ls -A`,
			out: "a\nB\nc\nf\n", log: once},
		{name: "patch new and gone", needs: []string{"patch"}, script: `echo x > f
			printf -- '--- /dev/null\n+++ b/d/g\n@@ -0,0 +1 @@\n+new\n--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n' | patch -s -p1; cat d/g; ls -A`,
			out: "new\nd\n", log: []string{"created f", "created d/g", "deleted f"}},
		{name: "temporary and mv", script: `echo x > f; echo y > f.tmp; mv f.tmp f; cat f; ls -A`, out: "y\nf\n", log: once},
		{name: "temporary and mv, new", script: `echo y > f.tmp; mv f.tmp f; cat f; ls -A`, out: "y\nf\n", log: []string{"created f"}},
		// One in 180 of mktemp's names ends in lower-case letters only, which may be a word.
		{name: "mktemp here and mv", script: `echo x > f; until T=$(mktemp -u f.XXXXXX) && [[ $T =~ [0-9A-Z] ]]; do :; done; (set -C; umask 077; : > $T); echo y > $T; mv $T f; cat f; ls -A`, out: "y\nf\n", log: once},
		{name: "mktemp without a name and mv", script: `echo x > f; T=$(mktemp -p .); echo y > $T; mv $T f; cat f; ls -A`, out: "y\nf\n", log: once},
		{name: "write-file-atomic by hand", script: `echo x > f; echo y > f.3735928559; mv f.3735928559 f; cat f; ls -A`, out: "y\nf\n", log: once},
		{name: "rclone by hand", script: `echo x > f; echo y > f.0a1b2c3d.partial; mv f.0a1b2c3d.partial f; cat f; ls -A`, out: "y\nf\n", log: once},
		{name: "dos2unix by hand", script: `echo x > f; (set -C; echo y > d2utmpAb12Cd); mv d2utmpAb12Cd f; cat f; ls -A`, out: "y\nf\n", log: once},
		{name: "isort by hand", script: `echo x > f; echo y > f.isorted; mv f.isorted f; cat f; ls -A`, out: "y\nf\n", log: once},
		{name: "ansible by hand", script: `echo x > f; (set -C; echo y > .ansible_tmpx1y2z3w4f); mv .ansible_tmpx1y2z3w4f f; cat f; ls -A`, out: "y\nf\n", log: once},
		{name: "CreateTemp by hand", needs: []string{"python3"}, script: `echo x > f; ` + exclusively("f1234567890", "y") + `mv f1234567890 f; cat f; ls -A`, out: "y\nf\n", log: once},
		{name: "renameio by hand", needs: []string{"python3"}, script: `echo x > f; ` + exclusively(".f4037200794235010051", "y") + `mv .f4037200794235010051 f; cat f; ls -A`, out: "y\nf\n", log: once},
		{name: "gofmt by hand", needs: []string{"python3"}, script: `echo x > f.go; ` + exclusively("f.go.5577006791947779410", "x") + `echo y > f.go; rm f.go.5577006791947779410; cat f.go; ls -A`, out: "y\nf.go\n",
			log: []string{"created f.go", "modified f.go"}},
		{name: "jupyter by hand", needs: []string{"python3"}, script: `echo x > f; cp f .~f; python3 -c 'import os; f = open("f", "w"); f.write("y\n"); f.flush(); os.fsync(f.fileno()); f.close()'; rm .~f; cat f; ls -A`, out: "y\nf\n", log: once},
		{name: "jupyter that failed by hand", script: `echo x > f; cp f .~f; : > f; mv .~f f; cat f; ls -A`, out: "x\nf\n", log: append([]string{"created f"}, repeat("modified f", 2)...)},
		{name: "safeWriteJson by hand", script: `echo x > f; echo y > .f.new_1763688480123_k3j9x2.tmp; mv f .f.bak_1763688480124_0p1qz.tmp; mv .f.new_1763688480123_k3j9x2.tmp f; rm .f.bak_1763688480124_0p1qz.tmp; cat f; ls -A`,
			out: "y\nf\n", log: once},
		{name: "safeWriteJson rolled back by hand", script: `echo x > f; mv f .f.bak_1763688480124_0p1qz.tmp; mv .f.bak_1763688480124_0p1qz.tmp f; cat f; ls -A`, out: "x\nf\n", log: []string{"created f"}},
		{name: "JetBrains by hand", script: `echo x > f; echo y > f___jb_tmp___; mv f f___jb_old___; mv f___jb_tmp___ f; rm f___jb_old___; cat f; ls -A`, out: "y\nf\n", log: once},
		{name: "Helix by hand", script: `echo x > f.md; mv f.md f.mdaB3dE6.bck; echo y > f.md; rm f.mdaB3dE6.bck; cat f.md; ls -A`, out: "y\nf.md\n", log: []string{"created f.md", "modified f.md"}},
		{name: "File.Replace by hand", needs: []string{"python3"}, script: `echo x > f; echo y > f.new; ` + exclusively("f.bak", "x") + `mv f.new f; rm f.bak; cat f; ls -A`, out: "y\nf\n", log: once},
		{name: "atomicwrites by hand", script: `echo x > f; mkdir -m 700 .atomicwriteAb12Cd; echo y > .atomicwriteAb12Cd/tmpfile.tmp; mv .atomicwriteAb12Cd/tmpfile.tmp f; rmdir .atomicwriteAb12Cd; cat f; ls -A`,
			out: "y\nf\n", log: once},
		{name: "huggingface by hand", script: `echo x > f; mkdir -p .cache/download; echo y >> .cache/download/Zm9v.0a1b.incomplete; mv .cache/download/Zm9v.0a1b.incomplete f; cat f; ls -A`, out: "y\n.cache\nf\n", log: once},
		{name: "aws s3 cp by hand", script: `echo x > f; echo y > f.6eB4aDc1; mv f.6eB4aDc1 f; cat f; ls -A`, out: "y\nf\n", log: once},
		{name: "new and mv", script: `echo x > f; echo y > f.new; mv f.new f; cat f; ls -A`, out: "y\nf\n", log: once},
		{name: "new and mv, new", script: `echo y > f.new; mv f.new f; cat f; ls -A`, out: "y\nf\n", log: []string{"created f"}},
		{name: "copies for people", script: `echo x > f; cp f f.bak; cp f myheader.bck; mv f.bak f.old; ls`, out: "f\nf.old\nmyheader.bck\n",
			log: []string{"created f", "created f.bak", "created myheader.bck", "renamed f.bak > f.old"}},
		{name: "copies of numbered names", script: `echo x > a1234567890; cp a1234567890 b1234567890; cp a1234567890 notes2024; ls`, out: "a1234567890\nb1234567890\nnotes2024\n",
			log: []string{"created a1234567890", "created b1234567890", "created notes2024"}},
		{name: "temporary in tmp directory and mv", script: `echo x > f; mkdir .tmp; echo y > .tmp/f; mv .tmp/f f; rmdir .tmp; cat f; ls -A`, out: "y\nf\n",
			log: []string{"created f", "created .tmp/f", "modified f", "deleted .tmp/f"}},
		{name: "rename away and back", script: `echo x > f; mv f f~; mv f~ f; cat f`, out: "x\n", log: []string{"created f"}},
		{name: "backup by rename, then another", script: `echo x > f; mv f f~; mv f~ g; cat g; ls -A`, out: "x\ng\n", log: []string{"created f", "renamed f > g"}},
		{name: "backup by rename, then gone", script: `echo x > f; mv f f~; rm f~; ls -A`, log: []string{"created f", "deleted f"}},
	})
}

// exclusively writes a file as programs do that make up its name: with O_EXCL, for
// reading and writing.
func exclusively(name, text string) string {
	return `python3 -c 'import os; f = os.open("` + name + `", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600); os.write(f, b"` + text + `\n"); os.close(f)'; `
}

func vim(set string) string {
	return `echo x > f; vim -u NONE -es -c 'set nocompatible ` + set + `' -c 's/x/y/' -c wq f; cat f; ls -A`
}

// emacs edits f, saving by itself, too. Its messages count when it fails.
func emacs(code string) string {
	return harness.EmacsCommand("(auto-save-mode 1) "+code) + ` 2> "$OUT/said" || cat "$OUT/said"; `
}

// nano types into nano on a terminal of its own, and saves.
func nano(flags, text string) string {
	return `python3 - <<'END'
import os, pty, select, time
pid, tty = pty.fork()
if pid == 0:
    os.execvp("nano", "nano --ignorercfiles ` + flags + ` f".split())
seen = b""
def until(what):
    global seen
    end = time.time() + 15
    while what not in seen:
        if time.time() > end: raise SystemExit(f"no {what} in {seen}")
        if select.select([tty], [], [], .1)[0]:
            try: seen += os.read(tty, 4096)
            except OSError: raise SystemExit(f"nano ended: {seen}")
    seen = b""
until(b"Exit")
os.write(tty, b"` + text + `")
until(b"` + text[len(text)-3:] + `"[:1])
os.write(tty, b"\x0f")
until(b"Write")
os.write(tty, b"\r")
until(b"rote")
os.write(tty, b"\x18")
os.waitpid(pid, 0)
END
`
}

// TestSync holds what programs that copy trees do.
func TestSync(t *testing.T) {
	t.Parallel()
	const source = `mkdir -p "$OUT/s/d"; echo 1 > "$OUT/s/a"; echo 2 > "$OUT/s/d/b"; `
	two := []string{"created a", "created d/b"}
	runUseCases(t, []useCase{
		{name: "rsync", needs: []string{"rsync"}, script: source + `rsync -rt "$OUT/s/" .; cat a d/b; ls -A`, out: "1\n2\na\nd\n", log: two},
		{name: "rsync -a again", needs: []string{"rsync"}, script: source + `rsync -a "$OUT/s/" .; rsync -a "$OUT/s/" .; echo 33 > "$OUT/s/a"; rsync -a "$OUT/s/" .; cat a; ls -A`,
			out: "33\na\nd\n", log: append(two, "modified a")},
		{name: "rsync --inplace", needs: []string{"rsync"}, script: source + `rsync -a --inplace "$OUT/s/" .; echo 33 > "$OUT/s/a"; rsync -a --inplace "$OUT/s/" .; cat a`,
			out: "33\n", log: append(two, "modified a")},
		{name: "rsync --delay-updates", needs: []string{"rsync"}, script: source + `rsync -a "$OUT/s/" .; echo 33 > "$OUT/s/a"; rsync -a --delay-updates "$OUT/s/" .; cat a; ls -A`, out: "33\na\nd\n",
			log: []string{"created a", "created d/b", "modified a"}},
		{name: "rsync --partial-dir", needs: []string{"rsync"}, script: source + `rsync -a "$OUT/s/" .; echo 33 > "$OUT/s/a"; rsync -a --partial-dir=.rsync-partial "$OUT/s/" .; cat a; ls -A`, out: "33\na\nd\n",
			log: []string{"created a", "created d/b", "modified a"}},
		{name: "rsync --delete", needs: []string{"rsync"}, script: source + `rsync -a "$OUT/s/" .; rm -r "$OUT/s/d"; rsync -a --delete "$OUT/s/" .; find . -type f`,
			out: "./a\n", log: append(two, "deleted d/b")},
		{name: "rsync --checksum", needs: []string{"rsync"}, script: source + `rsync -a "$OUT/s/" .; touch "$OUT/s/a"; rsync -ac "$OUT/s/" .; cat a`, out: "1\n", log: two},
		{name: "rsync out", needs: []string{"rsync"}, script: `mkdir d; echo x > d/f; rsync -a d/ "$OUT/x/"; cat "$OUT/x/f"`, out: "x\n", log: []string{"created d/f"}},
	})
}

// TestLanguages holds what programs do through their languages' libraries.
func TestLanguages(t *testing.T) {
	t.Parallel()
	py := func(name, code, out string, log ...string) useCase {
		return useCase{name: "python " + name, needs: []string{"python3"}, out: out, log: log,
			script: "python3 - <<'END'\nimport mmap, os, pathlib, shutil, tempfile, time\n" + code + "\nEND\n"}
	}
	node := func(name, code, out string, log ...string) useCase {
		return useCase{name: "node " + name, needs: []string{"node"}, out: out, log: log,
			script: "node - <<'END'\nconst fs = require('fs');\n" + code + "\nEND\n"}
	}
	runUseCases(t, []useCase{
		py("open", `
with open("f", "w") as f: f.write("x\n")
with open("f", "a") as f: f.write("y\n")
with open("f", "r+") as f: f.seek(2); f.write("z")
print(open("f").read(), end="")`, "x\nz\n", "created f", "modified f", "modified f"),
		py("open x", `
with open("f", "x") as f: f.write("x\n")
try: open("f", "x")
except FileExistsError: print("exists")`, "exists\n", "created f"),
		py("pathlib", `
p = pathlib.Path("d"); p.mkdir(); f = p / "f"
f.write_text("one"); f.write_text("two"); print(f.read_text()); f.write_bytes(b"two")
f.rename(p / "g"); print(sorted(x.name for x in p.iterdir())); (p / "g").unlink(); p.rmdir()`, "two\n['g']\n",
			"created d/f", "modified d/f", "renamed d/f > d/g", "deleted d/g"),
		py("os.replace", `
open("f", "w").write("x\n")
open("f.tmp", "w").write("y\n"); os.replace("f.tmp", "f")
print(open("f").read(), os.listdir())`, "y\n ['f']\n", "created f", "modified f"),
		py("atomic write", `
open("f", "w").write("x\n")
with tempfile.NamedTemporaryFile("w", dir=".", delete=False) as t:
    t.write("y\n"); t.flush(); os.fsync(t.fileno())
os.replace(t.name, "f")
print(open("f").read(), os.listdir())`, "y\n ['f']\n", "created f", "modified f"),
		py("tempfile", `
with tempfile.TemporaryFile("w+", dir=".") as t:
    t.write("x"); t.seek(0); print(t.read())
with tempfile.NamedTemporaryFile("w+", dir=".") as t:
    t.write("x"); t.flush(); print(open(t.name).read())
with tempfile.TemporaryDirectory(dir=".") as d: print(os.path.isdir(d))
print(os.listdir())`, "x\nx\nTrue\n[]\n"),
		py("shutil", `
os.makedirs("a/b"); open("a/b/f", "w").write("x")
shutil.copytree("a", "c"); shutil.move("c/b/f", "g"); shutil.rmtree("c"); print(open("g").read())`, "x\n",
			"created a/b/f", "created c/b/f", "renamed c/b/f > g"),
		py("low level", `
fd = os.open("f", os.O_CREAT | os.O_RDWR); os.write(fd, b"hello"); os.lseek(fd, 1, 0); os.write(fd, b"E"); os.ftruncate(fd, 4)
os.close(fd); print(open("f").read())`, "hEll\n", "created f"),
		py("fsync", `
f = open("f", "w"); f.write("a"); f.flush(); os.fsync(f.fileno()); os.fsync(f.fileno()); f.write("b"); f.close()
print(open("f").read())`, "ab\n", "created f", "modified f"),
		py("mmap read", `
open("f", "w").write("hello")
with open("f") as f, mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ) as m: print(m[:])`, "b'hello'\n", "created f"),
		py("mmap write", `
open("f", "w").write("hello")
with open("f", "r+") as f:
    m = mmap.mmap(f.fileno(), 0); m[0:1] = b"J"; m.flush(); os.fsync(f.fileno()); m.close()
print(open("f").read())`, "Jello\n", "created f", "modified f"),
		py("mmap write without msync", `
open("f", "w").write("hello")
with open("f", "r+") as f:
    m = mmap.mmap(f.fileno(), 0); m[0:1] = b"J"; m.close()
for i in range(100):
    if open("f").read() == "Jello": break
    time.sleep(.02)
print(open("f").read()); time.sleep(.3)`, "Jello\n", "created f", "modified f"),
		py("mmap write after close", `
open("f", "w").write("hello")
f = open("f", "r+"); m = mmap.mmap(f.fileno(), 0); f.close()
m[0:1] = b"J"; m.flush(); m.close()
print(open("f").read()); time.sleep(.3)`, "Jello\n", "created f", "modified f"),
		py("mmap write after close without msync", `
import ctypes  # the mmap module keeps a descriptor of its own
libc = ctypes.CDLL(None); libc.mmap.restype = ctypes.c_void_p; libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
open("f", "w").write("hello")
fd = os.open("f", os.O_RDWR); p = libc.mmap(None, 5, 3, 1, fd, 0); os.close(fd)
ctypes.memset(p, ord("J"), 1); libc.munmap(p, 5)
time.sleep(.5); print(open("f").read())`, "Jello\n", "created f", "modified f"),
		node("fs", `
fs.writeFileSync('f', 'x\n'); fs.appendFileSync('f', 'y\n'); process.stdout.write(fs.readFileSync('f', 'utf8'))
fs.renameSync('f', 'g'); fs.copyFileSync('g', 'h'); fs.unlinkSync('g'); console.log(fs.readdirSync('.').join())
fs.mkdirSync('d/e', {recursive: true}); fs.writeFileSync('d/e/f', ''); fs.rmSync('d', {recursive: true})`, "x\ny\nh\n",
			"created f", "modified f", "renamed f > g", "created h", "deleted g", "created d/e/f", "deleted d/e/f"),
		node("atomic", `
fs.writeFileSync('f', 'x\n'); fs.writeFileSync('f.tmp-' + process.pid, 'y\n'); fs.renameSync('f.tmp-' + process.pid, 'f')
process.stdout.write(fs.readFileSync('f', 'utf8')); console.log(fs.readdirSync('.').join())`, "y\nf\n", "created f", "modified f"),
		node("promises and streams", `
(async () => {
  await fs.promises.writeFile('f', 'a'); await fs.promises.appendFile('f', 'b'); await fs.promises.truncate('f', 1)
  await new Promise(r => { const s = fs.createWriteStream('g'); s.write('one '); s.end('two'); s.on('close', r) })
  console.log(fs.readFileSync('f', 'utf8'), fs.readFileSync('g', 'utf8'))
})()`, "a one two\n", "created f", "modified f", "modified f", "created g"),
	})
}

// TestAnyContent holds what works in a store that takes any bytes.
func TestAnyContent(t *testing.T) {
	t.Parallel()
	runUseCases(t, []useCase{
		{name: "gzip", script: `seq 1000 > f; gzip f; ls; zcat f.gz | tail -n 1; gunzip f.gz; tail -n 1 f; ls`, out: "f.gz\n1000\n1000\nf\n",
			log: []string{"created f", "created f.gz", "deleted f", "created f", "deleted f.gz"}},
		{name: "binary", script: `printf '\377\000\200' > f; od -An -tx1 f; head -c 1000000 /dev/urandom > g; cp g h; cmp g h`, out: " ff 00 80\n",
			log: []string{"created f", "created g", "created h"}},
		{name: "sqlite", needs: []string{"sqlite3"}, script: `sqlite3 db 'create table t(x); insert into t values(1)'; sqlite3 db 'select x from t'; ls`,
			out: "1\ndb\n", log: []string{"created db-journal", "modified db-journal", "created db", "deleted db-journal",
				"created db-journal", "modified db-journal", "modified db", "deleted db-journal"}},
	}, "--content", "any", "--max-memory-bytes", "20000000")
}

// TestSQLite holds that a database lives in a store: what was committed is in
// every version that follows.
func TestSQLite(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"delete", "truncate", "persist", "memory", "wal"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			harness.NeedTools(t, "sqlite3")
			e := harness.NewEnv(t)
			e.Store("db", "--content", "any", "--max-memory-bytes", "20000000")
			m := e.Mount(t, "db")
			out := m.Sh(t, `
				sqlite3 f.db 'pragma journal_mode=`+mode+`; create table t(x, y)'
				for i in 1 2 3 4 5; do sqlite3 f.db "pragma journal_mode=`+mode+`; insert into t values ($i, hex(randomblob(5000)))"; done
				sqlite3 f.db 'begin; delete from t where x = 1; rollback; select count(*), sum(x), sum(length(y)) from t; pragma integrity_check'`)
			want := "5|15|50000\nok\n"
			if !strings.HasSuffix(out, want) {
				t.Errorf("sqlite3 said %q, want ... %q", out, want)
			}
			out = m.Sh(t, `python3 - <<'END'
import sqlite3
a, b = sqlite3.connect("f.db"), sqlite3.connect("f.db")
for i in range(10):
    a.execute("insert into t values (100, 'a')"); a.commit()
    b.execute("insert into t values (100, 'b')"); b.commit()
print(a.execute("select count(*) from t where x = 100").fetchone()[0], b.execute("pragma integrity_check").fetchone()[0])
END`)
			if out != "20 ok\n" {
				t.Errorf("two connections said %q", out)
			}
			m.Stop(t)
			db := e.Must(t, "cat", "db:/f.db")
			got := e.Run(t, harness.ScriptPatience, db, func() {}, "bash", "-c", `cat > "$HOME/f.db"; sqlite3 "$HOME/f.db" 'select count(*), sum(x) from t; pragma integrity_check'`)
			if got.Stdout != "25|2015\nok\n" {
				t.Errorf("the head of f.db is not the database: %v", got)
			}
		})
	}
}

// TestGit holds that a repository lives in a store, and that the history has
// its files and none of git's locks and temporary files.
func TestGit(t *testing.T) {
	t.Parallel()
	harness.NeedTools(t, "git")
	e := harness.NewEnv(t)
	e.Store("repo", "--content", "any", "--max-memory-bytes", "20000000")
	m := e.Mount(t, "repo")
	m.Sh(t, `
		git init -q -b main .
		for i in $(seq 20); do mkdir -p d$((i % 4)); seq $i $((i + 100)) > d$((i % 4))/f$i; done
		git add .; git commit -q -m one
		test -z "$(git status --porcelain)"
		sed -i s/7/seven/ d*/f*; git add -A; git commit -q -m two
		git mv d1 e1; git rm -q -r d2; git commit -q -m three
		test "$(git log --format=%s)" = "$(printf 'three\ntwo\none')"
		git checkout -q -b side HEAD~1; echo side > g; git add g; git commit -q -m side
		git checkout -q main; git merge -q -m merge side; git stash list; git diff --stat HEAD~1 > /dev/null
		git tag v1; git gc -q; git fsck --strict --no-progress; test -z "$(git status --porcelain)"
		git clone -q . "$HOME/clone"; diff -r -x .git . "$HOME/clone"
		git clone -q "$HOME/clone" sub; git -C sub log -1 --format=%s; rm -rf sub`)
	for _, line := range e.ChangesBelow(t, "repo", "") {
		if strings.Contains(line, ".lock") || strings.Contains(line, "tmp_") {
			t.Errorf("the history has %s", line)
		}
	}
	m.Stop(t)
	// Empty directories end with their mount, and git gc empties .git/refs,
	// without which git sees no repository.
	m = e.Mount(t, "repo")
	m.Sh(t, `mkdir -p .git/refs; git fsck --strict --no-progress; git log -1 --format=%s | grep -q merge; test -z "$(git status --porcelain)"`)
}
