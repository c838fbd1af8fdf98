package archive

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"mneme/cas"
	"mneme/memory"
	"mneme/versionlog"
)

// Progress is called now and then with how much of a step is done, never twice at once.
type Progress func(step string, done, total int)

// ExportOptions adjust Export; nil is the default.
type ExportOptions struct {
	// Kind is what is written. Default: History.
	Kind Kind
	// KeepGoing leaves out contents that the store has lost, and says in the manifest
	// which these are. Each content is read twice then. Default: the first one ends Export.
	KeepGoing bool
	// Lost is called with a version of each content that is left out. Default: no call.
	Lost func(versionlog.Version)
	// Progress. Default: no calls.
	Progress Progress
	// Workers is how many contents are read at once. Default: 16.
	Workers int
}

// Export writes an archive of a store, which ends with the store's newest commit as of the
// call, or with that of memory.Library.OpenAt. If something is erased before the first byte is
// written, Export reads the history again, and ends with a commit after the erasure. The same
// history and options give the same bytes. After an error w has a beginning that no reader
// accepts as an archive.
//
// Errors: versionlog.ErrCorrupt when the records are not a chain; cas.ErrNotFound and
// cas.ErrCorrupt of a content that is lost; memory.ErrRedacted of one that was erased while the
// archive was written; those of the media and of w.
func Export(ctx context.Context, st *memory.Store, w io.Writer, opts *ExportOptions) (*Manifest, error) {
	x := exporter{store: st}
	if opts != nil {
		x.opts = *opts
	}
	if x.opts.Kind == "" {
		x.opts.Kind = History
	}
	if x.opts.Progress == nil {
		x.opts.Progress = func(string, int, int) {}
	}
	if x.opts.Workers <= 0 {
		x.opts.Workers = 16
	}
	m, err := x.export(ctx, w)
	if err != nil {
		return nil, fmt.Errorf("export store %s: %w", st.Info().Slug, err)
	}
	return m, nil
}

// exporter is one run of Export.
type exporter struct {
	store *memory.Store
	opts  ExportOptions
	needs wanted
}

func (x *exporter) export(ctx context.Context, w io.Writer) (*Manifest, error) {
	name, list := recordsName, x.records
	if x.opts.Kind == Heads {
		name, list = headsName, x.heads
	}
	var m *Manifest
	var listed *spool
	var lost []versionlog.Version
	for again := true; again; { // what is erased meanwhile would be half there
		erased, err := x.store.WatchErased(ctx)
		if err != nil {
			return nil, err
		}
		if listed, err = newSpool(); err != nil {
			return nil, err
		}
		defer listed.close()
		m, x.needs = &Manifest{Format: Format, Kind: x.opts.Kind}, wanted{}
		if err := list(ctx, m, listed); err != nil {
			return nil, err
		}
		m.Listed.Bytes = listed.size
		if x.opts.KeepGoing {
			if lost, err = x.findLost(ctx); err != nil {
				return nil, err
			}
		}
		if again, err = erased(ctx); err != nil {
			return nil, err
		}
	}
	for _, v := range lost {
		m.Lost = append(m.Lost, v.Digest)
		if x.opts.Lost != nil {
			x.opts.Lost(v)
		}
	}
	h, err := x.root(m, name, listed)
	if err != nil {
		return nil, err
	}
	m.Root = h
	return m, x.write(ctx, w, m, name, listed)
}

// records lists the commits up to the tip.
func (x *exporter) records(ctx context.Context, m *Manifest, to *spool) error {
	tip, err := x.store.Tip(ctx)
	if err != nil {
		return err
	}
	var told versionlog.Told
	for c, err := range x.store.Commits(ctx, 0) {
		if err != nil {
			return err
		}
		if c.Seq > tip.Seq {
			break
		}
		if c.Seq != m.Seq+1 || c.Prev != m.Digest {
			return fmt.Errorf("%w: commit %d does not follow commit %d", versionlog.ErrCorrupt, c.Seq, m.Seq)
		}
		record, err := versionlog.EncodeRecord(c)
		if err != nil {
			return err
		}
		if err := to.line(record); err != nil {
			return err
		}
		for i := range c.Versions {
			if err := x.needs.add(&c.Versions[i]); err != nil {
				return fmt.Errorf("%w: %w", versionlog.ErrCorrupt, err)
			}
		}
		told.Add(c)
		m.Seq, m.Digest, m.Listed.Count = c.Seq, c.Digest, m.Listed.Count+1
		tip.Time = c.Time
		x.opts.Progress("commits", int(c.Seq), int(tip.Seq))
	}
	if m.Seq != tip.Seq || m.Digest != tip.Digest {
		return fmt.Errorf("%w: it ends with commit %d, %.12s, and its records with commit %d, %.12s", versionlog.ErrCorrupt, tip.Seq, tip.Digest, m.Seq, m.Digest)
	}
	m.Store = described(x.store.Info(), &told, tip)
	return nil
}

// described is the store as it was after the last commit in told. Fields that no commit
// records are as they are now.
func described(now versionlog.Store, told *versionlog.Told, tip versionlog.Tip) versionlog.Store {
	s, whole := told.Store()
	if whole {
		s.ID, s.Slug = now.ID, now.Slug
	} else {
		epoch := max(s.Epoch, 1)
		s = now.Clone()
		for _, at := range []*time.Time{&s.UpdatedAt, &s.ArchivedAt} {
			if at.After(tip.Time) {
				*at = time.Time{}
			}
		}
		if told.Commits() > 0 {
			s.Epoch = epoch
		}
	}
	s.Replica = false
	return s
}

// heads lists what is live after the tip.
func (x *exporter) heads(ctx context.Context, m *Manifest, to *spool) error {
	tip, err := x.store.Tip(ctx)
	if err != nil {
		return err
	}
	state, err := x.store.At(ctx, tip.Seq)
	if err != nil {
		return err
	}
	m.Seq, m.Digest, m.Store = tip.Seq, tip.Digest, x.store.Info().Clone()
	m.Store.Replica, m.Store.UpdatedAt, m.Store.ArchivedAt = false, time.Time{}, time.Time{}
	for v, err := range state.Heads(ctx, "/", "") {
		if err != nil {
			return err
		}
		line, err := versionlog.EncodeVersion(&v)
		if err != nil {
			return err
		}
		if err := to.line(line); err != nil {
			return err
		}
		if err := x.needs.add(&v); err != nil {
			return fmt.Errorf("%w: %w", versionlog.ErrCorrupt, err)
		}
		m.Listed.Count++
	}
	return nil
}

// findLost takes the contents that the store has lost out of those that are needed, and
// returns a version of each, in the order of the digests.
func (x *exporter) findLost(ctx context.Context) (lost []versionlog.Version, err error) {
	all := x.needs.sorted()
	for i, chunk := range x.chunks(all) {
		gone := make([]bool, len(chunk))
		err := together(len(chunk), func(n int) (err error) {
			gone[n], err = x.store.Lacks(ctx, chunk[n])
			return err
		})
		if err != nil {
			return nil, err
		}
		for n, d := range chunk {
			if gone[n] {
				lost = append(lost, x.needs[d])
				delete(x.needs, d)
			}
		}
		x.opts.Progress("check", i+len(chunk), len(all))
	}
	return lost, nil
}

// root completes the manifest with the contents, and returns its root.
func (x *exporter) root(m *Manifest, name string, listed *spool) (cas.Digest, error) {
	all := x.needs.sorted()
	for _, d := range all {
		m.Blobs.Count++
		m.Blobs.Bytes += x.needs[d].Size
	}
	h, err := newRootHash(m)
	if err != nil {
		return cas.Digest{}, err
	}
	h.entry(name, listed.size, listed.sum.Sum(nil))
	for _, d := range all {
		h.entry(blobName(d), x.needs[d].Size, d[:])
	}
	return h.root(), nil
}

// write writes the archive whose manifest is complete.
func (x *exporter) write(ctx context.Context, w io.Writer, m *Manifest, name string, listed *spool) error {
	buffered := bufio.NewWriterSize(w, 1<<20)
	t := tar.NewWriter(buffered)
	text, err := m.encode()
	if err != nil {
		return err
	}
	if err := addEntry(t, manifestName, int64(len(text)), bytes.NewReader(text)); err != nil {
		return err
	}
	from, err := listed.reader()
	if err != nil {
		return err
	}
	if err := addEntry(t, name, listed.size, from); err != nil {
		return err
	}
	all := x.needs.sorted()
	for i, chunk := range x.chunks(all) {
		contents := make([][]byte, len(chunk))
		err := together(len(chunk), func(n int) (err error) {
			contents[n], err = x.content(ctx, chunk[n])
			return err
		})
		if err != nil {
			return err
		}
		for n, d := range chunk {
			if err := addEntry(t, blobName(d), int64(len(contents[n])), bytes.NewReader(contents[n])); err != nil {
				return err
			}
		}
		x.opts.Progress("contents", i+len(chunk), len(all))
	}
	if err := t.Close(); err != nil {
		return err
	}
	return buffered.Flush()
}

// content reads a content, of the length that its records say.
func (x *exporter) content(ctx context.Context, d cas.Digest) ([]byte, error) {
	v := x.needs[d]
	data, err := x.store.Content(ctx, v)
	if err == nil && int64(len(data)) != v.Size {
		err = fmt.Errorf("%w: version %s has %d bytes, its record says %d", versionlog.ErrCorrupt, v.ID, len(data), v.Size)
	}
	return data, err
}

// chunkBytes is how much of contents is in memory at once, but for a larger one.
const chunkBytes = 8 << 20

// chunks yields neighbours that are worth reading together, with the index of the first.
func (x *exporter) chunks(all []cas.Digest) func(yield func(int, []cas.Digest) bool) {
	return func(yield func(int, []cas.Digest) bool) {
		for from := 0; from < len(all); {
			to, size := from, int64(0)
			for to < len(all) && to-from < x.opts.Workers && (to == from || size+x.needs[all[to]].Size <= chunkBytes) {
				size += x.needs[all[to]].Size
				to++
			}
			if !yield(from, all[from:to]) {
				return
			}
			from = to
		}
	}
}

// together makes n calls at once and returns the error of the first that has one.
func together(n int, call func(int) error) error {
	errs := make([]error, n)
	var calls sync.WaitGroup
	for i := range n {
		calls.Go(func() { errs[i] = call(i) })
	}
	calls.Wait()
	if i := slices.IndexFunc(errs, func(err error) bool { return err != nil }); i >= 0 {
		return errs[i]
	}
	return nil
}

// addEntry writes a file of a tar, which tells nothing of the machine.
func addEntry(t *tar.Writer, name string, size int64, from io.Reader) error {
	err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: size, ModTime: time.Unix(0, 0)})
	if err == nil {
		_, err = io.Copy(t, from)
	}
	return err
}

// spool keeps lines in a file without a name, which goes with the process.
type spool struct {
	file *os.File
	to   *bufio.Writer
	sum  hash.Hash
	size int64
}

// NewUnnamed makes a file in the directory of temporary ones that has no name any more, and so
// goes when it is closed, and with the process.
func NewUnnamed() (*os.File, error) {
	f, err := os.CreateTemp("", "mneme-*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func newSpool() (*spool, error) {
	f, err := NewUnnamed()
	if err != nil {
		return nil, err
	}
	return &spool{file: f, to: bufio.NewWriterSize(f, 256<<10), sum: sha256.New()}, nil
}

func (s *spool) close() { _ = s.file.Close() }

func (s *spool) line(data []byte) error {
	line := append(data, '\n')
	s.sum.Write(line)
	s.size += int64(len(line))
	_, err := s.to.Write(line)
	return err
}

// reader reads the lines from the first on.
func (s *spool) reader() (io.Reader, error) {
	if err := s.to.Flush(); err != nil {
		return nil, err
	}
	_, err := s.file.Seek(0, io.SeekStart)
	return s.file, err
}
