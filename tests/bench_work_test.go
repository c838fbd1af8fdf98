package tests

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// work is something to do in a directory and to time.
type work struct {
	name string
	run  func(dir string) time.Duration
}

// bench runs a program to its end, which must be a good one.
func (e *env) bench(b testing.TB, name string, args ...string) {
	b.Helper()
	if r := e.run(b, longPatience, "", func() {}, name, args...); r.code != 0 {
		b.Fatalf("%s %s: %v", name, strings.Join(args, " "), r)
	}
}

// shell times a script in a directory, the process's start included.
func (e *env) shell(b testing.TB, script string) func(dir string) time.Duration {
	return func(dir string) time.Duration {
		start := time.Now()
		e.bench(b, "bash", "-euo", "pipefail", "-c", "cd "+dir+" && "+script)
		return time.Since(start)
	}
}

// timed times what benchChild times.
func (e *env) timed(b testing.TB, args ...string) func(dir string) time.Duration {
	return func(dir string) time.Duration {
		text := strings.TrimSpace(e.benchChild(b, append([]string{args[0], dir}, args[1:]...)...))
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			b.Fatal(err)
		}
		return time.Duration(n)
	}
}

// benchChild runs benchChild in a process of its own and returns what it prints.
func (e *env) benchChild(b testing.TB, args ...string) string {
	b.Helper()
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	r := e.run(b, longPatience, "", func() {}, "env", append([]string{childVariable + "=bench", self}, args...)...)
	if r.code != 0 {
		b.Fatalf("%v: %v", args, r)
	}
	return r.stdout
}

// grepWork reads all files and says what is in a few. Its output goes to a file:
// to /dev/null, grep would stop at the first line found.
func (e *env) grepWork(b testing.TB) work {
	return work{"`grep -r`", e.shell(b, "grep -r wizards . > "+e.out())}
}

func (e *env) out() string { return filepath.Join(e.dir, "out") }

// warmWork is what agents do all day, over a corpus and a list of some files.
func (e *env) warmWork(b testing.TB, list string, n int) []work {
	out := e.out()
	return []work{
		e.grepWork(b),
		{"`rg`", e.shell(b, "rg --no-ignore --hidden wizards . > "+out)},
		{"`find`", e.shell(b, "find . > "+out)},
		{"`ls -lR`", e.shell(b, "ls -lR . > "+out)},
		// To a pipe: into a file cat would copy within ext4 without reading.
		{fmt.Sprintf("`cat` of %d files", n), e.shell(b, "xargs cat < "+list+" | cat > "+out)},
		{fmt.Sprintf("open, read, close of %d files", n), e.timed(b, "read", list)},
		{fmt.Sprintf("64 readers of %d files", n), e.timed(b, "parallel", list)},
	}
}

// peer is a program that is not mneme and serves a mount.
type peer struct {
	dir string
	cmd *exec.Cmd
}

// startPeer starts a program that mounts dir and stays in the foreground. It
// ends with the benchmark, or with stop.
func (e *env) startPeer(b testing.TB, dir string, vars []string, name string, args ...string) *peer {
	b.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		b.Fatal(err)
	}
	p := &peer{dir: dir, cmd: exec.Command(name, args...)}
	said := &safeBuffer{}
	p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = append(e.environ(), vars...), said, said
	if err := p.cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { p.stop() })
	for deadline := time.Now().Add(mountPatience); len(mountsBelow(dir)) == 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			b.Fatalf("%s has not mounted after %v:\n%s", name, mountPatience, said)
		}
	}
	return p
}

// stop unmounts and ends the program.
func (p *peer) stop() {
	if p.cmd.ProcessState != nil {
		return
	}
	_ = exec.Command("umount", p.dir).Run() // ends it by itself, with everything uploaded
	late := time.AfterFunc(10*time.Second, func() { _ = p.cmd.Process.Kill() })
	defer late.Stop()
	for range mountsBelow(p.dir) {
		_ = p.cmd.Process.Kill()
		_ = exec.Command("umount", "-l", p.dir).Run()
	}
	_ = p.cmd.Wait()
}
