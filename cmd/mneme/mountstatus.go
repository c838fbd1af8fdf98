package main

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"
)

// statusPatience is how long a mount may take to answer.
const statusPatience = 2 * time.Second

// mountJSON is a mount as `mneme status --json` writes it.
type mountJSON struct {
	Dir    string        `json:"dir"`
	PID    int           `json:"pid"`
	UID    int           `json:"uid"` // of the user who mounted it; -1 when the mount does not say
	Alive  bool          `json:"alive"`
	Stores []storeStatus `json:"stores"` // none when it does not answer, or not this user

	closed bool // to this user
}

// storeStatus is .mneme/status of a store in a mount: its lines in their order.
type storeStatus []statusLine

type statusLine struct{ key, value string }

// The keys of a status that commands look at.
const (
	statusStore   = "store"
	statusID      = "id"
	statusAccess  = "access"
	statusSession = "session"
	statusState   = "state"
	statusURL     = "url"
	statusKey     = "key"   // id of the key with which the stores of a server are used
	statusAsOf    = "as-of" // the commit after which the mount shows the store; missing where it follows the newest
	statusFlat    = "flat"  // "yes" where the store is the whole mount, else missing
)

// statusTexts are the keys whose values are texts, also where they look like numbers.
var statusTexts = []string{statusStore, statusID, statusAccess, statusSession, statusState, statusURL, statusKey, statusFlat, "content", "mounted"}

// get returns the value of a line, or "".
func (s storeStatus) get(key string) string {
	for _, line := range s {
		if line.key == key {
			return line.value
		}
	}
	return ""
}

// MarshalJSON writes an object: keys with underscores, and numbers as numbers.
func (s storeStatus) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, line := range s {
		if i > 0 {
			b.WriteByte(',')
		}
		var value any = line.value
		if n, err := strconv.ParseInt(line.value, 10, 64); err == nil && !slices.Contains(statusTexts, line.key) {
			value = n
		}
		key, err := json.Marshal(strings.ReplaceAll(line.key, "-", "_"))
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

// newMountJSON asks a mount how it is.
func newMountJSON(m mountPoint) mountJSON {
	j := mountJSON{Dir: m.dir, PID: m.pid, UID: m.uid, Alive: m.alive(), Stores: []storeStatus{}}
	if j.Alive {
		j.Stores = parseStatuses(readMountStatus(m.dir))
		j.closed = len(j.Stores) == 0 && isClosed(m.dir)
	}
	return j
}

// parseStatuses reads what readMountStatus returns: an empty line ends a store.
func parseStatuses(text string) []storeStatus {
	all := []storeStatus{}
	for block := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		var s storeStatus
		for line := range strings.Lines(block) {
			if key, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), ": "); ok {
				s = append(s, statusLine{key, value})
			}
		}
		if s.get(statusID) != "" {
			all = append(all, s)
		}
	}
	return all
}

// readMountStatus returns what .mneme/status says in the stores of a mount, or
// "" when it does not answer. Another process reads it: if the daemon hangs,
// not even SIGKILL frees that one, and it is left behind.
func readMountStatus(dir string) string {
	const script = `cd -- "$1" || exit
		[ ! -e .mneme ] || exec cat .mneme/status # of a flat mount: no store has that name
		for s in *; do cat -- "$s/.mneme/status" || exit; echo; done`
	return readPatiently(script, dir)
}

// isClosed reports whether this user may not enter the directory of a mount.
func isClosed(dir string) bool {
	return readPatiently(`LC_ALL=C stat -- "$1/." 2>&1 >/dev/null | grep "Permission denied$"`, dir) != ""
}

// readStatusFile is readMountStatus for the directory of one store.
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
