package archive

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"

	"mneme/cas"
	"mneme/internal/quote"
	"mneme/versionlog"
)

// Archive is an archive all of which has been verified. Its methods may be called at once
// from many goroutines, and read what is not in memory from the file again; what has been
// changed there since is found by the digests of all that was verified.
type Archive struct {
	Manifest *Manifest

	file     io.ReaderAt
	size     int64
	listedAt int64                // where the records or heads begin
	records  []cas.Digest         // of each line of an archive of a history, as it was verified
	blobs    []cas.Digest         // in order
	blobsAt  map[cas.Digest]int64 // where they begin
	needs    wanted               // of those and of lost contents
	heads    []versionlog.Version // of an archive of heads
}

// Open verifies an archive of size bytes: that it is whole and nothing else, that every
// record holds, follows the one before, and could have been committed, and that every
// content that is needed is there and right. It holds the state of the history in memory,
// not its contents. A nil progress shows nothing.
//
// Errors: ErrNotArchive, ErrDamaged, versionlog.ErrFormat, and those of the file.
func Open(ctx context.Context, file io.ReaderAt, size int64, progress Progress) (*Archive, error) {
	if progress == nil {
		progress = func(string, int, int) {}
	}
	a := &Archive{file: file, size: size, needs: wanted{}, blobsAt: map[cas.Digest]int64{}}
	v := verifier{a: a, ctx: ctx, progress: progress}
	if err := v.verify(); err != nil {
		return nil, err
	}
	return a, nil
}

// verifier is one run of Open.
type verifier struct {
	a        *Archive
	ctx      context.Context // of that one call
	progress Progress
	tar      *walk
	root     rootHash
}

func (v *verifier) verify() error {
	var err error
	if v.tar, err = v.a.begin(); err != nil {
		return err
	}
	m := v.a.Manifest
	if v.root, err = newRootHash(m); err != nil {
		return err
	}
	name, read := recordsName, v.history
	if m.Kind == Heads {
		name, read = headsName, v.live
	}
	list, err := v.tar.next(name, m.Listed.Bytes)
	if err != nil {
		return err
	}
	if v.a.listedAt, err = v.tar.at(); err != nil {
		return err
	}
	sum := sha256.New()
	if err := read(lines(v.ctx, io.TeeReader(list, sum))); err != nil {
		return err
	}
	v.root.entry(name, m.Listed.Bytes, sum.Sum(nil))
	if err := v.contents(); err != nil {
		return err
	}
	if err := v.tar.end(); err != nil {
		return err
	}
	if have := v.root.root(); have != m.Root {
		return fmt.Errorf("%w: its root is %.12s, and its manifest says %.12s", ErrDamaged, have, m.Root)
	}
	return nil
}

// history verifies the records.
func (v *verifier) history(records iter.Seq2[[]byte, error]) error {
	m := v.a.Manifest
	var r *versionlog.Rehearsal
	var told versionlog.Told
	for line, err := range records {
		if err != nil {
			return err
		}
		v.a.records = append(v.a.records, cas.Sum(line))
		c, err := decodeRecord(line)
		if err != nil {
			return err
		}
		if r == nil {
			r = versionlog.NewRehearsal(m.Store.Before(c))
		}
		if err := r.Add(c); err != nil {
			return fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		for i := range c.Versions {
			if err := v.a.needs.take(&c.Versions[i]); err != nil {
				return fmt.Errorf("%w: commit %d: %w", ErrDamaged, c.Seq, err)
			}
		}
		told.Add(c)
		v.progress("verify commits", int(c.Seq), int(m.Seq))
	}
	var tip versionlog.Tip
	if r != nil {
		tip = r.Tip()
	}
	if tip.Seq != m.Seq || tip.Digest != m.Digest {
		return fmt.Errorf("%w: its records end with commit %d, %.12s, and its manifest says commit %d, %.12s", ErrDamaged, tip.Seq, tip.Digest, m.Seq, m.Digest)
	}
	if fields := told.Contradicts(&m.Store); len(fields) > 0 || r != nil && m.Store.Epoch != r.Store().Epoch {
		return fmt.Errorf("%w: its manifest and its records disagree about the store: %q", ErrDamaged, append(fields, "epoch")[0])
	}
	return nil
}

// live verifies the list of live memories and directories.
func (v *verifier) live(heads iter.Seq2[[]byte, error]) error {
	m := v.a.Manifest
	memories := map[string]bool{}
	last := ""
	for line, err := range heads {
		if err != nil {
			return err
		}
		head, err := versionlog.DecodeVersion(line)
		if err != nil {
			return fmt.Errorf("%w: a line of %s: %w", ErrDamaged, headsName, err)
		}
		again, err := versionlog.EncodeVersion(&head)
		switch {
		case err != nil || !bytes.Equal(again, line):
			err = errors.New("a line is not in the form in which mneme writes it")
		case head.Path <= last:
			err = fmt.Errorf("%s is not in order", quote.Name(head.Path))
		case !head.Live() || head.Seq > m.Seq || head.Digest.IsZero() != head.IsDir():
			err = fmt.Errorf("version %.40q cannot be live", head.ID)
		default:
			if err = v.a.needs.take(&head); err == nil && liesBelow(head.Path, memories) {
				err = fmt.Errorf("%s lies below a memory", quote.Name(head.Path))
			}
		}
		if err != nil {
			return fmt.Errorf("%w: %s: %w", ErrDamaged, headsName, err)
		}
		if !head.IsDir() {
			memories[head.Path] = true
		}
		last = head.Path
		v.a.heads = append(v.a.heads, head)
	}
	if int64(len(v.a.heads)) != m.Listed.Count {
		return fmt.Errorf("%w: it lists %d heads, and its manifest says %d", ErrDamaged, len(v.a.heads), m.Listed.Count)
	}
	return nil
}

// contents verifies that every content is there which is needed, and no other.
func (v *verifier) contents() error {
	m, needs := v.a.Manifest, v.a.needs
	lost := map[cas.Digest]bool{}
	for _, d := range m.Lost {
		lost[d] = true
		if _, needed := needs[d]; !needed {
			return fmt.Errorf("%w: content %.12s is named as lost, and nothing needs it", ErrDamaged, d)
		}
	}
	v.a.blobs = slices.DeleteFunc(needs.sorted(), func(d cas.Digest) bool { return lost[d] })
	var bytes int64
	for i, d := range v.a.blobs {
		if err := v.ctx.Err(); err != nil {
			return err
		}
		content, err := v.tar.next(blobName(d), needs[d].Size)
		if err != nil {
			return err
		}
		if v.a.blobsAt[d], err = v.tar.at(); err != nil {
			return err
		}
		sum := sha256.New()
		n, err := io.Copy(sum, content)
		if err != nil {
			return cutOff(err)
		}
		if bytes += n; cas.Digest(sum.Sum(nil)) != d {
			return fmt.Errorf("%w: the content %.12s is another one", ErrDamaged, d)
		}
		v.root.entry(blobName(d), n, d[:])
		v.progress("verify contents", i+1, len(v.a.blobs))
	}
	if int64(len(v.a.blobs)) != m.Blobs.Count || bytes != m.Blobs.Bytes {
		return fmt.Errorf("%w: it has %d contents of %d bytes, and its manifest says %d of %d", ErrDamaged, len(v.a.blobs), bytes, m.Blobs.Count, m.Blobs.Bytes)
	}
	return nil
}

// Lost yields a version of each content that the archive lacks since the store had lost
// it, in the order of the digests.
func (a *Archive) Lost() iter.Seq[versionlog.Version] {
	return func(yield func(versionlog.Version) bool) {
		for _, d := range a.Manifest.Lost {
			if !yield(a.needs[d]) {
				return
			}
		}
	}
}

// Commits yields the commits above a sequence number, oldest first, as they were verified:
// ErrDamaged once the file has another record.
func (a *Archive) Commits(ctx context.Context, after uint64) iter.Seq2[*versionlog.Commit, error] {
	return func(yield func(*versionlog.Commit, error) bool) {
		if a.Manifest.Kind != History {
			return
		}
		n := 0
		for line, err := range lines(ctx, io.NewSectionReader(a.file, a.listedAt, a.Manifest.Listed.Bytes)) {
			var c *versionlog.Commit
			if err == nil && (n == len(a.records) || cas.Sum(line) != a.records[n]) {
				err = fmt.Errorf("%w: record %d has been changed since it was verified", ErrDamaged, n+1)
			}
			if n++; err == nil && uint64(n) <= after {
				continue
			}
			if err == nil {
				c, err = decodeRecord(line)
			}
			if !yield(c, err) || err != nil {
				return
			}
		}
		if n < len(a.records) {
			yield(nil, fmt.Errorf("%w: it has been cut off since it was verified", ErrDamaged))
		}
	}
}

// Heads returns what is live after the last commit, in the order of paths.
func (a *Archive) Heads(ctx context.Context) ([]versionlog.Version, error) {
	if a.Manifest.Kind == Heads {
		return a.heads, nil
	}
	state, err := versionlog.Replay(a.Manifest.Seq, a.Commits(ctx, 0))
	if err != nil {
		return nil, err
	}
	var heads []versionlog.Version
	for head, err := range state.Heads(ctx, "/", "") {
		if err != nil {
			return nil, err
		}
		heads = append(heads, head)
	}
	return heads, nil
}

// Content returns the bytes of a content, verified. cas.ErrNotFound: the archive has none
// of that digest, which the store had lost.
func (a *Archive) Content(d cas.Digest) ([]byte, error) {
	at, there := a.blobsAt[d]
	if !there {
		return nil, fmt.Errorf("content %.12s: %w in the archive", d, cas.ErrNotFound)
	}
	data := make([]byte, a.needs[d].Size)
	if _, err := io.ReadFull(io.NewSectionReader(a.file, at, int64(len(data))), data); err != nil {
		return nil, cutOff(err)
	}
	if cas.Sum(data) != d {
		return nil, fmt.Errorf("%w: content %.12s has been changed since it was verified", ErrDamaged, d)
	}
	return data, nil
}

// Contents yields all contents, each once, in the order of their digests, verified.
func (a *Archive) Contents(ctx context.Context) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for _, d := range a.blobs {
			err := ctx.Err()
			var data []byte
			if err == nil {
				data, err = a.Content(d)
			}
			if !yield(data, err) || err != nil {
				return
			}
		}
	}
}

// begin reads the manifest, and returns a walk that is behind it.
func (a *Archive) begin() (*walk, error) {
	section := io.NewSectionReader(a.file, 0, a.size)
	w := &walk{section: section, tar: tar.NewReader(section), size: a.size}
	if packed := compression(a.file); packed != "" {
		return nil, fmt.Errorf("%w: it is compressed by %s; decompress it first", ErrNotArchive, packed)
	}
	header, err := w.tar.Next()
	if err != nil || header.Name != manifestName {
		return nil, fmt.Errorf("%w: it does not begin with %s", ErrNotArchive, manifestName)
	}
	if err := w.checkEntry(header); err != nil {
		return nil, err
	}
	if header.Size > maxManifest {
		return nil, fmt.Errorf("%w: its manifest has %d bytes, at most %d", ErrDamaged, header.Size, maxManifest)
	}
	text, err := io.ReadAll(w.tar)
	if err != nil {
		return nil, cutOff(err)
	}
	m, err := decodeManifest(text)
	if err != nil {
		return nil, err
	}
	a.Manifest = m
	return w, nil
}

// lines yields the lines of a list.
func lines(ctx context.Context, from io.Reader) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		scanner := bufio.NewScanner(from)
		scanner.Buffer(nil, maxRecord)
		scanner.Split(wholeLines)
		for scanner.Scan() {
			err := ctx.Err()
			if !yield(scanner.Bytes(), err) || err != nil {
				return
			}
		}
		switch err := scanner.Err(); {
		case errors.Is(err, bufio.ErrTooLong):
			yield(nil, fmt.Errorf("%w: a line has more than %d bytes", ErrDamaged, maxRecord))
		case err != nil:
			yield(nil, cutOff(err))
		}
	}
}

// wholeLines is a bufio.SplitFunc for lines that all end in a line feed.
func wholeLines(data []byte, atEOF bool) (advance int, line []byte, err error) {
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		return i + 1, data[:i], nil
	}
	if atEOF && len(data) > 0 {
		return 0, nil, fmt.Errorf("%w: its last line has no end", ErrDamaged)
	}
	return 0, nil, nil
}

// decodeRecord reads a record in the form that EncodeRecord writes.
func decodeRecord(line []byte) (*versionlog.Commit, error) {
	c, err := versionlog.DecodeRecord(line)
	if errors.Is(err, versionlog.ErrFormat) {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if again, err := versionlog.EncodeRecord(c); err != nil || !bytes.Equal(again, line) {
		return nil, fmt.Errorf("%w: record %d is not in the form in which mneme writes it", ErrDamaged, c.Seq)
	}
	return c, nil
}
