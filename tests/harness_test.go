// Package tests runs the real command and uses its mounts as people and agents
// do: from other processes. The test process itself never touches a mount, and
// whatever a test does is bounded in time.
package tests

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"mneme/internal/testing/awstest"
	"mneme/internal/testing/skip"
)

const (
	scriptPatience = slowness * 30 * time.Second // of one script on a mount
	mountPatience  = slowness * 20 * time.Second // until a mount is there, or gone
)

var (
	workDir string // everything the tests make is below it
	binary  string // the mneme under test
)

func TestMain(m *testing.M) {
	if role := os.Getenv(childVariable); role != "" {
		os.Exit(runChild(role, os.Args[1:]))
	}
	os.Exit(runTests(m))
}

func runTests(m *testing.M) (code int) {
	var err error
	if workDir, err = os.MkdirTemp("", "mneme-tests-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		if left := mountsBelow(workDir); len(left) > 0 {
			fmt.Fprintln(os.Stderr, "left mounted:", left)
			code = 1
			return
		}
		if err := os.RemoveAll(workDir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}()
	if err := os.Chmod(workDir, 0o755); err != nil { // other users take part
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	binary = filepath.Join(workDir, "bin", "mneme")
	args := append([]string{"build", "-buildvcs=false", "-o", binary}, raceFlags...)
	build := exec.Command("go", append(args, "mneme/cmd/mneme")...)
	build.Env = append(os.Environ(), cgo())
	build.Stdout, build.Stderr = os.Stdout, os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "build mneme:", err)
		return 1
	}
	return m.Run()
}

// cgo is the variable by which mneme is built without C, as make builds it, but for the
// race detector, which takes it.
func cgo() string { return fmt.Sprint("CGO_ENABLED=", len(raceFlags)) }

// result is how a command ended.
type result struct {
	stdout, stderr string
	code           int
}

func (r result) String() string {
	return fmt.Sprintf("exit code %d\nstdout:\n%s\nstderr:\n%s", r.code, r.stdout, r.stderr)
}

// env is a place of its own for one test: a store directory and a home.
type env struct {
	t      testing.TB
	dir    string
	home   string
	stores string // directory of the embedded stores
	made   map[string]bool
	remote *remote  // the stores are there instead; nil: embedded
	daemon string   // what serves the mounts; the mneme under test unless a test has another
	vars   []string // further variables of the environment of every program
	unseen bool     // the daemons have a process namespace of their own: requests are nobody's
}

func newEnv(t testing.TB) *env {
	t.Helper()
	needMounts(t)
	if err := noteSources(); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(workDir, "env-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	e := &env{t: t, dir: dir, home: filepath.Join(dir, "home"), stores: filepath.Join(dir, "stores"), made: map[string]bool{}, daemon: binary}
	if err := os.Mkdir(e.home, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if len(mountsBelow(dir)) == 0 {
			if err := os.RemoveAll(dir); err != nil {
				t.Errorf("remove %s: %v", dir, err)
			}
		}
	})
	if strings.HasPrefix(t.Name(), onAWSPrefix) {
		e.goRemote(awstest.S3(t), awstest.DynamoDB(t))
	}
	return e
}

// needMounts skips the test where nothing can be mounted.
func needMounts(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		skip.Because(t, "mounting in tests takes root")
	}
	if _, err := os.Stat("/dev/fuse"); err != nil {
		skip.Because(t, "there is no /dev/fuse")
	}
}

// needTools skips the test where a program is missing.
func needTools(t testing.TB, names ...string) {
	t.Helper()
	for _, name := range names {
		cmd := exec.Command("sh", "-c", `command -v -- "$1"`, "sh", name)
		cmd.Env = append(os.Environ(), "PATH="+searchPath())
		if cmd.Run() != nil {
			skip.Because(t, name+" is not installed")
		}
	}
}

func searchPath() string {
	return filepath.Dir(binary) + ":/usr/sbin:/usr/bin:/sbin:/bin:" + os.Getenv("PATH")
}

func (e *env) url() string {
	if e.remote != nil {
		return e.remote.url()
	}
	return "file://" + e.stores
}

// environ is what every process of the test sees; nothing of the person's own
// configuration is in it.
func (e *env) environ() []string {
	environ := []string{
		"HOME=" + e.home, "PATH=" + searchPath(), "MNEME_URL=" + e.url(), "TMPDIR=" + e.dir,
		"LANG=C.UTF-8", "LC_ALL=C.UTF-8", "TERM=xterm", "GIT_CONFIG_NOSYSTEM=1", "PYTHONDONTWRITEBYTECODE=1",
		// The race detector makes every command wait a second before it ends.
		"GORACE=atexit_sleep_ms=20 " + os.Getenv("GORACE"),
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org",
	}
	environ = append(environ, e.vars...)
	if e.remote != nil {
		environ = append(environ, e.remote.vars...)
	}
	for _, name := range []string{"GOCOVERDIR", "GOROOT", "GOFLAGS"} {
		if value, ok := os.LookupEnv(name); ok {
			environ = append(environ, name+"="+value)
		}
	}
	return environ
}

// run runs a command to its end, but not for longer than patience. What it
// started ends with it.
func (e *env) run(t testing.TB, patience time.Duration, stdin string, tooLong func(), name string, args ...string) result {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = e.environ()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Stdin = strings.NewReader(stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(patience, func() {
		tooLong()
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	})
	err := cmd.Wait()
	r := result{stdout: stdout.String(), stderr: stderr.String()}
	if !late.Stop() {
		t.Fatalf("%s %s: not done after %v\n%v", filepath.Base(name), strings.Join(args, " "), patience, r)
	}
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		r.code = exit.ExitCode()
	case err != nil:
		t.Fatalf("%s: %v", name, err)
	}
	return r
}

// mneme runs the command and returns how it ended.
func (e *env) mneme(args ...string) result {
	e.t.Helper()
	return e.mnemeIn(e.t, "", args...)
}

// mnemeIn is mneme with something on standard input, on behalf of t.
func (e *env) mnemeIn(t testing.TB, stdin string, args ...string) result {
	t.Helper()
	return e.run(t, scriptPatience, stdin, func() {}, binary, args...)
}

// must runs the command, which has to succeed, and returns its output.
func (e *env) must(t testing.TB, args ...string) string {
	t.Helper()
	return e.mustIn(t, "", args...)
}

// mustIn is must with something on standard input.
func (e *env) mustIn(t testing.TB, stdin string, args ...string) string {
	t.Helper()
	r := e.mnemeIn(t, stdin, args...)
	if r.code != 0 {
		t.Fatalf("mneme %s: %v", strings.Join(args, " "), r)
	}
	return r.stdout
}

// store makes a store, unless it is there.
func (e *env) store(name string, flags ...string) {
	e.t.Helper()
	if e.made[name] {
		return
	}
	e.must(e.t, append([]string{"store", "create", name, "--if-missing"}, flags...)...)
	e.made[name] = true
}

// mount is a running `mneme mount`.
type mount struct {
	env     *env
	at      string // where
	dir     string // of the first store
	session string
	pid     int

	cmd    *exec.Cmd
	minor  string      // of the device, which names the FUSE connection
	ready  *lineWaiter // standard output
	stderr *safeBuffer
	ended  chan struct{} // closed when the daemon has exited
	err    error         // how; valid once ended is closed
	over   bool          // stopped or killed by the test
}

var mountCount counter

// mount starts `mneme mount` with those stores and flags in the foreground and
// returns when it is there. Stores that are missing are made. Without --at it
// has a directory of its own, without --session a session of its own. It ends
// with the test.
func (e *env) mount(t testing.TB, args ...string) *mount {
	t.Helper()
	m := &mount{env: e, stderr: &safeBuffer{}, ended: make(chan struct{})}
	first := ""
	for _, arg := range args {
		if at, ok := strings.CutPrefix(arg, "--at="); ok {
			m.at = at
		} else if session, ok := strings.CutPrefix(arg, "--session="); ok {
			m.session = session
		} else if !strings.HasPrefix(arg, "-") {
			name, _, _ := strings.Cut(arg, ":")
			e.store(name)
			if first == "" {
				first = name
			}
		}
	}
	n := mountCount.next()
	if m.at == "" {
		m.at = filepath.Join(e.dir, fmt.Sprintf("mnt-%d", n))
		args = append(args, "--at="+m.at)
	}
	if m.session == "" {
		m.session = fmt.Sprintf("session-%d", n)
		args = append(args, "--session="+m.session)
	}
	m.dir = filepath.Join(m.at, first)
	m.start(t, append([]string{"mount", "--json"}, args...))
	return m
}

func (m *mount) start(t testing.TB, args []string) {
	t.Helper()
	m.cmd = exec.Command(m.env.daemon, args...)
	m.cmd.Env = m.env.environ()
	m.cmd.Stderr = m.stderr
	// A test process that is killed takes its daemons along.
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if m.env.unseen {
		m.cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWPID
	}
	m.ready = newLineWaiter()
	m.cmd.Stdout = m.ready
	startTied(t, m.cmd)
	go func() {
		m.err = m.cmd.Wait()
		close(m.ended)
	}()
	m.pid = m.cmd.Process.Pid
	t.Cleanup(func() { m.end(t) })
	select {
	case <-m.ready.first:
	case <-m.ended:
		t.Fatalf("mneme %s: %v\n%s", strings.Join(args, " "), m.err, m.stderr)
	case <-time.After(mountPatience):
		t.Fatalf("mneme %s: not mounted after %v\n%s", strings.Join(args, " "), mountPatience, m.stderr)
	}
	for _, info := range mountInfos() {
		if info.dir == m.at {
			m.minor = info.minor
		}
	}
	if m.minor == "" {
		t.Fatalf("%s is not mounted, though mneme said so\n%s", m.at, m.stderr)
	}
}

// end is the cleanup of a mount: whatever state it is in, afterwards it is gone.
func (m *mount) end(t testing.TB) {
	t.Helper()
	if t.Failed() && !m.over && m.wait(500*time.Millisecond) {
		t.Logf("the daemon of %s ended before the test did: %v %s", m.at, m.err, m.stderr)
	}
	if !m.over {
		m.over = true
		_ = syscall.Kill(m.pid, syscall.SIGTERM)
		if !m.wait(mountPatience) {
			t.Errorf("the daemon did not end within %v of SIGTERM; its goroutines:\n%s", mountPatience, m.goroutines())
		} else if m.err != nil {
			t.Errorf("the daemon ended badly: %v\n%s", m.err, m.stderr)
		} else if left := mountsBelow(m.at); len(left) > 0 {
			t.Errorf("still mounted after SIGTERM: %v", left)
		}
	}
	if !m.wait(0) {
		m.abort()
		_ = syscall.Kill(m.pid, syscall.SIGKILL)
		m.wait(mountPatience)
	}
	for range mountsBelow(m.at) {
		_ = exec.Command("umount", "-l", m.at).Run()
	}
	if text := m.stderr.String(); strings.Contains(text, "DATA RACE") || strings.Contains(text, "panic") {
		t.Errorf("the daemon said:\n%s", text)
	}
	if t.Failed() && m.stderr.String() != "" {
		t.Logf("the daemon of %s said:\n%s", m.at, m.stderr)
	}
}

// wait reports whether the daemon has exited, after patience at the latest.
func (m *mount) wait(patience time.Duration) bool {
	select {
	case <-m.ended:
		return true
	case <-time.After(patience):
	}
	select { // when both are the case, select picks either
	case <-m.ended:
		return true
	default:
		return false
	}
}

// goroutines makes a daemon that hangs say where.
func (m *mount) goroutines() string {
	m.abort()
	_ = syscall.Kill(m.pid, syscall.SIGQUIT)
	m.wait(5 * time.Second)
	return m.stderr.String()
}

// stop ends the mount as a person would; it must end well.
func (m *mount) stop(t testing.TB) {
	t.Helper()
	m.end(t)
}

// kill ends the daemon as a power cut would and leaves the mount behind.
func (m *mount) kill(t testing.TB) {
	t.Helper()
	m.over = true
	_ = syscall.Kill(m.pid, syscall.SIGKILL)
	if !m.wait(mountPatience) {
		t.Fatalf("the daemon outlived SIGKILL for %v", mountPatience)
	}
}

// abort ends the FUSE connection: every request in it fails, whoever waits. The
// kernel gives the number of a connection that is gone to the next one, perhaps
// another test's, so that only one that is still mounted is ended.
func (m *mount) abort() {
	mine := mountInfo{dir: m.at, minor: m.minor, source: fmt.Sprintf("mneme:%d", m.pid)}
	if slices.Contains(mountInfos(), mine) {
		abortConnection(m.minor)
	}
}

// abortConnection ends the FUSE connection of that number.
func abortConnection(minor string) {
	const connections = "/sys/fs/fuse/connections"
	dir := connections
	if _, err := os.Stat(filepath.Join(dir, minor)); err != nil {
		tmp, err := os.MkdirTemp(workDir, "fusectl-")
		if err != nil {
			return
		}
		defer os.Remove(tmp)
		if syscall.Mount("none", tmp, "fusectl", 0, "") != nil {
			return
		}
		defer syscall.Unmount(tmp, syscall.MNT_DETACH)
		dir = tmp
	}
	_ = os.WriteFile(filepath.Join(dir, minor, "abort"), []byte("1"), 0)
}

// try runs a bash script in the first store's directory and returns how it
// ended. A script that hangs fails the test and the mount.
func (m *mount) try(t testing.TB, script string) result {
	t.Helper()
	return m.tryIn(t, m.dir, script)
}

// tryIn is try in another directory.
func (m *mount) tryIn(t testing.TB, dir, script string) result {
	t.Helper()
	return m.env.run(t, scriptPatience, "", m.abort,
		"bash", "-euo", "pipefail", "-c", "cd -- \"$0\"\n"+script, dir)
}

// sh is try for a script that has to succeed; it returns its output.
func (m *mount) sh(t testing.TB, script string) string {
	t.Helper()
	return m.shIn(t, m.dir, script)
}

// shIn is sh in another directory.
func (m *mount) shIn(t testing.TB, dir, script string) string {
	t.Helper()
	r := m.tryIn(t, dir, script)
	if r.code != 0 {
		t.Fatalf("script:\n%s\n%v", script, r)
	}
	return r.stdout
}

// background starts a script as sh would and returns a function that waits for
// its end and returns how it ended.
func (m *mount) background(t testing.TB, script string) (wait func() result) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var r result
	go func() {
		defer cancel()
		r = m.try(t, script)
	}()
	return func() result {
		<-ctx.Done()
		return r
	}
}
