package pack

import (
	"fmt"
	"strings"

	"mneme/errkind"
	"mneme/memory"
)

// The bounds of the size of a pack, in bytes.
const (
	MinBytes = 512 // so that header and end fit for any store
	MaxBytes = 16 << 20
)

// ErrOptions says that there is no pack such as the options ask for.
var ErrOptions = errkind.New(errkind.Invalid, "bad pack")

// Options say what a pack holds; nil and the zero value are the default.
type Options struct {
	Prefix string   // a directory or a memory; "" is the whole store
	Seq    uint64   // of the commit after which the store is shown; 0 is the newest
	Since  *uint64  // shows what changed after that commit, instead of index and pinned memories
	Pins   []string // paths of the pinned memories; nil: DefaultPins, as far as they are there
}

// DefaultPins are the names that are pinned in the directory of a pack.
var DefaultPins = []string{"MEMORY.md", "README.md", "index.md"}

// check returns the canonical form of the prefix, if there can be such a pack.
func (o *Options) check() (prefix string, err error) {
	if o.Since != nil && len(o.Pins) > 0 {
		return "", fmt.Errorf("%w: it shows changes, among which nothing is pinned", ErrOptions)
	}
	return memory.ParsePrefix(o.Prefix)
}

// liesIn reports whether a path is a prefix or lies below it.
func liesIn(path, prefix string) bool {
	return path != "" && (path == prefix || strings.HasPrefix(path, strings.TrimSuffix(prefix, "/")+"/"))
}
