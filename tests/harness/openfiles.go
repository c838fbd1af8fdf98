package harness

import (
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// openFiles are what an agent has open, by names of its own.
type openFiles map[string]*os.File

// perform does what takes an open file, an offset or a size, and leaves the
// rest to the function of that name. In calls on an open file To is its name.
func (o openFiles) perform(dir string, c Call) (string, error) {
	path := filepath.Join(dir, c.Path)
	switch c.Op {
	case "tree":
		return readTree(path)
	case "mkdir1":
		return "", syscall.Mkdir(path, 0o755)
	case "truncate":
		return "", syscall.Truncate(path, c.N)
	case "patch":
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return "", err
		}
		_, err = f.WriteAt([]byte(c.Text), c.N)
		if closeErr := f.Close(); err == nil {
			err = closeErr
		}
		return "", err
	case "open":
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
		if err == nil {
			o[c.To] = f
		}
		return "", err
	case "close":
		defer delete(o, c.To)
		return "", o[c.To].Close()
	case "write at":
		_, err := o[c.To].WriteAt([]byte(c.Text), c.N)
		return "", err
	case "read all":
		data, err := io.ReadAll(io.NewSectionReader(o[c.To], 0, 1<<30))
		return string(data), err
	case "cut":
		return "", o[c.To].Truncate(c.N)
	case "sync":
		return "", o[c.To].Sync()
	}
	return perform(dir, c)
}

// readTree returns a tree as JSON: path to content; directories end in a slash.
func readTree(root string) (string, error) {
	tree := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		below := strings.TrimPrefix(path, root)
		if err != nil || below == "" {
			return err
		}
		if d.IsDir() {
			tree[below+"/"] = ""
			return nil
		}
		data, err := os.ReadFile(path)
		tree[below] = string(data)
		return err
	})
	text, jsonErr := json.Marshal(tree)
	if err == nil {
		err = jsonErr
	}
	return string(text), err
}
