package awstest

import (
	"bufio"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"mneme/internal/testing/skip"
)

const (
	startPatience = 90 * time.Second // on a machine that does much else
	startAttempts = 3                // another program may take the port that was free
	pollInterval  = 5 * time.Millisecond
)

//go:embed Loopback.java
var loopbackJava []byte

// kind is one of the servers.
type kind struct {
	name string
	// command returns how to run it on a port of 127.0.0.1 with its data below
	// an existing directory. It skips the test where it is not installed.
	command func(t testing.TB, port, dir string) []string
}

var (
	versitygw = &kind{"versitygw", func(t testing.TB, port, dir string) []string {
		for _, sub := range []string{"s3", "s3v"} {
			if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		return []string{
			installed(t, "versitygw"), "--access", AccessKey, "--secret", SecretKey, "--port", "127.0.0.1:" + port,
			"--region", Region, "--quiet", "--health", "/healthz",
			"posix", "--versioning-dir", filepath.Join(dir, "s3v"), filepath.Join(dir, "s3"),
		}
	}}
	dynoxide = &kind{"dynoxide", func(t testing.TB, port, _ string) []string {
		return []string{installed(t, "dynoxide"), "serve", "--host", "127.0.0.1", "--port", port}
	}}
	durableDynoxide = &kind{"dynoxide", func(t testing.TB, port, dir string) []string {
		return append(dynoxide.command(t, port, dir), "--db-path", filepath.Join(dir, "dynamodb.sqlite"))
	}}
	dynamoDBLocal = &kind{"dynamodb-local", func(t testing.TB, port, dir string) []string {
		lib := installed(t, "dynamodb-local")
		launcher := filepath.Join(dir, "Loopback.java")
		if err := os.WriteFile(launcher, loopbackJava, 0o600); err != nil {
			t.Fatal(err)
		}
		return []string{
			installed(t, "java"), "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m", "-Djava.net.preferIPv4Stack=true",
			"-Djava.library.path=" + filepath.Join(lib, "DynamoDBLocal_lib"),
			"-cp", filepath.Join(lib, "DynamoDBLocal.jar") + ":" + filepath.Join(lib, "DynamoDBLocal_lib", "*"),
			launcher, "-inMemory", "-disableTelemetry", "-port", port,
		}
	}}
)

// installed returns the path of an installed server, or skips the test.
func installed(t testing.TB, name string) string {
	t.Helper()
	path := filepath.Join(directory(), name)
	if _, err := os.Stat(path); err != nil {
		skip.Because(t, name+" is not installed; run scripts/install-test-servers.sh")
	}
	return path
}

// shared are the servers of this process by kind.
var shared struct {
	sync.Mutex
	servers map[*kind]*Server
}

func sharedServer(t testing.TB, k *kind) *Server {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if s := shared.servers[k]; s != nil {
		return s
	}
	dir, err := os.MkdirTemp("", "mneme-"+k.name+"-")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{kind: k, dir: dir, removed: true}
	s.Start(t)
	if shared.servers == nil {
		shared.servers = make(map[*kind]*Server)
	}
	shared.servers[k] = s
	return s
}

// Server is a running server. Its methods are called from one goroutine at a
// time.
type Server struct {
	// Endpoint is its URL, the same after each Start.
	Endpoint string

	kind    *kind
	dir     string
	removed bool // dir goes when the server ends
	port    string
	pid     int
	keeper  *exec.Cmd
	leash   io.Closer // the keeper ends the server when this closes
}

// NewS3 starts a versitygw of the test's own, which the test may stop and start.
// It ends with the test.
func NewS3(t testing.TB) *Server {
	t.Helper()
	return newServer(t, versitygw)
}

// NewDynamoDB is NewS3 for a dynoxide that keeps its data in a file.
func NewDynamoDB(t testing.TB) *Server {
	t.Helper()
	return newServer(t, durableDynoxide)
}

func newServer(t testing.TB, k *kind) *Server {
	t.Helper()
	s := &Server{kind: k, dir: t.TempDir()}
	s.Start(t)
	t.Cleanup(s.Stop)
	return s
}

// Dir returns where the server keeps its data: versitygw has a bucket's objects
// as files below s3/.
func (s *Server) Dir() string { return s.dir }

// Start starts the server, on the port that it had before, and returns when it
// answers.
func (s *Server) Start(t testing.TB) {
	t.Helper()
	var err error
	for range startAttempts {
		port := s.port
		if port == "" {
			port = freePort(t)
		}
		if err = s.run(port, s.kind.command(t, port, s.dir)); err == nil {
			s.port, s.Endpoint = port, "http://127.0.0.1:"+port
			return
		}
		s.Stop()
	}
	t.Fatalf("start %s: %v", s.kind.name, err)
}

// Stop ends the server at once, as a power cut would. Its clients are refused from then on.
func (s *Server) Stop() {
	if s.keeper == nil {
		return
	}
	_ = s.leash.Close()
	_ = s.keeper.Wait()
	s.keeper = nil
}

// keeper is a shell script that runs a server as long as its standard input is
// open, which is as long as this process lives. It says the server's process id.
// $1 is a directory to remove in the end, or nothing; $2 takes what the server
// says.
const keeperScript = `
remove=$1 log=$2
shift 2
"$@" >"$log" 2>&1 </dev/null &
echo $!
exec >/dev/null
read -r _
kill -9 $! 2>/dev/null
wait
[ -z "$remove" ] || rm -rf "$remove"
`

func (s *Server) run(port string, command []string) error {
	remove, log := "", filepath.Join(s.dir, "log")
	if s.removed {
		remove = s.dir
	}
	keeper := exec.Command("/bin/sh", append([]string{"-c", keeperScript, "sh", remove, log}, command...)...)
	keeper.Env, keeper.Dir = keepPath(), s.dir
	// An interrupt from the keyboard is for the tests alone.
	keeper.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	leash, err := keeper.StdinPipe()
	if err != nil {
		return err
	}
	output, err := keeper.StdoutPipe()
	if err != nil {
		return err
	}
	if err := keeper.Start(); err != nil {
		return err
	}
	s.keeper, s.leash = keeper, leash
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		return err
	}
	if s.pid, err = strconv.Atoi(strings.TrimSpace(line)); err != nil {
		return err
	}
	for deadline := time.Now().Add(startPatience); time.Now().Before(deadline); time.Sleep(pollInterval) {
		if listens(s.pid, port) {
			return nil
		}
		if !runs(s.pid) {
			said, _ := os.ReadFile(log)
			return fmt.Errorf("it ended by itself and said:\n%s", said)
		}
	}
	said, _ := os.ReadFile(log)
	return fmt.Errorf("it does not listen after %v and said:\n%s", startPatience, said)
}

func freePort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// runs reports whether a process is there and no zombie.
func runs(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, state, ok := strings.Cut(string(stat), ") ")
	return err == nil && ok && !strings.HasPrefix(state, "Z")
}

// listens reports whether that very process listens on a port of 127.0.0.1: one
// that another program took in between would be answered for, too.
func listens(pid int, port string) bool {
	n, err := strconv.Atoi(port)
	if err != nil {
		return false
	}
	table, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/tcp", pid))
	if err != nil {
		return false
	}
	const listening = "0A"
	for line := range strings.Lines(string(table)) {
		f := strings.Fields(line)
		if len(f) > 9 && f[1] == fmt.Sprintf("0100007F:%04X", n) && f[3] == listening && holds(pid, "socket:["+f[9]+"]") {
			return true
		}
	}
	return false
}

// holds reports whether a process has a file open that /proc names so.
func holds(pid int, name string) bool {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return false
	}
	for _, e := range entries {
		if target, err := os.Readlink(filepath.Join(dir, e.Name())); err == nil && target == name {
			return true
		}
	}
	return false
}
