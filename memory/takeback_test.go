package memory

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestTakesBack(t *testing.T) {
	big := strings.Repeat("line\n", MostCompared/5+1)
	for _, c := range []struct {
		name, from, to, head, yours string
		want                        bool
	}{
		{"added line missing", "a\nb\n", "a\nx\nb\n", "", "a\nb\nmine\n", true},
		{"added line kept", "a\nb\n", "a\nx\nb\n", "", "a\nx\nb\nmine\n", false},
		{"changed line back", "a\nb\nc\n", "a\nB\nc\n", "", "a\nb\nc\nmine\n", true},
		{"changed line changed again", "a\nb\nc\n", "a\nB\nc\n", "", "a\nBB\nc\n", true},
		{"changed line kept", "a\nb\nc\n", "a\nB\nc\n", "", "A\nB\nC\n", false},
		{"removed line back", "a\nb\nc\n", "a\nc\n", "", "a\nb\nc\nmine\n", true},
		{"removed line, and one like it elsewhere", "a\nb\nc\nd\n", "a\nc\nd\n", "", "a\nc\nd\nb\n", false},
		{"the earlier text", "a\n", "b\n", "", "a\n", true},
		{"nothing", "a\n", "b\n", "", "", true},
		{"the same text", "a\n", "b\n", "", "b\n", false},
		{"there was nothing", "", "x\n", "", "mine\n", true},
		{"there was nothing, kept", "", "x\n", "", "x\nmine\n", false},
		{"only a blank line added", "a\nb\n", "a\n\nb\n", "", "a\nb\nmine\n", false},
		{"only a blank line added, the earlier text", "a\nb\n", "a\n\nb\n", "", "a\nb\n", true},
		{"no newline at the end", "a\n", "a\nx", "", "a\nx\nmine\n", false},
		{"other line ends", "a\n", "a\nx\n", "", "a\r\nx\r\nmine\r\n", false},
		{"one of two equal lines", "x\n", "x\na\nx\n", "", "a\nx\n", false},
		{"one of two equal lines that touch", "x\na\n", "x\nx\na\n", "", "x\na\nmine\n", false},
		{"moved", "a\nb\n", "a\nx\nb\n", "", "x\na\nb\n", false},
		{"a doubled line gone, where it was added", "k\na\nb\n", "k\na\nb\nk\n", "", "k\na\nb\nmine\n", true},
		{"gone already", "a\n", "a\nx\n", "a\nown\n", "a\nown\nmine\n", false},
		{"there beside the own", "a\n", "a\nx\n", "a\nx\nown\n", "a\nown\nmine\n", true},
		{"kept beside the own", "a\n", "a\nx\n", "a\nx\nown\n", "a\nx\nmine\n", false},
		{"back already", "a\nb\n", "a\n", "a\nb\n", "a\nb\nmine\n", false},
		{"not text", "\x00a", "\x00b", "", "\x00c", false},
		{"not text, the earlier bytes", "\x00a", "\x00b", "", "\x00a", true},
		{"too long", big, big + "x\n", "", big + "mine\n", false},
		{"too long, the earlier bytes", big, big + "x\n", "", big, true},
	} {
		if c.head == "" {
			c.head = c.to
		}
		if got := TakesBack([]byte(c.from), []byte(c.to), []byte(c.head), []byte(c.yours)); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestCutAt(t *testing.T) {
	const text = "one\ntwo\nthree\n"
	for _, c := range []struct {
		yours string
		size  int64
		want  bool
	}{
		{"ONE\ntwo\nth", 10, true},
		{"one\ntwo\nth", 10, true},
		{"one\nTWO\nth", 10, true},
		{"one\nTWO\nxth", 10, false},
		{"ONE\ntwo\n", 8, true},
		{"one\ntwo\n", 4, false},
		{"one\n", 8, false},
		{"ONE\ntwo\nthree\n", 8, false},
		{"one\ntwo\nthree\n", 8, false},
		{"", 0, false},
		{"ONE\ntwo\nthree\n", 14, false},
		{"ONE\n", 99, false},
		{"o", 1, true},
	} {
		if got := CutAt([]byte(text), []byte(c.yours), c.size); got != c.want {
			t.Errorf("%q of %d bytes: %v, want %v", c.yours, c.size, got, c.want)
		}
	}
}

// line is one of a text that is edited at random, and whose.
type line struct {
	text   string
	theirs bool // added by the other
}

// editor edits texts at random.
type editor struct {
	*rand.Rand
	n int
}

// line is new, or one of the lines that every text has.
func (e *editor) line() string {
	common := []string{"", "", "}", "\t}", "- done", "---", "end"}
	if e.IntN(3) == 0 {
		return common[e.IntN(len(common))]
	}
	e.n++
	return fmt.Sprintf("line %d %s", e.n, strings.Repeat("x", e.IntN(30)))
}

func (e *editor) text() (lines []line) {
	for range 1 + e.IntN(60) {
		lines = append(lines, line{text: e.line()})
	}
	return lines
}

// edit makes some changes that leave the lines alone that keep says, and puts
// back none that the other has removed.
func (e *editor) edit(lines []line, theirs bool, keep func(line) bool, removed []string) []line {
	lines = slices.Clone(lines)
	fresh := func() line {
		for {
			if l := e.line(); !slices.Contains(removed, l) {
				return line{l, theirs}
			}
		}
	}
	for range 1 + e.IntN(6) {
		i := 0
		if len(lines) > 0 {
			i = e.IntN(len(lines))
		}
		switch own := len(lines) > 0 && !keep(lines[i]); e.IntN(5) {
		case 0, 1:
			lines = slices.Insert(lines, i, fresh())
		case 2:
			if own {
				lines = slices.Delete(lines, i, i+1)
			}
		case 3:
			if own {
				lines[i] = fresh()
			}
		case 4: // moves
			if own {
				l := lines[i]
				lines = slices.Delete(lines, i, i+1)
				lines = slices.Insert(lines, e.IntN(len(lines)+1), l)
			}
		}
	}
	return lines
}

func joined(lines []line) []byte {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(l.text + "\n")
	}
	return []byte(b.String())
}

func texts(lines []line) (all []string) {
	for _, l := range lines {
		all = append(all, l.text)
	}
	return all
}

// TestHonestEdits: none of 1,000 edits of another writer's text that keep its added lines,
// and put back none of its removed lines, takes anything back. All of as many edits of the
// text before do, except those that keep the change by chance.
func TestHonestEdits(t *testing.T) {
	const edits = 1000
	e := &editor{Rand: rand.New(rand.NewPCG(17, 2))}
	refused, missed, stale := 0, 0, 0
	for range edits {
		before := e.text()
		after := e.edit(before, true, func(line) bool { return false }, nil)
		var removed []string
		for text, n := range count(texts(before)) {
			if n > count(texts(after))[text] {
				removed = append(removed, text)
			}
		}
		from, to := joined(before), joined(after)
		honest := joined(e.edit(after, false, func(l line) bool { return l.theirs }, removed))
		if TakesBack(from, to, to, honest) || CutAt(to, honest, int64(len(from))) {
			refused++
			t.Errorf("an honest edit is refused:\n--- before\n%s--- theirs\n%s--- mine\n%s", from, to, honest)
		}
		lost := slices.ContainsFunc(after, func(l line) bool { return l.theirs && strings.HasPrefix(l.text, "line ") })
		if old := joined(e.edit(before, false, func(line) bool { return false }, nil)); lost {
			if stale++; !TakesBack(from, to, to, old) {
				missed++
				t.Errorf("an edit of the text before is let through:\n--- before\n%s--- theirs\n%s--- mine\n%s", from, to, old)
			}
		}
	}
	t.Logf("of %d honest edits %d refused, of %d of the text before %d let through", edits, refused, stale, missed)
}

// BenchmarkTakesBack compares the longest texts that are compared, all of whose
// lines differ, or of which there are two.
func BenchmarkTakesBack(b *testing.B) {
	text := func(format string) []byte {
		var b strings.Builder
		for i := 0; b.Len() < MostCompared-32; i++ {
			fmt.Fprintf(&b, format, i)
		}
		return []byte(b.String())
	}
	for name, formats := range map[string][3]string{
		"different": {"%d\n", "a%d\n", "b%d\n"}, "alike": {"%.0sx\n", "%.0sx\ny\n", "%.0sy\nx\nx\n"},
		"kept": {"%d\n\n", "%d\n\na\n", "%d\n\na\nb\n"},
	} {
		b.Run(name, func(b *testing.B) {
			from, to, yours := text(formats[0]), text(formats[1]), text(formats[2])
			for b.Loop() {
				TakesBack(from, to, to, yours)
			}
		})
	}
}

// TestMadeOf tells an edit of the text before a change from one of the text after it.
func TestMadeOf(t *testing.T) {
	for _, c := range []struct {
		name, from, to, yours string
		want                  bool
	}{
		{"the text before", "a\nb\nc\n", "a\nB\nc\n", "a\nb\nc\n", true},
		{"an edit of the next line", "a\nb\nc\n", "a\nB\nc\n", "A\nb\nc\n", true},
		{"an edit of another line, with zeros at the end", "a\nb\nc\n", "a\nB\nc\n", "a\nb\nC\n\x00\x00", true},
		{"an edit of the line that was changed", "a\nb\nc\n", "a\nB\nc\n", "a\nX\nc\n", false},
		{"an edit that keeps the change", "a\nb\nc\n", "a\nB\nc\n", "A\nB\nc\n", false},
		{"an edit of a line that was added", "a\nb\n", "a\nx\nb\n", "A\nX\nb\n", false},
		{"without a line that was added", "a\nb\n", "a\nx\nb\n", "a\nB\n", false},
		{"without lines that were added elsewhere", "a\nb\nc\n", "x\na\nb\nc\n", "a\nb\nC\n", true},
	} {
		if got := MadeOf([]byte(c.from), []byte(c.to), []byte(c.yours)); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
