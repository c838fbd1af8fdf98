package agents

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mneme/tests/harness"
)

// hello is the first line of a client.
const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}` + "\n"

// TestEnds says that `mneme mcp` ends when it is told to, or when its client is gone, whatever
// its input and output are: clients make pipes, pairs of sockets and terminals of them.
func TestEnds(t *testing.T) {
	url := newStore(t)
	for _, between := range []string{"pipes", "sockets", "a terminal"} {
		for _, how := range []string{"SIGTERM", "SIGINT", "end of input", "nobody reads"} {
			if between == "a terminal" && (how == "end of input" || how == "nobody reads") {
				continue
			}
			t.Run(how+", "+between, func(t *testing.T) {
				t.Parallel()
				theirs, ours := ends(t, between)
				cmd := exec.Command(harness.Daemon, "--url", url, "mcp", "--store", "notes")
				cmd.Stdin, cmd.Stdout = theirs[0], theirs[1]
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				closeAll(theirs)
				ended := make(chan error, 1)
				go func() { ended <- cmd.Wait() }()
				if _, err := io.WriteString(ours[0], hello); err != nil {
					t.Fatal(err)
				}
				lines := bufio.NewReader(ours[1])
				for {
					line, err := lines.ReadString('\n')
					if err != nil {
						t.Fatal(err)
					}
					if strings.Contains(line, `"serverInfo"`) { // a terminal also shows what was sent
						break
					}
				}
				switch how {
				case "SIGTERM":
					_ = cmd.Process.Signal(syscall.SIGTERM)
				case "SIGINT":
					_ = cmd.Process.Signal(syscall.SIGINT)
				case "end of input":
					_ = unix.Shutdown(int(ours[0].Fd()), unix.SHUT_WR) // of a socket, which is both
					if between == "pipes" {
						_ = ours[0].Close()
					}
				case "nobody reads":
					closeAll(ours)
				}
				select {
				case err := <-ended:
					if err != nil {
						t.Error(err)
					}
				case <-time.After(time.Minute):
					_ = cmd.Process.Kill()
					t.Error("it has not ended")
				}
			})
		}
	}
}

// ends returns standard input and output for a program, and the other ends of both.
func ends(t *testing.T, between string) (theirs, ours [2]*os.File) {
	t.Helper()
	var err error
	switch between {
	case "pipes":
		if theirs[0], ours[0], err = os.Pipe(); err == nil {
			ours[1], theirs[1], err = os.Pipe()
		}
	case "sockets":
		var pair [2]int
		for i := range pair {
			if pair, err = unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err == nil {
				theirs[i], ours[i] = os.NewFile(uintptr(pair[0]), "theirs"), os.NewFile(uintptr(pair[1]), "ours")
			}
		}
	default:
		var master *os.File
		if master, err = os.OpenFile("/dev/ptmx", os.O_RDWR, 0); err != nil {
			break
		}
		var number int
		if number, err = unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN); err == nil {
			err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
		}
		if err == nil {
			theirs[0], err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
		}
		theirs[1], ours = theirs[0], [2]*os.File{master, master}
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeAll(ours) })
	return theirs, ours
}

func closeAll(files [2]*os.File) {
	for _, f := range files {
		_ = f.Close() // one that is both is closed twice
	}
}
