// Package frozen writes the memories that a store had at one point as an image of EROFS,
// which Linux mounts without mneme. The store cannot reach an image: it is no longer
// changed or redacted, so it says until when it is meant to be used.
package frozen

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/erofs/go-erofs"

	"mneme/errkind"
	"mneme/memory"
	"mneme/versionlog"
)

// Format is the format of the description that is written, and the newest that is read.
const Format = 1

// aboutName is the file of an image that describes it, where no memory can be.
const aboutName = memory.ReservedName + "/snapshot.json"

// maxAbout is how long a description is at most, in bytes.
const maxAbout = 64 << 10

// ErrNotImage says that a file is no image of a store.
var ErrNotImage = errkind.New(errkind.Invalid, "not an image of a store")

// About describes an image.
type About struct {
	Format   int               `json:"format"`
	StoreID  string            `json:"store_id"`
	Store    string            `json:"store"` // its slug
	Seq      uint64            `json:"seq"`   // of the commit after which the store is shown
	Digest   versionlog.Digest `json:"digest,omitzero"`
	Time     time.Time         `json:"time"` // of that commit
	Memories int               `json:"memories"`
	Bytes    int64             `json:"bytes"`
	Expires  time.Time         `json:"expires,omitzero"` // when the image should be removed; zero: never
}

// Expired reports whether the image should have been removed by a time.
func (a *About) Expired(now time.Time) bool { return !a.Expires.IsZero() && !now.Before(a.Expires) }

// Options adjust Write; nil is the default.
type Options struct {
	// Expires is when the image should be removed, in whole seconds. Default: never.
	Expires time.Time
	// TempDir is where the contents wait for their place in the image, in a file without a
	// name. Default: that of os.TempDir.
	TempDir string
	// Progress is called now and then with the number of memories written. Default: no calls.
	Progress func(step string, done, total int)
}

// Write writes an image of a store after its newest commit as of the call, or after that of
// memory.Library.OpenAt. The same history, point and expiry are the same bytes. Directories
// have mode 0555, files 0444 and the time of their version; all are owned by root, and an
// empty directory is there if it was made. After an error, w has no image.
//
// Errors: cas.ErrNotFound and cas.ErrCorrupt of a content that is lost, and those of the
// media and of w.
func Write(ctx context.Context, st *memory.Store, w io.WriteSeeker, opts *Options) (*About, error) {
	f := freezer{st: st, dirs: map[string]bool{}}
	if opts != nil {
		f.opts = *opts
	}
	about, err := f.write(ctx, w)
	if err != nil {
		return nil, fmt.Errorf("snapshot of store %s: %w", st.Info().Slug, err)
	}
	return about, nil
}

// freezer is one run of Write.
type freezer struct {
	st    *memory.Store
	opts  Options
	image *erofs.Writer
	dirs  map[string]bool // that are made
	about About
}

func (f *freezer) write(ctx context.Context, w io.WriteSeeker) (*About, error) {
	tip, err := f.st.Tip(ctx)
	if err != nil {
		return nil, err
	}
	state, err := f.st.At(ctx, tip.Seq)
	if err != nil {
		return nil, err
	}
	info := f.st.Info()
	f.about = About{
		Format: Format, StoreID: info.ID, Store: info.Slug, Seq: tip.Seq, Digest: tip.Digest,
		Time: tip.Time.UTC(), Expires: f.opts.Expires.UTC().Truncate(time.Second),
	}
	if tip.Seq == 0 {
		f.about.Time = info.CreatedAt.UTC()
	}
	f.image = erofs.Create(w, erofs.WithBuildTime(uint64(max(f.about.Time.Unix(), 0)), 0), erofs.WithTempDir(f.opts.TempDir))
	if err := f.dir("/", f.about.Time); err != nil {
		return nil, err
	}
	var heads []versionlog.Version
	for v, err := range state.Heads(ctx, "/", "") {
		if err != nil {
			return nil, err
		}
		heads = append(heads, v)
	}
	for i, v := range heads {
		if err := f.add(ctx, v); err != nil {
			return nil, err
		}
		if f.opts.Progress != nil {
			f.opts.Progress("memories", i+1, len(heads))
		}
	}
	text, err := json.MarshalIndent(f.about, "", "  ")
	if err != nil {
		return nil, err
	}
	if err := f.file("/"+aboutName, append(text, '\n'), f.about.Time); err != nil {
		return nil, err
	}
	return &f.about, f.image.Close()
}

// add puts what is live at a path into the image.
func (f *freezer) add(ctx context.Context, v versionlog.Version) error {
	if v.IsDir() {
		return f.dir(strings.TrimSuffix(v.Path, "/"), v.Time)
	}
	data, err := f.st.Content(ctx, v)
	if err != nil {
		return err
	}
	f.about.Memories++
	f.about.Bytes += int64(len(data))
	return f.file(v.Path, data, v.Time)
}

func (f *freezer) file(name string, data []byte, at time.Time) error {
	if err := f.dir(path.Dir(name), f.about.Time); err != nil {
		return err
	}
	file, err := f.image.Create(name)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	return errors.Join(err, file.Close(), f.image.Chmod(name, 0o444), f.image.Chtimes(name, at, at))
}

// dir makes a directory, after those above it, unless it is there.
func (f *freezer) dir(name string, at time.Time) error {
	if f.dirs[name] {
		return nil
	}
	f.dirs[name] = true
	if name != "/" {
		if err := f.dir(path.Dir(name), f.about.Time); err != nil {
			return err
		}
	}
	return errors.Join(f.image.Mkdir(name, 0o555), f.image.Chtimes(name, at, at))
}

// Read returns the description of an image. ErrNotImage, versionlog.ErrFormat.
func Read(file io.ReaderAt) (about *About, err error) {
	image, err := erofs.Open(file)
	if err != nil {
		return nil, fmt.Errorf("%w: it is no EROFS: %w", ErrNotImage, err)
	}
	return ReadFS(image)
}

// ReadFS is Read for an image that is mounted, or open.
func ReadFS(image fs.FS) (about *About, err error) {
	info, err := fs.Stat(image, aboutName)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxAbout {
		return nil, fmt.Errorf("%w: it has no %s of at most %d bytes", ErrNotImage, aboutName, maxAbout)
	}
	text, err := fs.ReadFile(image, aboutName)
	if err == nil {
		err = json.Unmarshal(text, &about)
	}
	if err != nil || about == nil || about.Format < 1 {
		return nil, fmt.Errorf("%w: its %s cannot be read", ErrNotImage, aboutName)
	}
	if about.Format > Format {
		return nil, fmt.Errorf("the image has format %d, this mneme reads up to %d: %w; use a newer mneme", about.Format, Format, versionlog.ErrFormat)
	}
	return about, nil
}
