package mount

import (
	"os"
	"time"

	"mneme/archive/frozen"
	"mneme/cmd/mneme/app"
	"mneme/internal/mountinfo"
)

// warnExpired warns of mounted images of stores that have expired.
func warnExpired(a *app.App, mounted []mountinfo.Mount, now time.Time) {
	for _, m := range mounted {
		if m.Type != "erofs" {
			continue
		}
		if about, err := frozen.ReadFS(os.DirFS(m.Dir)); err == nil && about.Expired(now) {
			a.Warnf("%s: the snapshot of store %s that is mounted there has expired on %s; unmount and remove it", m.Dir, about.Store, about.Expires.Format(time.DateOnly))
		}
	}
}
