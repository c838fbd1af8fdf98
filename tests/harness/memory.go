package harness

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

// Forgets waits until a text is nowhere in the memory of the mount's process.
func (m *Mount) Forgets(t testing.TB, text string) {
	t.Helper()
	if cgo == 1 { // its shadow has terabytes
		return
	}
	// What a signal leaves of registers is found by chance only; that there are none is looked at, too.
	if environment, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", m.PID)); err != nil || !strings.Contains(string(environment), "asyncpreemptoff=1") {
		t.Errorf("goroutines of the mount are stopped by signals: %v", err)
	}
	var left []string
	for deadline := time.Now().Add(ScriptPatience); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		var err error
		if left, err = m.inMemory(text); err != nil {
			t.Fatal(err)
		}
		if len(left) == 0 {
			return
		}
	}
	t.Errorf("the memory of the mount has the text %d times, such as in %q", len(left), left[:min(3, len(left))])
}

// inMemory returns what is around a text in each place of the memory of the mount's process.
func (m *Mount) inMemory(text string) (found []string, err error) {
	maps, err := os.Open(fmt.Sprintf("/proc/%d/maps", m.PID))
	if err != nil {
		return nil, err
	}
	defer maps.Close()
	memory, err := os.Open(fmt.Sprintf("/proc/%d/mem", m.PID))
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
		const step, around = 4 << 20, 40
		for at := from; at < to; at += step {
			data := make([]byte, min(step+int64(len(text)), to-at))
			n, err := memory.ReadAt(data, at)
			if err != nil && !errors.Is(err, io.EOF) && n == 0 { // unmapped by now
				continue
			}
			for i := 0; i < n; i += len(text) {
				next := bytes.Index(data[i:n], []byte(text))
				if next < 0 {
					break
				}
				i += next
				found = append(found, string(data[max(0, i-around):min(n, i+len(text)+around)]))
			}
		}
	}
	return found, lines.Err()
}
