package harness

import (
	"bytes"
	"os"
	"strings"
	"sync"
	"sync/atomic"
)

// mountInfo is a line of /proc/self/mountinfo. Reading that does not touch the
// mounts.
type mountInfo struct{ dir, minor, source string }

func mountInfos() []mountInfo {
	data, _ := os.ReadFile("/proc/self/mountinfo")
	var infos []mountInfo
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		if len(f) < 5 {
			continue
		}
		_, minor, _ := strings.Cut(f[2], ":")
		_, after, _ := strings.Cut(line, " - ")
		_, source, _ := strings.Cut(after, " ")
		source, _, _ = strings.Cut(source, " ")
		infos = append(infos, mountInfo{dir: f[4], minor: minor, source: source})
	}
	return infos
}

// MountsBelow returns the mounts at and below a directory.
func MountsBelow(dir string) []string {
	var found []string
	for _, info := range mountInfos() {
		if info.dir == dir || strings.HasPrefix(info.dir, dir+"/") {
			found = append(found, info.dir)
		}
	}
	return found
}

// counter gives 1, 2, 3 and so on.
type counter struct{ n atomic.Int64 }

// Next returns the next number.
func (c *counter) Next() int64 { return c.n.Add(1) }

// SafeBuffer is a bytes.Buffer that can be read while it is written.
type SafeBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *SafeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *SafeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// lineWaiter tells when the first line has been written to it.
type lineWaiter struct {
	SafeBuffer
	first chan struct{}
	once  sync.Once
}

func newLineWaiter() *lineWaiter { return &lineWaiter{first: make(chan struct{})} }

func (w *lineWaiter) Write(p []byte) (int, error) {
	n, err := w.SafeBuffer.Write(p)
	if strings.Contains(w.String(), "\n") {
		w.once.Do(func() { close(w.first) })
	}
	return n, err
}
