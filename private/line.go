package private

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// header is the first line of the file. Each line after it is
//
//	MODE SP SECONDS SP KEY LF
//
// with the permission bits in octal, or "-" where the key is forgotten, and the time
// in seconds since 1970. Of two lines of one key the later one counts. Bytes after the last
// LF were never acknowledged.
const header = "mneme private 1\n"

const forgotten = "-"

var errFormat = errors.New("the file is damaged, or of a newer mneme")

func line(key string, e Entry) string {
	return fmt.Sprintf("%04o %d %s\n", e.Mode, e.Since.Unix(), key)
}

func (c Change) line(now time.Time) string {
	if c.Forget {
		return fmt.Sprintf("%s %d %s\n", forgotten, now.Unix(), c.Key)
	}
	return line(c.Key, Entry{c.Mode, now})
}

// parse reads a file; an empty one has just been made.
func parse(text []byte) (map[string]Entry, error) {
	known := map[string]Entry{}
	if len(text) == 0 {
		return known, nil
	}
	rest, ok := strings.CutPrefix(string(text), header)
	if !ok {
		return nil, errFormat
	}
	for {
		one, after, whole := strings.Cut(rest, "\n")
		if !whole {
			return known, nil
		}
		rest = after
		fields := strings.SplitN(one, " ", 3)
		if len(fields) != 3 || fields[2] == "" {
			return nil, errFormat
		}
		seconds, err := strconv.ParseInt(fields[1], 10, 64)
		if err != nil {
			return nil, errFormat
		}
		if fields[0] == forgotten {
			delete(known, fields[2])
			continue
		}
		mode, err := strconv.ParseUint(fields[0], 8, 32)
		if err != nil || mode > 0o777 {
			return nil, errFormat
		}
		known[fields[2]] = Entry{uint32(mode), time.Unix(seconds, 0).UTC()}
	}
}
