package sqlitelog

import (
	"os"
	"time"

	"golang.org/x/sys/unix"

	"mneme/internal/safepath"
)

// fileTick is how exactly file systems tell the time: Linux has 100 ticks a second, or more.
const fileTick = 10 * time.Millisecond

// instant returns the time by the clock of the files, which all processes have in common, and
// by that of this process.
func (l *Log) instant() (now, own time.Time) {
	if l.timed && l.tips.file != nil && !l.clock.IsFresh() {
		l.hear(l.tips.file)
	}
	return l.clock.Both()
}

// hear asks the file system for the time, which it gives to a file that is touched. If it gives
// none, the clock stays as it was.
func (l *Log) hear(f *os.File) {
	asked := l.clock.Own()
	touch := []unix.Timespec{{Nsec: unix.UTIME_NOW}, {Nsec: unix.UTIME_NOW}}
	if unix.UtimesNanoAt(int(f.Fd()), "", touch, unix.AT_EMPTY_PATH) != nil {
		return
	}
	if info, err := f.Stat(); err == nil {
		l.clock.Heard(asked, info.ModTime(), fileTick)
	}
}

// commonClock is one of the log's Capabilities. A log that is read only touches its file of tips.
func (l *Log) commonClock() (now time.Time, ahead time.Duration) {
	switch {
	case !l.timed:
	case l.tips.file != nil:
		l.hear(l.tips.file)
	default:
		if f, err := safepath.OpenFile(l.root, tipsName, os.O_RDONLY, 0); err == nil {
			l.hear(f)
			_ = f.Close() // nothing was written
		}
	}
	return l.clock.Now(), l.clock.Ahead()
}
