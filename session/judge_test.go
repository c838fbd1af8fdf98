package session

import (
	"strings"
	"testing"

	"mneme/cas"
	"mneme/memory"
)

// TestTakenBack writes texts over changes that a session has only read.
func TestTakenBack(t *testing.T) {
	big := strings.Repeat("line;", memory.MostCompared/5+1)
	for _, c := range []struct{ name, does, head, yours, want string }{
		{"nothing was only read", "read 1a;", "1a;", "x", ""},
		{"the text before", "read 1a;, read 2b;", "2b;", "a;", "1>2"},
		{"an edit of the text before", "read 1a;, read 2a;b;", "2a;b;", "a;x;", "1>2"},
		{"an edit that keeps the change", "read 1a;, read 2a;b;", "2a;b;", "a;b;x;", ""},
		{"the very text", "read 1a;, read 2b;", "2b;", "b;", ""},
		{"removed, and the text before made", "read 1a;, read 2b;", "-", "a;", "1>2"},
		{"removed, and an edit of the text before made", "read 1a;, read 2a;b;", "-", "a;x;", "1>2"},
		{"removed, and what keeps the change made", "read 1a;, read 2a;b;", "-", "b;x;", ""},
		{"an older change", "read 1a;, read 2a;b;, read 3a;b;c;", "3a;b;c;", "a;c;", "1>2"},
		{"two changes: the newest", "read 1a;, read 2a;b;, read 3a;b;c;", "3a;b;c;", "a;", "2>3"},
		{"the text before, and the head has none of the change", "read 1a;, read 2a;b;", "3a;c;", "a;c;x;", ""},
		{"what was made", "nothing, read 1a;", "1a;", "x;", "->1"},
		{"what was made, emptied", "nothing, read 1a;", "1a;", "", "->1"},
		{"emptied, and the change took a line away", "read 1a;b;, read 2a;", "2a;", "", "1>2"},
		{"emptied, with an edit on top", "read 1a;b;, read 2a;", "3a;c;", "", "1>2"},
		{"emptied, and the head has none of the change", "read 1a;, read 2a;b;", "3a;c;", "", ""},
		{"cut where it ended", "length 2, read 2a;b;", "2a;b;", "a;", "?/2>2"},
		{"cut elsewhere", "length 2, read 2a;b;", "2a;b;", "x;b;", ""},
		{"cut where it ended, but it has changed since", "length 2, read 2a;b;", "3a;b;c;", "a;", ""},
		{"cut where it ended, and nothing that the other changed", "read 1a;b;c;d;, length 2, read 2a;c;d;", "2a;c;d;", "a;", "?/2>2"},
		{"emptied, and not known what it was", "length 2, read 2a;b;", "2a;b;", "", ""},
		{"the text before, too large to compare", "read 1" + big + ", read 2b;", "2b;", big, "1>2"},
		{"meant", "read 1a;, refused, read 2b;", "2b;", "a;", ""},
		{"a change that is too large to compare", "read 1a;, read 2" + big, "2" + big, "a;x;", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			texts := textsOf(c.does + ", read " + c.head)
			taken := TakenBack((Knowledge{}).after(c.does).ToJudge(), version(c.head), []byte(lines(c.yours)), func(v *memory.Head) ([]byte, bool) {
				if v.Size() > memory.MostCompared || c.head != "-" && lines(c.yours) == texts[version(c.head).Digest()] {
					t.Errorf("version %d is read, which no judgement needs", v.Seq())
				}
				return texts.content(v)
			})
			got := ""
			if taken != nil {
				got = strings.TrimPrefix(Knowledge{known: true, more: &details{changes: []Change{*taken}}}.String(), "- ")
			}
			if got != c.want {
				t.Errorf("takes back %q, want %q", got, c.want)
			}
		})
	}
}

// TestDamagedVersionIsNotJudged writes a file one of whose earlier versions cannot
// be read.
func TestDamagedVersionIsNotJudged(t *testing.T) {
	const does = "read 1a;, read 2a;b;"
	texts := textsOf(does)
	damaged := func(v *memory.Head) ([]byte, bool) {
		data, _ := texts.content(v)
		return data, v.Seq() != 1
	}
	judge := (Knowledge{}).after(does).ToJudge()
	if taken := TakenBack(judge, version("2a;b;"), []byte("a\nx\n"), damaged); taken != nil {
		t.Errorf("judged by %+v, which cannot be read", taken)
	}
	if taken := TakenBack(judge, version("2a;b;"), []byte("a\nx\n"), texts.content); taken == nil {
		t.Error("not judged where it can be read")
	}
}

// TestMergeBack merges what takes a change back.
func TestMergeBack(t *testing.T) {
	for _, c := range []struct {
		name, does, head, yours, want string
		ok                            bool
	}{
		{"other lines", "read 1a;b;c;, read 2a;b;C;", "2a;b;C;", "A;b;c;", "A;b;C;", true},
		{"the same line", "read 1a;, read 2b;", "2b;", "c;", "", false},
		{"no memory before", "nothing, read 1a;", "1a;", "b;", "", false},
		{"cut where it ended", "length 6, read 2a;b;c;d;", "2a;b;c;d;", "A;b;c;", "A;b;c;d;", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			texts := textsOf(c.does + ", read " + c.head)
			change := (Knowledge{}).after(c.does).ToJudge()[0]
			got, ok := change.MergeBack(version(c.head), []byte(lines(c.yours)), func(v *memory.Head) []byte {
				data, _ := texts.content(v)
				return data
			})
			if ok != c.ok || string(got) != lines(c.want) {
				t.Errorf("%q, %v, want %q", got, ok, lines(c.want))
			}
		})
	}
}

// TestUnder: a write that takes a change back is based on what was there before.
func TestUnder(t *testing.T) {
	head := version("9x")
	for does, want := range map[string]string{"read 1a, read 2b": "1", "nothing, read 2b": "-", "length 1, read 2ab": "9"} {
		if got := nameOf((Knowledge{}).after(does).Changes()[0].Under(head)); got != want {
			t.Errorf("%s: based on %s, want %s", does, got, want)
		}
	}
}

// lines is a text in one word: a semicolon ends a line.
func lines(text string) string { return strings.ReplaceAll(text, ";", "\n") }

// texts are the contents of versions, by digest.
type texts map[cas.Digest]string

// textsOf returns the contents of all versions that the words name.
func textsOf(words string) texts {
	all := texts{}
	for word := range strings.FieldsFuncSeq(words, func(r rune) bool { return r == ' ' || r == ',' }) {
		if v := version(word); v != nil {
			all[v.Digest()] = lines(strings.TrimLeft(word, "0123456789"))
		}
	}
	return all
}

func (all texts) content(v *memory.Head) ([]byte, bool) {
	text, there := all[v.Digest()]
	return []byte(text), there
}
