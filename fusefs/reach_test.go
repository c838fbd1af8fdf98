package fusefs

import (
	"fmt"
	"testing"

	"mneme/internal/testing/logfault"
)

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
