package harness

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// Forgets waits until a text is nowhere in the memory of the mount's processes: that which serves it
// and, with --keep, the keeper.
func (m *Mount) Forgets(t testing.TB, text string) {
	t.Helper()
	processes := []int{m.PID}
	if slices.Contains(m.cmd.Args, "--keep") && !Raced(t) {
		processes = append(Children(t, m.PID), m.PID)
	}
	Forget(t, text, processes...)
}

// Forget waits until a text is nowhere in the memory of processes that serve.
func Forget(t testing.TB, text string, processes ...int) {
	t.Helper()
	if Raced(t) { // its shadow has terabytes
		return
	}
	// Registers that a signal has left in memory are found by chance only, so the test also
	// checks that there are no such signals.
	if environment, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", processes[0])); err != nil || !strings.Contains(string(environment), "asyncpreemptoff=1") {
		t.Errorf("goroutines of process %d are stopped by signals: %v", processes[0], err)
	}
	var left []string
	for deadline := time.Now().Add(ScriptPatience); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		left = nil
		for _, pid := range processes {
			found, err := inMemory(pid, text)
			if err != nil {
				t.Fatal(err)
			}
			left = append(left, found...)
		}
		if len(left) == 0 {
			return
		}
	}
	t.Errorf("the memory of process %d has the text %d times, such as in %q", processes[0], len(left), left[:min(3, len(left))])
}

// Children are the processes that a process has started.
func Children(t testing.TB, pid int) (pids []int) {
	t.Helper()
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // by thread
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range lists {
		text, _ := os.ReadFile(list) // of a thread that may have ended
		for _, field := range strings.Fields(string(text)) {
			var child int
			if _, err := fmt.Sscan(field, &child); err != nil {
				t.Fatal(err)
			}
			pids = append(pids, child)
		}
	}
	if pids == nil {
		t.Fatalf("process %d has no children", pid)
	}
	return pids
}

// around is how much of the surroundings of a text is shown.
const around = 40

// inMemory returns what is around a text in each place of the memory of a process, and of the files
// that it has in memory alone.
func inMemory(pid int, text string) (found []string, err error) {
	look := func(data []byte) {
		for i := 0; i < len(data); i += len(text) {
			next := bytes.Index(data[i:], []byte(text))
			if next < 0 {
				break
			}
			i += next
			found = append(found, string(data[max(0, i-around):min(len(data), i+len(text)+around)]))
		}
	}
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, file := range files {
		if to, _ := os.Readlink(file); strings.HasPrefix(to, "/memfd:") {
			data, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			look(data)
		}
	}
	maps, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return nil, err
	}
	defer maps.Close()
	memory, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		return nil, err
	}
	defer memory.Close()
	lines := bufio.NewScanner(maps)
	for lines.Scan() {
		var from, to int64
		var access string
		if _, err := fmt.Sscanf(lines.Text(), "%x-%x %s", &from, &to, &access); err != nil || !strings.HasPrefix(access, "r") {
			continue // of vsyscall, which is no memory
		}
		const step = 4 << 20
		for at := from; at < to; at += step {
			data := make([]byte, min(step+int64(len(text)), to-at))
			n, err := memory.ReadAt(data, at)
			if err != nil && !errors.Is(err, io.EOF) && n == 0 { // unmapped meanwhile
				continue
			}
			look(data[:n])
		}
	}
	return found, lines.Err()
}
