package backend

import (
	"errors"
	"fmt"
	"path/filepath"

	"mneme/cache"
	"mneme/internal/safepath"
	"mneme/internal/xdg"
)

// The parts of the user's cache directory.
const (
	blobCacheDir = "blobs"
	headCacheDir = "heads"
)

// cacheDirs returns how the contents of a backend on another machine are cached on disk, for all
// mounts of the user together, and the directory for copies of heads. Without a home there is
// neither. As root it has to be root's alone.
func cacheDirs(opts *Options) (o *cache.Options, heads string, err error) {
	o = &cache.Options{}
	dir := opts.CacheDir
	if own, err := xdg.Cache(); dir == "" && err == nil {
		dir = own
	}
	if dir != "" {
		o.Dir, heads = filepath.Join(dir, blobCacheDir), filepath.Join(dir, headCacheDir)
		if err := errors.Join(safepath.Check(o.Dir), safepath.Check(heads)); err != nil {
			return nil, "", fmt.Errorf("cache: %w", elsewhere(err, "$XDG_CACHE_HOME names another place"))
		}
	}
	if o.DiskBytes = opts.CacheBytes; o.DiskBytes < 0 {
		o.Dir, o.DiskBytes = "", 0
	}
	return o, heads, nil
}
