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

// OptionError is an error about one option. Its text does not name the option, for which
// every face has another name.
type OptionError struct {
	Option string // MaxBytes, or the name of a field of Options
	Err    error
}

func (e *OptionError) Error() string { return e.Err.Error() }
func (e *OptionError) Unwrap() error { return e.Err }

// check returns the canonical form of the prefix, if there can be such a pack.
func (o *Options) check(maxBytes int) (prefix string, err error) {
	if maxBytes < MinBytes || maxBytes > MaxBytes {
		return "", &OptionError{"MaxBytes", fmt.Errorf("%w: a text of %d bytes at most; want %d to %d bytes", ErrOptions, maxBytes, MinBytes, MaxBytes)}
	}
	if o.Since != nil && len(o.Pins) > 0 {
		return "", &OptionError{"Pins", fmt.Errorf("%w: it shows changes, among which nothing is pinned", ErrOptions)}
	}
	if prefix, err = memory.ParsePrefix(o.Prefix); err != nil {
		return "", &OptionError{"Prefix", err}
	}
	return prefix, nil
}

// liesIn reports whether a path is a prefix or lies below it.
func liesIn(path, prefix string) bool {
	return path != "" && (path == prefix || strings.HasPrefix(path, strings.TrimSuffix(prefix, "/")+"/"))
}
