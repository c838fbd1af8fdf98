package fusefs

import (
	"fmt"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/internal/testing/logfault"
)

// TestDirectoryWhoseExampleGoes looks for a directory while the memory by which the
// log has told of it is removed.
func TestDirectoryWhoseExampleGoes(t *testing.T) {
	t.Run("lookup", func(t *testing.T) {
		r := newRig(t, "/d/a", "/d/b")
		r.log.Each(logfault.AfterPage, func() {
			r.log.Each(logfault.AfterPage, nil)
			r.remove("/d/a")
			r.follow()
		})
		r.wantLookup("/d", fuse.OK)
		r.wantLookup("/d/b", fuse.OK)
	})
	t.Run("list", func(t *testing.T) {
		r := newRig(t, "/d/0", "/d/1", "/d/s/a", "/d/s/b")
		r.wantLookup("/d", fuse.OK)
		pages := 0
		r.log.Each(logfault.AfterPage, func() {
			if pages++; pages == 2 {
				r.remove("/d/s/a")
				r.follow()
			}
		})
		r.wantNames("/d", "0", "1", "s")
		r.wantLookup("/d/s/b", fuse.OK)
	})
}

// TestListOfWhatIsWrittenOn lists a directory while another session writes in it,
// page by page: that is no reason to begin again.
func TestListOfWhatIsWrittenOn(t *testing.T) {
	for name, change := range map[string]func(*rig, int){
		"changed":          func(r *rig, n int) { r.write("/d/a", fmt.Sprint(n)) },
		"removed and made": func(r *rig, n int) { r.remove("/d/a"); r.follow(); r.write("/d/a", fmt.Sprint(n)) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "/d/a", "/d/b", "/e")
			pages := 0
			r.log.Each(logfault.AfterPage, func() {
				if pages++; pages <= 200 {
					change(r, pages)
					r.follow()
				}
			})
			r.wantNames("/d", "a", "b")
			if pages > 20 {
				t.Errorf("the directory was read in %d pages", pages)
			}
		})
	}
}
