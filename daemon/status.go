package daemon

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Statuses returns the status of each store of a mount. m may be a part of a mount that is
// bound to another place. mounts are all mounts.
func (m Mount) Statuses(mounts []Mount) []Status {
	text := ""
	for _, whole := range mounts {
		if whole.minor == m.minor && whole.Root == "/" {
			text = readStatus(whole.Dir)
			break
		}
	}
	// In a flat mount, the directory .mneme of a part is a file of the store.
	if text == "" && !m.flat && m.Root != "/" && strings.Count(m.Root, "/") == 1 {
		text = readStatusFile(m.Dir)
	}
	return parseStatuses(text)
}

// statusPatience is how long a mount may take to answer.
const statusPatience = 2 * time.Second

// Ask asks the whole mount for the status of its stores. It returns none if the mount does
// not answer in time, or not to this user.
func (m Mount) Ask() []Status { return parseStatuses(readStatus(m.Dir)) }

// Live is a mount whose daemon runs. Stores is empty if it did not answer in time.
type Live struct {
	Mount
	Stores []Status
}

// LiveMounts asks every living mount of mneme that this process sees, concurrently.
func LiveMounts() ([]Live, error) {
	mounts, err := Mounts()
	if err != nil {
		return nil, err
	}
	live := make([]Live, 0, len(mounts))
	for _, m := range mounts {
		if m.Alive() {
			live = append(live, Live{Mount: m})
		}
	}
	var asked sync.WaitGroup
	for i := range live {
		asked.Go(func() { live[i].Stores = live[i].Ask() })
	}
	asked.Wait()
	return live, nil
}

// Shows reports whether the mount says that it shows a store. Unless readers is set, a
// mount that only reads the store does not count.
func (m Live) Shows(id string, readers bool) bool {
	return slices.ContainsFunc(m.Stores, func(st Status) bool {
		return st.Get(StatusID) == id && (readers || st.Get(StatusAccess) == "read-write")
	})
}

// Status is .mneme/status of a store in a mount: its lines in their order.
type Status []statusLine

type statusLine struct{ Key, Value string }

// The keys of a status that commands read.
const (
	StatusStore   = "store"
	StatusID      = "id"
	StatusAccess  = "access"
	StatusSession = "session"
	StatusState   = "state"
	StatusURL     = "url"
	StatusKey     = "key"   // id of the key for the stores of a server
	StatusAsOf    = "as-of" // the commit after which the mount shows the store; missing: the newest
	StatusFlat    = "flat"  // "yes" if the store is the whole mount, else missing
)

// statusTexts are the keys whose values are texts, even if they look like numbers.
var statusTexts = []string{StatusStore, StatusID, StatusAccess, StatusSession, StatusState, StatusURL, StatusKey, StatusFlat, "content", "mounted"}

// Get returns the value of a line, or "".
func (s Status) Get(key string) string {
	for _, line := range s {
		if line.Key == key {
			return line.Value
		}
	}
	return ""
}

// MarshalJSON writes an object: keys with underscores, and numbers as numbers.
func (s Status) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, line := range s {
		if i > 0 {
			b.WriteByte(',')
		}
		var value any = line.Value
		if n, err := strconv.ParseInt(line.Value, 10, 64); err == nil && !slices.Contains(statusTexts, line.Key) {
			value = n
		}
		key, err := json.Marshal(strings.ReplaceAll(line.Key, "-", "_"))
		if err != nil {
			return nil, err
		}
		text, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		b.Write(key)
		b.WriteByte(':')
		b.Write(text)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// parseStatuses reads the text of readStatus: an empty line ends a store.
func parseStatuses(text string) []Status {
	all := []Status{}
	for block := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		var s Status
		for line := range strings.Lines(block) {
			if key, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), ": "); ok {
				s = append(s, statusLine{key, value})
			}
		}
		if s.Get(StatusID) != "" {
			all = append(all, s)
		}
	}
	return all
}

// readStatus returns the text of .mneme/status of all stores of a mount. It returns "" if
// the mount does not answer. A child process reads it: if the daemon hangs, not even
// SIGKILL ends the child, which is then left.
func readStatus(dir string) string {
	const script = `cd -- "$1" || exit
		[ ! -e .mneme ] || exec cat .mneme/status # of a flat mount: no store has that name
		for s in *; do cat -- "$s/.mneme/status" || exit; echo; done`
	return readPatiently(script, dir)
}

// IsClosed reports whether this user may not enter the directory of a mount.
func IsClosed(dir string) bool {
	return readPatiently(`LC_ALL=C stat -- "$1/." 2>&1 >/dev/null | grep "Permission denied$"`, dir) != ""
}

// readStatusFile is readStatus for the directory of one store.
func readStatusFile(dir string) string { return readPatiently(`cat -- "$1/.mneme/status"`, dir) }

func readPatiently(script, dir string) string {
	var out bytes.Buffer
	cat := exec.Command("sh", "-c", script, "sh", dir)
	cat.Stdout = &out
	if cat.Start() != nil {
		return ""
	}
	done := make(chan error, 1)
	go func() { done <- cat.Wait() }()
	select {
	case err := <-done:
		if err != nil {
			return ""
		}
		return out.String()
	case <-time.After(statusPatience):
		_ = cat.Process.Kill()
		return ""
	}
}
