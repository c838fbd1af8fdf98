package backend

import (
	"path/filepath"
	"testing"
)

// TestAWSCache: contents and heads are kept where the options say, else with the user;
// of a cache without room only the heads are.
func TestAWSCache(t *testing.T) {
	own, other := t.TempDir(), t.TempDir()
	t.Setenv("XDG_CACHE_HOME", own)
	for _, test := range []struct {
		opts        Options
		blobs, home string // directories
		bytes       int64
	}{
		{Options{}, blobCacheDir, filepath.Join(own, "mneme"), 0},
		{Options{CacheDir: other}, blobCacheDir, other, 0},
		{Options{CacheDir: other, CacheBytes: 7}, blobCacheDir, other, 7},
		{Options{CacheDir: other, CacheBytes: -1}, "", other, 0},
	} {
		caches, heads, err := awsTable{}.caches(nil, &test.opts)
		if err != nil {
			t.Fatal(err)
		}
		blobs := ""
		if test.blobs != "" {
			blobs = filepath.Join(test.home, test.blobs)
		}
		if o := caches.options; o.Dir != blobs || o.DiskBytes != test.bytes || heads != filepath.Join(test.home, headCacheDir) {
			t.Errorf("%+v: %d bytes in %q, heads in %q", test.opts, o.DiskBytes, o.Dir, heads)
		}
	}
}
