package tools

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mneme/cas"
	"mneme/errkind"
	"mneme/versionlog"
)

// TestSearch: lines come in the order of paths, the same whatever the number of workers, and
// pages put together are the whole.
func TestSearch(t *testing.T) {
	r := newRig(t, &rigOptions{create: anyContent})
	for i := range 100 {
		r.theirs(fmt.Sprintf("/d%d/f%02d", i%3, i), fmt.Sprintf("first\nneedle %d\nNeedle\n", i))
	}
	r.theirs("/many", strings.Repeat("needle\n", 9))
	r.theirs("/bin", "needle\x00")
	r.theirs("/empty", "")
	r.theirs("/long", strings.Repeat("é", 5000)+"needle"+strings.Repeat("ü", 5000))
	all, whole := r.search(Query{Text: NewSecret("needle"), Limit: 200})
	if whole != (Coverage{Memories: 104, Searched: 104, NotText: 1, Shortened: 1, After: "/memories/many"}) || len(all) != 106 {
		t.Errorf("%d lines, %+v", len(all), whole)
	}
	if got := fmt.Sprint(all[0]); !strings.HasPrefix(got, "{/memories/d0/f00 memver_") || all[0].Line != 2 || all[0].Text != "needle 0" {
		t.Errorf("the first is %v", got)
	}
	if long := all[100]; long.Path != "/memories/long" || len([]rune(long.Text)) != maxMatchText+2 || !strings.Contains(long.Text, "éneedleü") {
		t.Errorf("of a long line it shows %q", long.Text)
	}
	for _, workers := range []int{1, 3} {
		before := runtime.GOMAXPROCS(workers)
		var paged []Match
		after, pages := "", 0
		for {
			page, c := r.search(Query{Text: NewSecret("needle"), Limit: 7, After: after})
			paged, after, pages = append(paged, page...), c.After, pages+1
			if c.Why == "" {
				break
			}
			if c.Why != "limit" || len(page) > 7 || pages > 50 {
				t.Fatalf("page %d: %d lines, %+v", pages, len(page), c)
			}
		}
		runtime.GOMAXPROCS(before)
		if fmt.Sprint(paged) != fmt.Sprint(all) {
			t.Errorf("%d pages have %d lines, and all are %d", pages, len(paged), len(all))
		}
	}
}

// TestCoverage: what a search has looked at is said of one thing as of several.
func TestCoverage(t *testing.T) {
	for _, test := range []struct {
		Coverage
		want string
	}{
		{Coverage{Memories: 1, Searched: 1, NotText: 1}, "Searched 1 of 1 memory. 1 is not text."},
		{Coverage{Memories: 1, Searched: 1, Shortened: 1}, "Searched 1 of 1 memory. In 1 memory more lines match than are shown."},
		{Coverage{Memories: 4, Searched: 4, Shortened: 2, NotText: 2, Damaged: 1}, "Searched 4 of 4 memories. In 2 memories more lines match than are shown. 2 are not text. 1 cannot be read."},
		{Coverage{Memories: 1, Why: "deadline", After: "/a"}, `Stopped (deadline) after 0 of 1 memory; go on with after "/a".`},
	} {
		if got := test.String(); got != test.want {
			t.Errorf("%q, want %q", got, test.want)
		}
	}
}

func TestSearchQueries(t *testing.T) {
	r := newRig(t, nil)
	r.theirs("/a/x", "foo\nbar FOO\n\n")
	r.theirs("/a/y", "f.o\n")
	for _, test := range []struct {
		q    Query
		want string // paths and lines
	}{
		{Query{Text: NewSecret("foo")}, "a/x:1"},
		{Query{Text: NewSecret("foo"), IgnoreCase: true}, "a/x:1 a/x:2"},
		{Query{Text: NewSecret("f.o")}, "a/y:1"},
		{Query{Text: NewSecret("f.o"), IgnoreCase: true}, "a/y:1"},
		{Query{Text: NewSecret("f.o"), Regexp: true}, "a/x:1 a/y:1"},
		{Query{Text: NewSecret("^FOO|O$"), Regexp: true}, "a/x:2"},
		{Query{Text: NewSecret("^"), Regexp: true, Under: "/memories/a/x"}, "a/x:1 a/x:2 a/x:3 a/x:4"},
		{Query{Text: NewSecret("o"), Under: "/memories/a/y"}, "a/y:1"},
		{Query{Text: NewSecret("o"), Under: "/memories/a/", Limit: 1}, "a/x:1"},
		{Query{Text: NewSecret(`\A(foo|bar|f)`), Regexp: true}, "a/x:1 a/y:1"},
		{Query{Text: NewSecret(`(?-m:^bar)|^bar|(?i)\AFOO`), Regexp: true}, "a/x:1 a/x:2"},
		{Query{Text: NewSecret("(a+)+$"), Regexp: true}, ""},
		{Query{Text: NewSecret("absent")}, ""},
	} {
		matches, _ := r.search(test.q)
		var got []string
		for _, one := range matches {
			got = append(got, fmt.Sprintf("%s:%d", strings.TrimPrefix(one.Path, "/memories/"), one.Line))
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%+v: %v, want %v", test.q, got, test.want)
		}
	}
	for want, q := range map[string]Query{
		"Error: The request is refused: there is nothing to search for":                                                       {},
		"Error: The request is refused: the query is no regular expression as RE2 has them: missing closing ) at character 7": {Text: NewSecret("canary("), Regexp: true},
		"Error: The request is refused: what to search for is longer than 1000 bytes":                                         {Text: NewSecret(strings.Repeat("x", 1001))},
		"The path /memories/none does not exist. Please provide a valid path.":                                                {Text: NewSecret("x"), Under: "/memories/none"},
		"Path must start with /memories, got: /etc":                                                                           {Text: NewSecret("x"), Under: "/etc"},
		"Error: The request is refused: limit must be at least 1":                                                             {Text: NewSecret("x"), Limit: -1},
	} {
		if _, _, err := r.Search(t.Context(), q); err == nil || err.Error() != want {
			t.Errorf("%+v: %v, want %s", q, err, want)
		}
	}
}

// TestSearchDeadline: a store that does not answer ends a search with what it has.
func TestSearchDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.blobs.blocked = map[cas.Digest]bool{}
		for i := range 200 {
			text := fmt.Sprint("needle ", i)
			r.theirs(fmt.Sprintf("/f%03d", i), text)
			r.blobs.blocked[cas.Sum([]byte(text))] = i >= 40
		}
		began := time.Now()
		matches, c := r.search(Query{Text: NewSecret("needle"), Limit: 200})
		if took := time.Since(began); took != 2*time.Second || c.Why != "deadline" || c.Searched != len(matches) || c.Searched != 40 || c.Memories != 200 {
			t.Errorf("after %v %d lines, %+v", took, len(matches), c)
		}
		if want := fmt.Sprintf("Stopped (deadline) after %d of 200 memories; go on with after %q.", c.Searched, c.After); c.String() != want {
			t.Errorf("it says %q", c)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, _, err := r.Search(ctx, Query{Text: NewSecret("needle")}); errkind.Of(err) == errkind.None {
			t.Error("a search that nobody waits for succeeds")
		}
	})
}

// TestSearchDeadlineOfExpression: an expression that takes minutes is ended, too.
func TestSearchDeadlineOfExpression(t *testing.T) {
	r := newRig(t, nil)
	r.theirs("/long", strings.Repeat("é", 50_000))
	alternatives := make([]string, 0, 30)
	for c := 'A'; len(alternatives) < cap(alternatives); c++ {
		alternatives = append(alternatives, ".{0,999}"+string('À'+c))
	}
	query := NewSecret(strings.Join(alternatives, "|"))
	r.opts.Deadline = 400 * time.Millisecond
	ended := make(chan Coverage, 1)
	go func() {
		_, c, _ := r.Search(r.Context(), Query{Text: query, Regexp: true})
		ended <- c
	}()
	select {
	case c := <-ended:
		if c.Why != "deadline" || c.Searched != 0 {
			t.Errorf("covered %+v", c)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("it goes on long after its deadline")
	}
}

// TestFindSlowly: what is found does not depend on how.
func TestFindSlowly(t *testing.T) {
	text := []byte("foo\nbär FOO\n\nübar foo")
	for _, pattern := range []string{`(?m)^bär`, `\Afoo`, `foo\z`, `(?m)$`, `\bfoo`, `(?s)o.*ü`, `absent`, `x*`, `[^\x00-\x7f]`} {
		e, err := newExpression(pattern)
		if err != nil {
			t.Fatal(err)
		}
		slow := *e
		slow.size = maxSteps + 1
		for _, from := range []int{0, 4, 13, 14} {
			if got, want := slow.find(t.Context(), text, from), e.find(t.Context(), text, from); got != want {
				t.Errorf("%s from %d: %d, want %d", pattern, from, got, want)
			}
		}
	}
}

func (r *rig) search(q Query) ([]Match, Coverage) {
	r.Helper()
	matches, c, err := r.Search(r.Context(), q)
	r.must(err)
	return matches, c
}

var memoryAny = versionlog.ExpectAny()

var anyContent = storeOptions{Content: versionlog.ContentAny}
