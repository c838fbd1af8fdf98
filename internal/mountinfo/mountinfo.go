// Package mountinfo reads what the kernel tells of the mounts that this process
// sees. It never touches the mounts: the file system of one may hang.
package mountinfo

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
)

// Mount is a line of /proc/self/mountinfo, see proc_pid_mountinfo(5).
type Mount struct {
	ID      int    // another mount may get it once no process has anything in this one open
	Device  string // "major:minor" of the file system
	Root    string // what of the file system is seen: "/", or a part that is bound to another place
	Dir     string
	Type    string
	Source  string
	Options string // of the file system, with commas between them
}

// Option returns the value of an option of the file system.
func (m *Mount) Option(name string) (value string, found bool) {
	for option := range strings.SplitSeq(m.Options, ",") {
		if value, found = strings.CutPrefix(option, name+"="); found {
			return value, true
		}
	}
	return "", false
}

// List returns all mounts. Of two at one directory the later one lies on top.
func List() ([]Mount, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return Parse(f)
}

// Parse reads the format of /proc/self/mountinfo. Lines that do not have it are
// passed over.
func Parse(r io.Reader) ([]Mount, error) {
	var mounts []Mount
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		before, after, _ := strings.Cut(lines.Text(), " - ")
		place, source := strings.Fields(before), strings.Fields(after)
		if len(place) < 5 || len(source) < 2 {
			continue
		}
		id, err := strconv.Atoi(place[0])
		if err != nil {
			continue
		}
		mounts = append(mounts, Mount{
			ID: id, Device: place[2], Root: unescape(place[3]), Dir: unescape(place[4]),
			Type: unescape(source[0]), Source: unescape(source[1]), Options: source[len(source)-1],
		})
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read mountinfo: %w", err)
	}
	return mounts, nil
}

// unescape undoes what the kernel does to spaces, tabs, newlines and backslashes.
func unescape(text string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(text)
}

// ErrUnknown says that the kernel does not tell: /proc is not mounted, or not Linux's.
var ErrUnknown = errors.New("the kernel does not tell of mounts")

// IDOf returns the id of the mount in which a file is open, perhaps with O_PATH.
// No other mount gets it until the file is closed. ErrUnknown.
func IDOf(f *os.File) (int, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", f.Fd()))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, ErrUnknown
	}
	if err != nil {
		return 0, err
	}
	_, after, _ := bytes.Cut(text, []byte("\nmnt_id:\t"))
	number, _, _ := bytes.Cut(after, []byte("\n"))
	id, err := strconv.Atoi(string(number))
	if err != nil {
		return 0, ErrUnknown
	}
	return id, nil
}

// Of returns the mount in which a file is open. It is not found where it has been
// unmounted.
func Of(f *os.File) (m Mount, found bool, err error) {
	id, err := IDOf(f)
	if err != nil {
		return Mount{}, false, err
	}
	mounts, err := List()
	for _, m := range mounts {
		if m.ID == id {
			return m, true, err
		}
	}
	return Mount{}, false, err
}
