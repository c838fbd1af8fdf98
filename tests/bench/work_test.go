package bench

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"mneme/tests/harness"
)

// work is something to do in a directory and to time.
type work struct {
	name string
	run  func(dir string) time.Duration
}

// bench runs a program to its end, which must be a good one.
func bench(b testing.TB, e *harness.Env, name string, args ...string) {
	b.Helper()
	if r := e.Run(b, harness.LongPatience, "", func() {}, name, args...); r.Code != 0 {
		b.Fatalf("%s %s: %v", name, strings.Join(args, " "), r)
	}
}

// shell times a script in a directory, the process's start included.
func shell(b testing.TB, e *harness.Env, script string) func(dir string) time.Duration {
	return func(dir string) time.Duration {
		start := time.Now()
		bench(b, e, "bash", "-euo", "pipefail", "-c", "cd "+dir+" && "+script)
		return time.Since(start)
	}
}

// timed times what benchChild times.
func timed(b testing.TB, e *harness.Env, args ...string) func(dir string) time.Duration {
	return func(dir string) time.Duration {
		text := strings.TrimSpace(runBenchChild(b, e, append([]string{args[0], dir}, args[1:]...)...))
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			b.Fatal(err)
		}
		return time.Duration(n)
	}
}

// runBenchChild runs benchChild in a process of its own and returns what it prints.
func runBenchChild(b testing.TB, e *harness.Env, args ...string) string {
	b.Helper()
	r := tryBenchChild(b, e, args...)
	if r.Code != 0 {
		b.Fatalf("%v: %v", args, r)
	}
	return r.Stdout
}

// tryBenchChild runs benchChild in a process of its own.
func tryBenchChild(b testing.TB, e *harness.Env, args ...string) harness.Result {
	return e.Run(b, harness.LongPatience, "", func() {}, "env", append([]string{harness.ChildVariable + "=bench", selfOf(b)}, args...)...)
}

// selfOf returns the file of this program.
func selfOf(b testing.TB) string {
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	return self
}

// grepWork reads all files and says what is in a few. Its output goes to a file:
// to /dev/null, grep would stop at the first line found.
func grepWork(b testing.TB, e *harness.Env) work {
	return work{"`grep -r`", shell(b, e, "grep -r wizards . > "+out(e))}
}

func out(e *harness.Env) string { return filepath.Join(e.Dir, "out") }

// warmWork is what agents do all day, over a corpus and a list of some files.
func warmWork(b testing.TB, e *harness.Env, list string, n int) []work {
	out := out(e)
	return []work{
		grepWork(b, e),
		{"`rg`", shell(b, e, "rg --no-ignore --hidden wizards . > "+out)},
		{"`find`", shell(b, e, "find . > "+out)},
		{"`ls -lR`", shell(b, e, "ls -lR . > "+out)},
		// To a pipe: into a file cat would copy within ext4 without reading.
		{fmt.Sprintf("`cat` of %d files", n), shell(b, e, "xargs cat < "+list+" | cat > "+out)},
		{fmt.Sprintf("open, read, close of %d files", n), timed(b, e, "read", list)},
		{fmt.Sprintf("64 readers of %d files", n), timed(b, e, "parallel", list)},
	}
}

// peer is a program that is not mneme and serves a mount.
type peer struct {
	dir string
	cmd *exec.Cmd
}

// startPeer starts a program that mounts dir and stays in the foreground. It
// ends with the benchmark, or with stop.
func startPeer(b testing.TB, e *harness.Env, dir string, vars []string, name string, args ...string) *peer {
	b.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		b.Fatal(err)
	}
	p := &peer{dir: dir, cmd: exec.Command(name, args...)}
	said := &harness.SafeBuffer{}
	p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = append(e.Environ(), vars...), said, said
	if err := p.cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { p.stop() })
	for deadline := time.Now().Add(harness.MountPatience); len(harness.MountsBelow(dir)) == 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			b.Fatalf("%s has not mounted after %v:\n%s", name, harness.MountPatience, said)
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
	for range harness.MountsBelow(p.dir) {
		_ = p.cmd.Process.Kill()
		_ = exec.Command("umount", "-l", p.dir).Run()
	}
	_ = p.cmd.Wait()
}
