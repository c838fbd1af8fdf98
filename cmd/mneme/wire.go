package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"mneme/cache"
	"mneme/cas"
	"mneme/cas/dircas"
	"mneme/internal/durable"
	"mneme/memory"
	"mneme/versionlog"
	"mneme/versionlog/sqlitelog"
)

// urlVariable names the environment variable that stands in for --url.
const urlVariable = "MNEME_URL"

// The layout of the embedded store below its directory, but for the log:
// sqlitelog names its own files.
const (
	formatFile = "format"
	storesDir  = "stores"
	blobsDir   = "blobs"

	formatPrefix   = "mneme embedded store "
	embeddedFormat = 1
)

// errNoStores says that nothing was ever stored where the URL points.
var errNoStores = fmt.Errorf("no memory stores there yet: %w; `mneme store create NAME` makes the first", versionlog.ErrNotFound)

// openOptions say what a command needs of the library.
type openOptions struct {
	readOnly bool
	create   bool          // make the embedded store if it is missing
	refresh  time.Duration // how late another process's commit may be seen; 0 is the backend's default
}

var (
	reading = openOptions{readOnly: true}
	writing = openOptions{}
)

// library is a memory.Library together with the backends it stands on.
type library struct {
	*memory.Library
	log *sqlitelog.Log
	dir string

	mu    sync.Mutex // guards blobs
	blobs map[string]*cache.Cache
}

// openLibrary opens the library of a URL; nil is the default one.
func openLibrary(ctx context.Context, rawURL *string, opts openOptions) (*library, error) {
	dir, err := embeddedDir(rawURL)
	if err != nil {
		return nil, err
	}
	if err := checkFormat(dir, opts.create); err != nil {
		return nil, fmt.Errorf("%s: %w", embeddedURL(dir), err)
	}
	log, err := sqlitelog.Open(ctx, dir, &sqlitelog.Options{ReadOnly: opts.readOnly, Refresh: opts.refresh})
	if errors.Is(err, fs.ErrNotExist) { // whoever made the format file was killed right after
		err = errNoStores
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", embeddedURL(dir), err)
	}
	l := &library{log: log, dir: dir, blobs: make(map[string]*cache.Cache)}
	l.Library = memory.NewLibrary(log, l.storeBlobs)
	return l, nil
}

func (l *library) storeBlobs(storeID string) (cas.Store, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if blobs, ok := l.blobs[storeID]; ok {
		return blobs, nil
	}
	files, err := dircas.Open(filepath.Join(l.dir, storesDir, storeID, blobsDir), nil)
	if err != nil {
		return nil, err
	}
	blobs, err := cache.New(files, nil)
	if err != nil {
		return nil, err
	}
	l.blobs[storeID] = blobs
	return blobs, nil
}

// Close releases the backends.
func (l *library) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, blobs := range l.blobs {
		blobs.Close()
	}
	return l.log.Close()
}

// embeddedDir returns the directory that a URL means.
func embeddedDir(raw *string) (string, error) {
	if raw == nil {
		data, err := xdgDir("XDG_DATA_HOME", ".local/share")
		return filepath.Join(data, "mneme"), err
	}
	wrong := func(why string) error {
		return usagef("store URL %q: %s; want file:///absolute/path, or none for your own embedded store", *raw, why)
	}
	u, err := url.Parse(*raw)
	switch {
	case *raw == "":
		return "", wrong("it is empty")
	case err != nil:
		return "", wrong("it is no URL")
	case u.Scheme == "aws":
		return "", wrong("this version has the embedded store only")
	case u.Scheme == "" && filepath.IsAbs(*raw):
		return "", usagef("store URL %q: it has no scheme; want file://%s", *raw, *raw)
	case u.Scheme == "":
		return "", wrong("it has no scheme")
	case u.Scheme != "file":
		return "", wrong(fmt.Sprintf("there is no backend %q", u.Scheme))
	case u.Host != "":
		return "", wrong(fmt.Sprintf("%q stands where a host would (file:// and an absolute path make three slashes)", u.Host))
	case u.RawQuery != "" || u.Fragment != "":
		return "", wrong("it has a query or fragment (write ? as %3F and # as %23)")
	case u.Opaque != "" || !filepath.IsAbs(u.Path) || strings.ContainsRune(u.Path, 0):
		return "", wrong("it has no absolute path")
	}
	return filepath.Clean(u.Path), nil
}

func embeddedURL(dir string) string { return (&url.URL{Scheme: "file", Path: dir}).String() }

// xdgDir returns a base directory of the XDG specification, which says to
// ignore relative paths.
func xdgDir(variable, below string) (string, error) {
	if dir := os.Getenv(variable); filepath.IsAbs(dir) {
		return dir, nil
	}
	home, err := os.UserHomeDir()
	if err != nil || !filepath.IsAbs(home) {
		return "", usagef("$HOME is not set, so there is no default place; set it, or $%s, or give --url", variable)
	}
	return filepath.Join(home, below), nil
}

// checkFormat makes sure that dir is an embedded store this mneme understands,
// making it one if it is empty or missing and create is set. The format file
// comes before everything else, so a directory with other files but not that
// one is somebody else's.
func checkFormat(dir string, create bool) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	text, err := os.ReadFile(filepath.Join(dir, formatFile))
	if err == nil {
		return checkFormatText(string(text))
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), durable.TempPrefix) { // another process about to write the format file
			return usagef("the directory holds other files (%s) and is not a mneme store; name an empty or new one", e.Name())
		}
	}
	if !create {
		return errNoStores
	}
	if err := durable.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(dir, formatFile), []byte(formatPrefix+strconv.Itoa(embeddedFormat)+"\n"), 0o600)
}

func checkFormatText(text string) error {
	number, ok := strings.CutPrefix(text, formatPrefix)
	n, err := strconv.Atoi(strings.TrimSuffix(number, "\n"))
	switch {
	case !ok || err != nil || n < 1:
		return fmt.Errorf("the file %q is not one of mneme's: %q", formatFile, text)
	case n > embeddedFormat:
		return fmt.Errorf("format %d, this mneme reads up to %d: %w; use a newer mneme", n, embeddedFormat, versionlog.ErrFormat)
	}
	return nil
}
