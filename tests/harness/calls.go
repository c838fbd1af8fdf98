package harness

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// An agent is a child process that does one thing at a time in a mount, as it
// is told, so that a test can make several mounts race.

// Call is what an agent is to do. Paths are below the store's directory.
type Call struct {
	Op   string `json:"op"`
	Path string `json:"path"`
	To   string `json:"to,omitempty"`
	Text string `json:"text,omitempty"`
	N    int64  `json:"n,omitempty"` // an offset or size, see openFiles
}

func (c Call) String() string {
	if c.To != "" {
		return c.Op + " " + c.Path + " " + c.To
	}
	return c.Op + " " + c.Path
}

func perform(dir string, c Call) (string, error) {
	path, to := filepath.Join(dir, c.Path), filepath.Join(dir, c.To)
	switch c.Op {
	case "put":
		return "", writeAndClose(path, c.Text, os.O_CREATE|os.O_TRUNC)
	case "excl":
		return "", writeAndClose(path, c.Text, os.O_CREATE|os.O_EXCL)
	case "append":
		return "", writeAndClose(path, c.Text, os.O_CREATE|os.O_APPEND)
	case "replace":
		temp := fmt.Sprintf("%s.tmp.%d", path, os.Getpid())
		err := writeAndClose(temp, c.Text, os.O_CREATE|os.O_TRUNC)
		if err == nil {
			err = os.Rename(temp, path)
		}
		if err != nil {
			_ = os.Remove(temp)
		}
		return "", err
	case "read":
		data, err := os.ReadFile(path)
		return string(data), err
	case "list":
		entries, err := os.ReadDir(path)
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return strings.Join(names, " "), err
	case "rename":
		return "", syscall.Rename(path, to)
	case "unlink":
		return "", syscall.Unlink(path)
	case "mkdir":
		return "", os.MkdirAll(path, 0o755)
	case "rmdir":
		return "", syscall.Rmdir(path)
	case "rmtree":
		return "", os.RemoveAll(path)
	}
	return "", fmt.Errorf("no such call")
}
