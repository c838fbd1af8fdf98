package pack

import (
	"fmt"
	"math"
	"strings"

	"mneme/memory"
)

// depths are how many names below the prefix the index goes down, in the order in which it
// is tried whether it fits.
var depths = []int{math.MaxInt, 3, 2, 1}

// writeIndex lists the memories, in the order of their paths. If not all memories fit, deep
// ones are counted by directory.
func (p *page) writeIndex(heads []*memory.Head, prefix string) {
	title := p.frame("index: %s below %s", memories(len(heads)), shown(prefix))
	below := strings.TrimSuffix(prefix, "/") + "/"
	for _, depth := range depths {
		l := rows(heads, below, depth)
		_, counted := l.fill(p.listRoom(title))
		if counted == len(heads) || depth == 1 {
			p.writeList(title, l, len(heads))
			return
		}
	}
}

// rows lists heads: one by one where they are at most so many names below a directory, the
// deeper ones by the directory that is.
func rows(heads []*memory.Head, below string, depth int) list {
	return func(yield func(string, int) bool) {
		for i := 0; i < len(heads); {
			n, line := 1, row(heads[i])
			if dir := dirAt(heads[i].Path(), below, depth); dir != "" {
				for i+n < len(heads) && strings.HasPrefix(heads[i+n].Path(), dir) {
					n++
				}
				line = fmt.Sprintf("%s %s\n", shown(dir), memories(n))
			}
			if !yield(line, n) {
				return
			}
			i += n
		}
	}
}

// dirAt returns the directory, so many names below another, in which a path lies deeper,
// with its slash; "" where the path is no deeper.
func dirAt(path, below string, depth int) string {
	rest := strings.TrimPrefix(path, below)
	for end := len(path) - len(rest); depth > 0; depth-- {
		slash := strings.IndexByte(path[end:], '/')
		if slash < 0 {
			return ""
		}
		if end += slash + 1; depth == 1 {
			return path[:end]
		}
	}
	return ""
}

// row is the line of one memory.
func row(h *memory.Head) string {
	return fmt.Sprintf("%s %dB %s v%d\n", shown(h.Path()), h.Size(), h.Time().Format("2006-01-02"), h.Seq())
}
