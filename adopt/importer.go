package adopt

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"mneme/backend"
	"mneme/internal/quote"
	"mneme/memory"
	"mneme/versionlog"
)

// importer makes memories of the files in an agent's directory.
type importer struct {
	store *memory.Store
	root  *os.Root
	agent string
	each  func(done int) // called after each file
	warn  func(memory.SecretsFound)
}

// openForImport opens the store of a record, and creates it if it is missing.
func openForImport(ctx context.Context, lib *backend.Library, r *Record, opts *memory.StoreOptions, actor versionlog.Actor) (*memory.Store, error) {
	info, err := lib.FindStore(ctx, r.Store)
	if errors.Is(err, versionlog.ErrNotFound) && r.StoreID == "" {
		info, err = lib.CreateStore(ctx, r.Store, opts)
		r.MadeStore = err == nil
	}
	if err != nil {
		return nil, err
	}
	r.StoreID = info.ID
	return lib.Open(ctx, info.ID, &memory.Author{Actor: actor})
}

// run imports directories, then files in the order of their changes. It skips entries that
// the store already has. Then it compares the store with the directory.
func (i *importer) run(ctx context.Context, f *Files) (last uint64, err error) {
	dirs := slices.SortedFunc(slices.Values(f.Dirs), func(a, b file) int { return strings.Compare(a.path, b.path) })
	for _, dir := range dirs {
		there, err := i.store.Dir(ctx, strings.TrimSuffix(dir.path, "/"))
		if err != nil {
			return 0, err
		}
		if there.ID != "" { // an earlier import made it
			continue
		}
		if err := i.commit(ctx, &dir, memory.Change{Action: versionlog.MakeDir}); err != nil {
			return 0, err
		}
	}
	heads, err := headsOf(ctx, i.store)
	if err != nil {
		return 0, err
	}
	oldest := slices.SortedStableFunc(slices.Values(f.Files), func(a, b file) int { return a.mtime.Compare(b.mtime) })
	for n, file := range oldest {
		if heads[file.path] != file.digest { // else an earlier import made it
			if err := i.file(ctx, &file); err != nil {
				return 0, err
			}
		}
		i.each(n + 1)
	}
	if heads, err = headsOf(ctx, i.store); err != nil {
		return 0, err
	}
	for _, file := range f.Files {
		if heads[file.path] != file.digest {
			return 0, fmt.Errorf("import %s: the store has something else there", quote.Name(file.rel))
		}
	}
	tip, err := i.store.Tip(ctx)
	return tip.Seq, err
}

func (i *importer) file(ctx context.Context, file *file) error {
	data, err := readFile(i.root, file)
	if err != nil {
		return fmt.Errorf("import %s: %w", quote.Name(file.rel), err)
	}
	return i.commit(ctx, file, memory.Change{Action: versionlog.Put, Content: data})
}

// link makes the memory that names the place of the git directory.
func (i *importer) link(ctx context.Context, git string) error {
	text := []byte("gitdir: " + git + "\n")
	c := memory.Change{Action: versionlog.Put, Path: "/" + GitName, Content: text, Expect: versionlog.ExpectAny()}
	_, err := i.store.Batch(ctx, []memory.Change{c}, &memory.CommitOptions{Message: "import", Meta: map[string]string{"agent": i.agent}})
	return err
}

func (i *importer) commit(ctx context.Context, file *file, c memory.Change) error {
	c.Path, c.Spelling, c.Expect = file.path, file.spelling, versionlog.ExpectAbsent()
	meta := map[string]string{"mtime": file.mtime.UTC().Format(time.RFC3339Nano), "agent": i.agent}
	if from := filepath.Join(i.root.Name(), file.rel); utf8.ValidString(from) && utf8.RuneCountInString(from) <= versionlog.MaxMetaValue {
		meta["imported_from"] = from
	}
	_, err := i.store.Batch(ctx, []memory.Change{c}, &memory.CommitOptions{Message: "import", Meta: meta, Warn: i.warn})
	if err != nil {
		return fmt.Errorf("import %s: %w", quote.Name(file.rel), err)
	}
	return nil
}

// headsOf returns the digest of each memory of a store.
func headsOf(ctx context.Context, st *memory.Store) (map[string]versionlog.Digest, error) {
	heads := map[string]versionlog.Digest{}
	for v, err := range st.Heads(ctx, "/") {
		if err != nil {
			return nil, err
		}
		heads[v.Path] = v.Digest
	}
	return heads, nil
}
