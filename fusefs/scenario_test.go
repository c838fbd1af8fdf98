package fusefs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"mneme/internal/testing/logfault"
)

// A scenario is a file in testdata/scenarios. It lists the steps of programs of a mount and of
// another session on one store, in a given order, with the outcome that they must have. It speaks
// of requests, commits and files only, so that it outlives the inside of the file system.
//
// A line is one step; what follows a # is a comment. Words are divided by spaces, and are quoted
// as in Go where they have some. The words before a colon say when the step is made, and by which
// side:
//
//	files /a /d/f                  the store has them in the beginning, each with its path as text
//	cases unheard unmade           all that follows is tried in each case; several lines, each with each
//	unheard: …                     this step is made in that case only; "unheard, unmade: …", in either
//	mount merge                    options of the mount, see runOptions
//
//	mine: open /a r+ as h -> OK    a request of a program; -> says how it ends: OK, an errno, conflict
//	                               (what a program is told whose write has lost), fails, or any
//	theirs: write /a x             the other session commits
//	load                           all heads come in, unless they had in the beginning (mount loading)
//	follow                         the mount hears of all that has been committed
//	commits made unheard unmade    what becomes of the mount's next commits, or their replies
//
//	before commit: …               the step is made within the mount's next commit; also: after commit
//	                               (before its reply), before tip, after head, after page
//	at page 1: …                   when load has brought in one page of heads, and read the next;
//	                               "at any page": one more case for each page
//	held before commit: mine: …    the request is begun, and its commit held, until
//	beside: mine: …                the request is begun beside, and may wait for one that is held
//	go                             what is held goes on; all that was begun ends
//
//	want /a x                      a program opens and reads it: it has that text
//	want as log                    when all has been followed, the mount shows what the log has
//	want waiting                   no request that was begun beside has ended
//
// A word that names a file begins with a slash. Where a request takes a file, it also takes an
// inode that lookup has called by a name: the kernel uses the inode that it knows at that time,
// whichever file has the name since. All steps are in verbs, below.
type scenario struct {
	file  string
	files []string
	mount []string
	cases [][]string
	acts  []*act
}

// act is one line.
type act struct {
	line  int
	text  string
	cases [][]string // it is made in one of each of these
	when  []string   // what has to come first, the first of these first
	who   string     // mine, theirs, or ""
	verb  string
	args  []word
	ends  string // how a request ends
	run   func(*run, *act) error
}

type word struct {
	text   string
	quoted bool
}

// arg returns the text of the n-th word, "" if there is none.
func (s *act) arg(n int) string {
	if n >= len(s.args) {
		return ""
	}
	return s.args[n].text
}

// rest returns the words from the n-th on.
func (s *act) rest(n int) (words []string) {
	for _, w := range s.args[min(n, len(s.args)):] {
		words = append(words, w.text)
	}
	return words
}

// option takes "name value" out of the words, if it is there.
func (s *act) option(name string) (value string, ok bool) {
	i := slices.IndexFunc(s.args, func(w word) bool { return w.text == name && !w.quoted })
	if i < 1 || i+1 >= len(s.args) {
		return "", false
	}
	return s.args[i+1].text, true
}

// verb is a kind of step: how many words it takes, and what it does.
type verb struct {
	least, most int
	run         func(*run, *act) error
}

const (
	many    = 1 << 10
	anyPage = "at any page"
)

// hookPoints are the moments of a request that a step can be made at.
var hookPoints = map[string]logfault.Point{
	"before commit": logfault.BeforeCommit,
	"after commit":  logfault.AfterCommit,
	"before tip":    logfault.BeforeTip,
	"after head":    logfault.AfterHead,
	"after page":    logfault.AfterPage,
}

// TestScenarios plays all scenarios, each of which is a sub-test by the name of its file.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "scenarios", "*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatal("there are no scenarios", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s, err := parseScenario(file, string(data))
			if err != nil {
				t.Fatalf("this is no scenario:\n%v", err)
			}
			s.play(t, nil, s.cases)
		})
	}
}

// play plays a scenario in all cases.
func (s *scenario) play(t *testing.T, in []string, of [][]string) {
	if len(of) == 0 {
		synctest.Test(t, func(t *testing.T) { runScenario(t, s, in) })
		return
	}
	for _, name := range of[0] {
		t.Run(name, func(t *testing.T) { s.play(t, append(slices.Clone(in), name), of[1:]) })
	}
}

// parseScenario reads a scenario, and says of each line what is wrong with it.
func parseScenario(file, text string) (*scenario, error) {
	s := &scenario{file: file}
	var wrong []error
	number := 0
	for line := range strings.Lines(text) {
		number++
		if err := s.parseLine(number, strings.TrimSpace(line)); err != nil {
			wrong = append(wrong, fmt.Errorf("%s:%d: %w: %s", file, number, err, strings.TrimSpace(line)))
		}
	}
	if slices.ContainsFunc(s.acts, func(a *act) bool { return slices.Contains(a.when, anyPage) }) {
		var pages []string
		for n := range len(s.files)/slowPage + 1 {
			pages = append(pages, fmt.Sprint("at page ", n))
		}
		s.cases = append(s.cases, pages)
	}
	if len(s.acts) == 0 && len(wrong) == 0 {
		wrong = append(wrong, fmt.Errorf("%s: nothing happens", file))
	}
	return s, errors.Join(wrong...)
}

func (s *scenario) parseLine(number int, line string) error {
	st := &act{line: number, text: line}
	rest := line
	for {
		prefix, after, ok := strings.Cut(rest, ":")
		if !ok || !s.takePrefix(st, prefix) {
			break
		}
		rest = strings.TrimSpace(after)
	}
	words, ends, err := words(rest)
	if err != nil || len(words) == 0 {
		return err
	}
	head := func() (texts []string) {
		for _, w := range words[1:] {
			texts = append(texts, w.text)
		}
		return texts
	}
	switch words[0].text {
	case "files":
		s.files = append(s.files, head()...)
		return nil
	case "mount":
		s.mount = append(s.mount, head()...)
		return checkOptions(s.mount)
	case "cases":
		s.cases = append(s.cases, head())
		return nil
	}
	st.verb, st.args, st.ends = words[0].text, words[1:], ends
	if err := st.find(); err != nil {
		return err
	}
	s.acts = append(s.acts, st)
	return nil
}

// takePrefix takes what stands before a colon, if that means something.
func (s *scenario) takePrefix(st *act, prefix string) bool {
	page, isPage := strings.CutPrefix(prefix, "at page ")
	if isPage {
		_, err := strconv.Atoi(page)
		isPage = err == nil
	}
	isPage = isPage || prefix == anyPage
	point, held := strings.CutPrefix(prefix, "held ")
	_, isPoint := hookPoints[point]
	switch {
	case prefix == "mine", prefix == "theirs":
		st.who = prefix
	case s.areCases(strings.Split(prefix, ", ")):
		st.cases = append(st.cases, strings.Split(prefix, ", "))
	case prefix == "beside", isPage, isPoint && !held, isPoint && held:
		st.when = append(st.when, prefix)
	default:
		return false
	}
	return true
}

func (s *scenario) areCases(names []string) bool {
	return !slices.ContainsFunc(names, func(name string) bool {
		return !slices.ContainsFunc(s.cases, func(of []string) bool { return slices.Contains(of, name) })
	})
}

// find finds what the step's verb does.
func (s *act) find() error {
	name := strings.TrimSpace(s.who + " " + s.verb)
	if s.verb == "want" {
		if len(s.args) == 0 {
			return errors.New("what is wanted?")
		}
		if name = "want " + s.args[0].text; strings.HasPrefix(s.args[0].text, "/") {
			name = "want /"
		} else {
			s.args = s.args[1:]
		}
	}
	v, ok := verbs[name]
	switch {
	case !ok:
		return fmt.Errorf("%q is no step", name)
	case len(s.args) < v.least || len(s.args) > v.most:
		return fmt.Errorf("%q takes %d to %d words, not %d", name, v.least, v.most, len(s.args))
	case s.ends != "" && s.who != "mine":
		return errors.New("only a request of mine ends somehow")
	}
	s.run = v.run
	return checkStatus(s.ends)
}

// words divides a line; ends is what stands behind an arrow.
func words(line string) (words []word, ends string, err error) {
	for line = strings.TrimSpace(line); line != "" && line[0] != '#'; line = strings.TrimSpace(line) {
		if line[0] == '"' {
			quoted, err := strconv.QuotedPrefix(line)
			if err != nil {
				return nil, "", fmt.Errorf("a quote is not closed: %s", line)
			}
			text, err := strconv.Unquote(quoted)
			if err != nil {
				return nil, "", fmt.Errorf("%w: %s", err, quoted)
			}
			words = append(words, word{text, true})
			line = line[len(quoted):]
			continue
		}
		text, _, _ := strings.Cut(line, " ")
		words = append(words, word{text: text})
		line = line[len(text):]
	}
	if i := slices.Index(words, word{text: "->"}); i >= 0 {
		if i != len(words)-2 {
			return nil, "", errors.New("one word follows an arrow")
		}
		words, ends = words[:i], words[i+1].text
	}
	return words, ends, nil
}

// TestScenarioThatIsNone: a file that says nothing sensible is refused, with its lines.
func TestScenarioThatIsNone(t *testing.T) {
	for line, want := range map[string]string{
		"":                                 "nothing happens",
		"mine: opne /a r":                  `"mine opne" is no step`,
		"open /a r":                        `"open" is no step`,
		"their: write /a x":                `"their:" is no step`,
		"mine: rename /a":                  `"mine rename" takes 2 to 3 words, not 1`,
		"mine: read /a -> ESTAL":           `"ESTAL" is no status`,
		"mine: read /a ->":                 "one word follows an arrow",
		"theirs: write /a x -> OK":         "only a request of mine ends somehow",
		`mine: save /a "x`:                 "a quote is not closed",
		"mount loadng":                     `"loadng" is no option of a mount`,
		"before comit: follow":             `"before" is no step`,
		"other: mine: read /a":             `"other:" is no step`,
		"want":                             "what is wanted?",
		"want more":                        `"want more" is no step`,
		"held before comit: mine: read /a": `"held" is no step`,
	} {
		_, err := parseScenario("x.txt", "# a comment\n"+line)
		if err == nil || !strings.Contains(err.Error(), want) || line != "" && !strings.HasPrefix(err.Error(), "x.txt:2: ") {
			t.Errorf("%q is refused with %v, want %q and the line", line, err, want)
		}
	}
}
