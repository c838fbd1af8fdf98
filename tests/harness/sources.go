package harness

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// NoteSources makes go test see that what is tested was built from all sources,
// so that it does not repeat an old result after a change: while tests run, it
// notes which files they look at.
var NoteSources = sync.OnceValue(func() error {
	return filepath.WalkDir("../..", func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch name := entry.Name(); {
		case entry.IsDir() && name != ".." && strings.HasPrefix(name, "."):
			return filepath.SkipDir
		case strings.HasSuffix(name, ".go") || strings.HasPrefix(name, "go."):
			_, _ = os.Stat(path) // gone again is fine
		}
		return nil
	})
})
