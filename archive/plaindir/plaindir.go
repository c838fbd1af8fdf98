// Package plaindir writes what a store holds as a plain directory.
package plaindir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"mneme/cas"
	"mneme/internal/quote"
	"mneme/memory"
	"mneme/versionlog"
)

// Options adjust Write; nil is the default.
type Options struct {
	// KeepGoing leaves out memories whose contents the store has lost. Default: the first
	// one ends Write.
	KeepGoing bool
	// Lost is called with each version that is left out. Default: no call.
	Lost func(versionlog.Version)
	// Convert returns the name in the directory and the bytes of a memory there. Default: its
	// path as quote.GitPath has it, and its content.
	Convert func(v versionlog.Version, content []byte) (name string, data []byte)
	// Rest returns files by their names, which are written once every memory is. Default:
	// none.
	Rest func() (map[string][]byte, error)
	// Progress is called now and then with the number of files written. Default: no calls.
	Progress func(step string, done, total int)
}

// Write writes the memories of a store after its newest commit as of the call, or after
// that of memory.Library.OpenAt, into an empty directory, and returns their number. A file
// has the time of its version, and mode 0644 less the umask; a directory that was made
// exists, also when it is empty. Nothing is written outside the directory, and no file is
// written twice: where names differ by case only and the file system takes them for one,
// the second one is an error of kind errkind.Exists. Write does not sync.
//
// Errors: cas.ErrNotFound and cas.ErrCorrupt of a content that is lost, those of
// memory.ParsePath, and those of the media.
func Write(ctx context.Context, st *memory.Store, root *os.Root, opts *Options) (int, error) {
	if opts == nil {
		opts = &Options{}
	}
	n, err := write(ctx, st, root, opts)
	if err != nil {
		return n, fmt.Errorf("write store %s to a directory: %w", st.Info().Slug, err)
	}
	return n, nil
}

func write(ctx context.Context, st *memory.Store, root *os.Root, opts *Options) (n int, err error) {
	tip, err := st.Tip(ctx)
	if err != nil {
		return 0, err
	}
	state, err := st.At(ctx, tip.Seq)
	if err != nil {
		return 0, err
	}
	var heads []versionlog.Version
	for v, err := range state.Heads(ctx, "/", "") {
		if err != nil {
			return 0, err
		}
		heads = append(heads, v)
	}
	if n, err = writeHeads(ctx, st, root, heads, opts); err != nil {
		return n, err
	}
	if opts.Rest != nil {
		files, err := opts.Rest()
		if err != nil {
			return n, err
		}
		for _, name := range slices.Sorted(maps.Keys(files)) {
			if err := writeFile(root, name, files[name], tip.Time); err != nil {
				return n, err
			}
		}
	}
	for _, v := range slices.Backward(heads) { // a file that is written later would change the time
		if !v.IsDir() {
			continue
		}
		if err := root.Chtimes(nameOf(v.Path), time.Time{}, v.Time); err != nil {
			return n, err
		}
	}
	return n, nil
}

// writeHeads writes the memories and makes the directories of a store. It returns how many memories it has
// written. Whether a lost content is an error depends on the options.
func writeHeads(ctx context.Context, st *memory.Store, root *os.Root, heads []versionlog.Version, opts *Options) (n int, err error) {
	for i, v := range heads {
		switch err := writeOne(ctx, st, root, v, opts.Convert); {
		case err == nil && !v.IsDir():
			n++
		case err != nil && opts.KeepGoing && (errors.Is(err, cas.ErrNotFound) || errors.Is(err, cas.ErrCorrupt)):
			if opts.Lost != nil {
				opts.Lost(v)
			}
		case err != nil:
			return n, err
		}
		if opts.Progress != nil {
			opts.Progress("files", i+1, len(heads))
		}
	}
	return n, nil
}

// nameOf is the name of a path in the directory.
func nameOf(p string) string { return quote.GitPath(strings.Trim(p, "/")) }

// writeOne writes a memory, or makes a directory. The path is checked again: a log takes any,
// and so does what writes to it past package memory.
func writeOne(ctx context.Context, st *memory.Store, root *os.Root, v versionlog.Version, convert func(versionlog.Version, []byte) (string, []byte)) error {
	if _, err := memory.ParsePath(strings.TrimSuffix(v.Path, "/")); err != nil {
		return err
	}
	name := nameOf(v.Path)
	if v.IsDir() {
		return root.MkdirAll(name, 0o755)
	}
	data, err := st.Content(ctx, v)
	if err != nil {
		return err
	}
	if convert != nil {
		name, data = convert(v, data)
	}
	return writeFile(root, name, data, v.Time)
}

func writeFile(root *os.Root, name string, data []byte, at time.Time) error {
	if dir := path.Dir(name); dir != "." {
		if err := root.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w; the file system takes two names of the store for one", err)
	}
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return root.Chtimes(name, time.Time{}, at)
}
