package harness

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"mneme/internal/testing/awstest"
	"mneme/internal/testing/skip"
)

var (
	WorkDir string // everything the tests make is below it
	Binary  string // the mneme under test
	Daemon  string // the same for processes that run for long, mounts and servers: with the race detector where tests ask for it
)

// DaemonOf returns the program that serves the mounts of a test.
func DaemonOf(t testing.TB) string {
	if Raced(t) {
		return Daemon
	}
	return Binary
}

// Env is a place of its own for one test: a store directory and a home.
type Env struct {
	t      testing.TB
	Dir    string
	Home   string
	Stores string // directory of the embedded stores
	made   map[string]bool
	Remote *remote  // the stores are there instead; nil: embedded
	Server int      // the process that Serve has started last
	Daemon string   // what serves the mounts; that of the package unless a test has another
	Vars   []string // further variables of the environment of every program
	Unseen bool     // the daemons have a process namespace of their own: they see no process behind a request
	Alone  bool     // the daemons have a network namespace of their own, in which there is no network

	Sessionless bool // mounts are not told their session: that of their token, or a new one
}

// NewEnv makes a place that is removed when the test ends. Where nothing can be
// mounted, the test is skipped. Below TestOnAWS the stores are on S3 and DynamoDB.
func NewEnv(t testing.TB) *Env {
	t.Helper()
	needMounts(t)
	if err := NoteSources(); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(WorkDir, "env-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	e := &Env{t: t, Dir: dir, Home: filepath.Join(dir, "home"), Stores: filepath.Join(dir, "stores"), made: map[string]bool{}, Daemon: DaemonOf(t)}
	if err := os.Mkdir(e.Home, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if len(MountsBelow(dir)) == 0 {
			if err := os.RemoveAll(dir); err != nil {
				t.Errorf("remove %s: %v", dir, err)
			}
		}
	})
	if strings.HasPrefix(t.Name(), onAWSPrefix) {
		e.GoRemote(awstest.S3(t), awstest.DynamoDB(t))
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

// NeedTools skips the test where a program is missing.
func NeedTools(t testing.TB, names ...string) {
	t.Helper()
	for _, name := range names {
		cmd := exec.Command("sh", "-c", `command -v -- "$1"`, "sh", name)
		cmd.Env = append(os.Environ(), "PATH="+SearchPath())
		if cmd.Run() != nil {
			skip.Because(t, name+" is not installed")
		}
	}
}

// URL is where the stores are.
func (e *Env) URL() string {
	if e.Remote != nil {
		return e.Remote.url()
	}
	return "file://" + e.Stores
}

// Environ is what every process of the test sees; nothing of the person's own
// configuration is in it.
func (e *Env) Environ() []string {
	environ := []string{
		"HOME=" + e.Home, "PATH=" + SearchPath(), "MNEME_URL=" + e.URL(), "TMPDIR=" + e.Dir,
		"LANG=C.UTF-8", "LC_ALL=C.UTF-8", "TERM=xterm", "GIT_CONFIG_NOSYSTEM=1", "PYTHONDONTWRITEBYTECODE=1",
		// The race detector makes every command wait a second before it ends.
		"GORACE=atexit_sleep_ms=20 " + os.Getenv("GORACE"),
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org",
	}
	environ = append(environ, e.Vars...)
	if e.Remote != nil {
		environ = append(environ, e.Remote.Vars...)
	}
	for _, name := range []string{"GOCOVERDIR", "GOROOT", "GOFLAGS", RaceVariable} {
		if value, ok := os.LookupEnv(name); ok {
			environ = append(environ, name+"="+value)
		}
	}
	return environ
}

// SearchPath is the $PATH of every program: the mneme under test comes first.
func SearchPath() string {
	return filepath.Dir(Binary) + ":/usr/sbin:/usr/bin:/sbin:/bin:" + os.Getenv("PATH")
}

// Result is how a command ended.
type Result struct {
	Stdout, Stderr string
	Code           int
}

func (r Result) String() string {
	return fmt.Sprintf("exit code %d\nstdout:\n%s\nstderr:\n%s", r.Code, r.Stdout, r.Stderr)
}

// Run runs a command to its end, but not for longer than patience. Processes that it started end
// with it.
func (e *Env) Run(t testing.TB, patience time.Duration, stdin string, tooLong func(), name string, args ...string) Result {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = e.Environ()
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
	r := Result{Stdout: stdout.String(), Stderr: stderr.String()}
	if !late.Stop() {
		t.Fatalf("%s %s: not done after %v\n%v", filepath.Base(name), strings.Join(args, " "), patience, r)
	}
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		r.Code = exit.ExitCode()
	case err != nil:
		t.Fatalf("%s: %v", name, err)
	}
	return r
}

// Mneme runs the command and returns how it ended.
func (e *Env) Mneme(args ...string) Result {
	e.t.Helper()
	return e.MnemeIn(e.t, "", args...)
}

// MnemeIn is Mneme with something on standard input, on behalf of t.
func (e *Env) MnemeIn(t testing.TB, stdin string, args ...string) Result {
	t.Helper()
	return e.Run(t, ScriptPatience, stdin, func() {}, Binary, args...)
}

// Must runs the command, which has to succeed, and returns its output.
func (e *Env) Must(t testing.TB, args ...string) string {
	t.Helper()
	return e.MustIn(t, "", args...)
}

// MustIn is Must with something on standard input.
func (e *Env) MustIn(t testing.TB, stdin string, args ...string) string {
	t.Helper()
	r := e.MnemeIn(t, stdin, args...)
	if r.Code != 0 {
		t.Fatalf("mneme %s: %v", strings.Join(args, " "), r)
	}
	return r.Stdout
}

// Store makes a store, unless it is there.
func (e *Env) Store(name string, flags ...string) {
	e.t.Helper()
	if e.made[name] {
		return
	}
	e.Must(e.t, append([]string{"store", "create", name, "--if-missing"}, flags...)...)
	e.made[name] = true
}

// onAWSPrefix begins the names of the tests whose environments are remote.
const onAWSPrefix = "TestOnAWS/"

// remote is where the stores of a test are that are not embedded.
type remote struct {
	s3, dynamo    string // endpoints
	bucket, table string
	Vars          []string // for mneme
}

var remoteCount counter

// GoRemote gives the test's stores a bucket and a table of their own.
func (e *Env) GoRemote(s3, dynamo string) {
	e.t.Helper()
	n := remoteCount.Next()
	e.Remote = &remote{
		s3: s3, dynamo: dynamo, bucket: fmt.Sprintf("tests-%d", n), table: fmt.Sprintf("tests-%d", n),
		Vars: awstest.EnvFor(s3, dynamo),
	}
	e.Must(e.t, "setup")
}

func (r *remote) url() string { return "aws://" + r.bucket + "?table=" + r.table }
