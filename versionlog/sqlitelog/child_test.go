package sqlitelog

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"mneme/versionlog"
	"mneme/versionlog/logtest"
)

// child is what a child process of a test does. Its directory and store come
// from the environment.
func child(role string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	dir, opts := os.Getenv("MNEME_TEST_DIR"), &Options{Refresh: never}
	if role == "crash-pack" {
		packPace, opts.Files = restless, filesBelow(dir)
	}
	l, err := Open(ctx, dir, opts)
	if err != nil {
		return err
	}
	defer l.Close()
	storeID := os.Getenv("MNEME_TEST_STORE")
	switch role {
	case "open":
		_, err := versionlog.AllStores(ctx, l)
		return err
	case "work":
		h := &logtest.History{}
		logtest.Workload{Clients: 2, Calls: 50, Seed: uint64(os.Getpid())}.Run(ctx, h, storeID, l)
		return json.NewEncoder(os.Stdout).Encode(h.Calls)
	case "hold":
		return l.writer.transaction(ctx, func(context.Context) error {
			fmt.Println("held")
			_, err := io.Copy(io.Discard, os.Stdin)
			return err
		})
	case "commits":
		return commitAtEveryLine(ctx, l, storeID)
	case "early":
		return writeEarlyAndStay(ctx, l, storeID)
	case "crash-content":
		return commitContents(ctx, l, storeID)
	case "crash-pack":
		return commitAndPack(ctx, l, storeID)
	case "crash":
		for i := 0; ; i++ {
			if _, err := l.Commit(ctx, storeID, putProposal("/a", fmt.Sprint(i))); err != nil {
				return err
			}
			fmt.Println(i + 1)
		}
	}
	return fmt.Errorf("no role %q", role)
}

func commitAtEveryLine(ctx context.Context, l *Log, storeID string) error {
	lines := bufio.NewScanner(os.Stdin)
	for i := 0; lines.Scan(); i++ {
		if _, err := l.Commit(ctx, storeID, putProposal("/a", fmt.Sprint(i))); err != nil {
			return err
		}
	}
	return lines.Err()
}

// process is a child process.
type process struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stderr bytes.Buffer
}

func start(t testing.TB, role, dir, storeID string) *process {
	t.Helper()
	p := &process{cmd: exec.CommandContext(t.Context(), os.Args[0])}
	p.cmd.Env = append(os.Environ(), "MNEME_TEST_CHILD="+role, "MNEME_TEST_DIR="+dir, "MNEME_TEST_STORE="+storeID)
	p.cmd.Stderr = &p.stderr
	in, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.in, p.out = in, bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *process) wait(t testing.TB) {
	t.Helper()
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("child: %v: %s", err, p.stderr.String())
	}
}

// TestManyProcesses: the calls of several processes on one directory are
// linearizable together.
func TestManyProcesses(t *testing.T) {
	dir := t.TempDir()
	l := openTest(t, dir, nil)
	s := addStore(t, l, "s")
	children := make([]*process, 4)
	for i := range children {
		children[i] = start(t, "work", dir, s.ID)
	}
	h := &logtest.History{}
	logtest.Workload{Clients: 2, Calls: 50}.Run(t.Context(), h, s.ID, l)
	for _, p := range children {
		var calls []logtest.Call
		if err := json.NewDecoder(p.out).Decode(&calls); err != nil {
			t.Error(err)
		}
		p.wait(t)
		h.Calls = append(h.Calls, calls...)
	}
	if err := h.Check(time.Minute); err != nil {
		t.Error(err)
	}
}

// TestOpenAtOnce: several processes and goroutines may find no log and make one.
func TestOpenAtOnce(t *testing.T) {
	for range 3 {
		dir := t.TempDir() + "/new/log"
		var children []*process
		for range 2 {
			children = append(children, start(t, "open", dir, ""))
		}
		errs := make(chan error)
		for range 4 {
			go func() {
				l, err := Open(t.Context(), dir, nil)
				if err == nil {
					err = l.Close()
				}
				errs <- err
			}()
		}
		for range 4 {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		for _, p := range children {
			p.wait(t)
		}
	}
}

// TestWakesAcrossProcesses: no refresh helps here, the child's commits are
// heard of by themselves, and soon.
func TestWakesAcrossProcesses(t *testing.T) {
	const commits = 50
	dir := t.TempDir()
	l := openTest(t, dir, &Options{Refresh: never})
	s := addStore(t, l, "s")
	p := start(t, "commits", dir, s.ID)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	began := time.Now()
	for after := uint64(0); after < commits; {
		if _, err := fmt.Fprintln(p.in); err != nil {
			t.Fatal(err)
		}
		for seq := after; seq == after; {
			if err := l.Wait(ctx, s.ID, after); err != nil {
				t.Fatal(err)
			}
			tip, err := l.Tip(ctx, s.ID)
			if err != nil {
				t.Fatal(err)
			}
			seq = tip.Seq
		}
		after++
	}
	t.Logf("%v from the request to the wake, commit included", time.Since(began)/commits)
	p.in.Close()
	p.wait(t)
}

// TestKilled: what a killed process was told is committed, is.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	l := openTest(t, dir, nil)
	s := addStore(t, l, "s")
	for range 3 {
		before, err := l.Tip(t.Context(), s.ID)
		if err != nil {
			t.Fatal(err)
		}
		p := start(t, "crash", dir, s.ID)
		acknowledged := uint64(0)
		for range 50 {
			if _, err := fmt.Fscanln(p.out, &acknowledged); err != nil {
				t.Fatal(err, p.stderr.String())
			}
		}
		if err := p.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = p.cmd.Wait() // it was killed
		tip, err := l.Tip(t.Context(), s.ID)
		if err != nil {
			t.Fatal(err)
		}
		if tip.Seq < before.Seq+acknowledged {
			t.Errorf("tip is %d, %d commits after %d were acknowledged", tip.Seq, acknowledged, before.Seq)
		}
		put(t, l, s.ID, "/b", fmt.Sprint(tip.Seq)) // its lock died with it
	}
}
