package hostile

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"
	"testing"
	"time"

	"mneme/internal/testing/skip"
	"mneme/tests/harness"
)

const (
	agent = 3001 // the user whom the tests take for hostile, and its group
	other = 3002 // another one
)

var patience = harness.Slowness * 20 * time.Second // of one command

var (
	workDir string // everything the tests make is below it
	binary  string // the mneme under test
)

// notRaced are the tests of calls that are refused at once, and of memory and capabilities, of
// which a program with the race detector has more.
var notRaced = regexp.MustCompile(`^Test(DirectoriesOfOthers|Exec|Harness|MemoryFlood|MountPoint|MountPointOfRoot|` +
	`PlantedLinks|Private|Privileges|UnmountFollowsNobody)(/|$)`)

func TestMain(m *testing.M) {
	harness.NotRaced = notRaced
	os.Exit(runTests(m))
}

func runTests(m *testing.M) (code int) {
	if text, ok := os.LookupEnv(callsOrder); ok {
		return makeCalls(text)
	}
	if text, ok := os.LookupEnv(savesOrder); ok {
		return makeSaves(text)
	}
	if os.Geteuid() != 0 {
		return m.Run() // each test says why it is skipped
	}
	var err error
	if workDir, err = os.MkdirTemp("", "mneme-hostile-"); err == nil {
		err = os.Chmod(workDir, 0o755) // other users take part
	}
	if err == nil {
		err = harness.NoteSources()
	}
	if err == nil {
		harness.Binary, harness.Daemon, err = harness.Build(workDir)
		binary = harness.Binary
	}
	if err == nil {
		code = m.Run()
	}
	if err := errors.Join(err, cleanUp(workDir)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// cleanUp unmounts what is mounted below a directory, and removes it. That
// something is mounted is an error.
func cleanUp(dir string) error {
	left := harness.MountsBelow(dir)
	for _, at := range slices.Backward(left) { // the newest first
		_ = syscall.Unmount(at, syscall.MNT_DETACH|syscall.MNT_FORCE)
	}
	if left != nil {
		return fmt.Errorf("left mounted: %v", left)
	}
	return os.RemoveAll(dir)
}

// place is a directory of root's for one test, which every user may enter.
type place struct {
	testing.TB
	dir    string
	home   string   // root's, which no other user may enter
	stores string   // root's own
	vars   []string // further variables of the environment of every program
}

// newPlace skips the test where it cannot run. tools are programs that it uses
// besides.
func newPlace(t testing.TB, tools ...string) *place {
	t.Helper()
	if os.Geteuid() != 0 {
		skip.Because(t, "acting as two users takes root")
	}
	if _, err := os.Stat("/dev/fuse"); err != nil {
		skip.Because(t, "there is no /dev/fuse")
	}
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err != nil {
			skip.Because(t, tool+" is not installed")
		}
	}
	dir, err := os.MkdirTemp(workDir, "place-")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	p := &place{TB: t, dir: dir, home: filepath.Join(dir, "home"), stores: filepath.Join(dir, "home", "stores")}
	p.mkdir("home", 0, 0o700)
	t.Cleanup(func() {
		if err := cleanUp(dir); err != nil {
			t.Error(err)
		}
	})
	return p
}

// path is that of a name in the place.
func (p *place) path(name string) string { return filepath.Join(p.dir, name) }

// mkdir makes a directory of a user's in the place, and returns its path.
func (p *place) mkdir(name string, uid int, mode fs.FileMode) string {
	p.Helper()
	dir := p.path(name)
	if err := errors.Join(os.Mkdir(dir, mode), os.Chmod(dir, mode), os.Chown(dir, uid, uid)); err != nil {
		p.Fatal(err)
	}
	return dir
}

// result is how a command ended.
type result struct {
	stdout, stderr string
	code           int
}

func (r result) String() string {
	return fmt.Sprintf("exit code %d\nstdout:\n%s\nstderr:\n%s", r.code, r.stdout, r.stderr)
}

// environ is what every program sees; nothing of the person's own configuration
// is in it.
func (p *place) environ(home string) []string {
	return append([]string{
		"HOME=" + home, "MNEME_URL=file://" + p.stores, "TMPDIR=" + p.dir, "LANG=C.UTF-8",
		"PATH=" + filepath.Dir(binary) + ":/usr/sbin:/usr/bin:/sbin:/bin:" + os.Getenv("PATH"),
		"GORACE=atexit_sleep_ms=20 " + os.Getenv("GORACE"), // else every command waits a second
	}, p.vars...)
}

// command is one of a user's, which is killed with what it started when it takes
// too long. A user other than root has no home.
func (p *place) command(ctx context.Context, uid int, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = "/", p.environ(p.home)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if uid != 0 {
		cmd.Env = p.environ("/nonexistent")
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}
	}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	return cmd
}

// run runs a user's command to its end.
func (p *place) run(uid int, name string, args ...string) result {
	p.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience) // also in a cleanup
	defer cancel()
	cmd := p.command(ctx, uid, name, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	r := result{stdout: stdout.String(), stderr: stderr.String()}
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		p.Fatalf("%s %q: not done after %v\n%v", filepath.Base(name), args, patience, r)
	case errors.As(err, &exit):
		r.code = exit.ExitCode()
	case err != nil:
		p.Fatal(err)
	}
	return r
}

// mneme runs the mneme under test as a user.
func (p *place) mneme(uid int, args ...string) result {
	p.Helper()
	return p.run(uid, binary, args...)
}

// must runs mneme as root, which has to succeed, and returns its output.
func (p *place) must(args ...string) string {
	p.Helper()
	return p.succeed(p.mneme(0, args...), args)
}

// sh runs a bash script as a user, which has to succeed, and returns its output.
func (p *place) sh(uid int, script string) string {
	p.Helper()
	return p.succeed(p.try(uid, script), script)
}

// try runs a bash script as a user, in the place.
func (p *place) try(uid int, script string) result {
	p.Helper()
	return p.run(uid, "bash", "-euo", "pipefail", "-c", `cd -- "$0"`+"\n"+script, p.dir)
}

func (p *place) succeed(r result, what any) string {
	p.Helper()
	if r.code != 0 {
		p.Fatalf("%v: %v", what, r)
	}
	return r.stdout
}

// sandbox runs a bash script in a sandbox of bubblewrap as a user without
// capabilities, in namespaces of its own: the system's directories are read-only
// there, and those of the place that binds names, from there to where, can be
// written.
func (p *place) sandbox(uid int, binds map[string]string, script string) result {
	p.Helper()
	args := []string{
		"--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--die-with-parent", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp",
		"--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64",
	}
	for from, to := range binds {
		args = append(args, "--bind", from, to)
	}
	args = append(args, "--", "setpriv", fmt.Sprint("--reuid=", uid), fmt.Sprint("--regid=", uid), "--clear-groups",
		"--bounding-set=-all", "--inh-caps=-all", "bash", "-euo", "pipefail", "-c", script)
	return p.run(0, "bwrap", append([]string{"--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID", "--cap-add", "CAP_SETPCAP"}, args...)...)
}

// mount mounts stores of root's at a path in the place as root, in the background,
// until the test ends. It returns the path and the process id of the daemon.
func (p *place) mount(at string, args ...string) (dir string, pid int) {
	p.Helper()
	dir = p.path(at)
	args = append([]string{"mount", "--json", "--background", "--at", dir}, args...)
	text := p.succeed(p.run(0, harness.DaemonOf(p), args...), args)
	var mounted struct {
		PID int `json:"pid"`
	}
	if err := json.Unmarshal([]byte(text), &mounted); err != nil {
		p.Fatalf("%v: %s", err, text)
	}
	p.Cleanup(func() {
		if len(harness.MountsBelow(dir)) > 0 {
			if r := p.mneme(0, "unmount", "--at", dir); r.code != 0 {
				p.Errorf("unmount %s: %v", dir, r)
			}
		}
	})
	return dir, mounted.PID
}
