package adopt

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"mneme/backend"
	"mneme/internal/durable"
	"mneme/internal/quote"
	"mneme/internal/safepath"
	"mneme/memory"
	"mneme/versionlog"
)

// changes are the changes in a store after the import, as changes of the agent's files.
type changes struct {
	store  *memory.Store
	files  *Files
	put    []versionlog.Version
	remove []string        // paths
	dirs   map[string]bool // of the store; each ends in a slash
	rels   map[string]string
}

// keepChanges merges the store's changes after the import into the directory at dir ("":
// none). If apply is not set, it only makes sure that this is possible: a file that was
// also changed in the directory is ErrUndoHasWay. It skips changes that the directory
// already has, so that it can be repeated.
func (r *Record) keepChanges(ctx context.Context, open Opener, dir string, apply bool) (err error) {
	if !r.Finished {
		return nil
	}
	lib, err := open(ctx, r.URL, backend.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lib.Close()) }()
	st, err := lib.Open(ctx, r.StoreID, nil)
	if err != nil {
		return fmt.Errorf("what was changed since: %w", err)
	}
	s, err := r.changesIn(ctx, st, dir)
	if err != nil || !apply {
		return err
	}
	if err := safepath.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return s.apply(ctx, root)
}

// changesIn compares the store's states after the import and now with the directory.
func (r *Record) changesIn(ctx context.Context, st *memory.Store, dir string) (*changes, error) {
	s := &changes{store: st, files: &Files{}, dirs: map[string]bool{}, rels: map[string]string{}}
	if _, err := os.Lstat(dir); dir != "" && !errors.Is(err, fs.ErrNotExist) {
		if s.files, err = look(dir, math.MaxInt64-1, r.Git != ""); err != nil {
			return nil, err
		}
	}
	if refused := s.files.refused; len(refused) > 0 {
		return nil, fmt.Errorf("%w: %s", ErrUndoHasWay, strings.Join(refused[:min(5, len(refused))], "; "))
	}
	before := map[string]versionlog.Digest{}
	state, err := st.At(ctx, r.Imported.LastSeq)
	if err != nil {
		return nil, err
	}
	for v, err := range state.Heads(ctx, "/", "") {
		if err != nil {
			return nil, err
		}
		before[v.Path] = v.Digest
	}
	there := map[string]versionlog.Digest{}
	for _, file := range s.files.Files {
		there[file.path], s.rels[file.path] = file.digest, file.rel
	}
	gone := maps.Clone(before)
	for v, err := range st.Tree(ctx, "/") {
		switch {
		case err != nil:
			return nil, err
		case v.IsDir():
			s.dirs[v.Path] = true
			continue
		case r.Git != "" && v.Path == "/"+GitName:
			continue
		}
		delete(gone, v.Path)
		has, is := there[v.Path]
		switch {
		case before[v.Path] == v.Digest, is && has == v.Digest:
		case is && has != before[v.Path]:
			return nil, fmt.Errorf("%w: %s was changed in %s, too", ErrUndoHasWay, quote.Name(v.Path), dir)
		default:
			s.put = append(s.put, v)
		}
	}
	for path := range gone {
		has, is := there[path]
		switch {
		case !is || r.Git != "" && path == "/"+GitName:
		case has != before[path]:
			return nil, fmt.Errorf("%w: %s was removed in the store and changed in %s", ErrUndoHasWay, quote.Name(path), dir)
		default:
			s.remove = append(s.remove, s.rels[path])
		}
	}
	return s, nil
}

func (s *changes) apply(ctx context.Context, root *os.Root) error {
	for _, rel := range s.remove {
		if err := root.Remove(rel); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	for _, dir := range slices.Backward(s.files.Dirs) { // a directory comes before those below it
		if !s.dirs[dir.path] {
			if err := root.Remove(dir.rel); err != nil && !errors.Is(err, syscall.ENOTEMPTY) && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	for dir := range s.dirs {
		if err := root.MkdirAll(strings.Trim(dir, "/"), 0o700); err != nil {
			return err
		}
	}
	for _, v := range s.put {
		if err := s.putFile(ctx, root, v); err != nil {
			return err
		}
	}
	return durable.SyncDirIn(root, ".")
}

func (s *changes) putFile(ctx context.Context, root *os.Root, v versionlog.Version) error {
	rel, perm := s.rels[v.Path], fs.FileMode(0o600)
	if rel == "" {
		rel = strings.TrimPrefix(v.Path, "/")
	}
	if info, err := root.Lstat(rel); err == nil {
		perm = info.Mode().Perm()
	}
	data, err := s.store.Content(ctx, v)
	if err != nil {
		return err
	}
	if err := root.MkdirAll(filepath.Dir(rel), 0o700); err != nil {
		return err
	}
	if err := durable.WriteFile(root, rel, data, perm); err != nil {
		return err
	}
	return root.Chtimes(rel, v.Time, v.Time)
}
