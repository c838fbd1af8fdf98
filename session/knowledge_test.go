package session

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"

	"mneme/cas"
	"mneme/memory"
	"mneme/versionlog"
)

// version returns a version from "3abc": its number, and its text. "-" is none.
func version(name string) *memory.Head {
	text := lines(strings.TrimLeft(name, "0123456789"))
	seq, err := strconv.ParseUint(name[:len(name)-len(text)], 10, 64)
	if err != nil {
		return nil
	}
	return memory.NewHead(&versionlog.Version{ID: fmt.Sprint("memver_", seq), Seq: seq, Digest: cas.Sum([]byte(text)), Size: int64(len(text))})
}

// nameOf is the number of a version, or "-".
func nameOf(v *memory.Head) string {
	if v == nil {
		return "-"
	}
	return strconv.FormatUint(v.Seq(), 10)
}

// after does to k what the words say: "read 2b", "wrote 2b", "appended 3bc 2b",
// "merged 3bc 2b", "viewed 2b", "refused", "length 2".
func (k Knowledge) after(words string) Knowledge {
	for doing := range strings.SplitSeq(words, ", ") {
		word := strings.Fields(doing + " - - -")
		one, two := version(word[1]), version(word[2])
		switch word[0] {
		case "nothing":
			k = Of(nil)
		case "knows":
			k = Of(one)
		case "read":
			k = k.Read(one)
		case "viewed":
			k = k.Viewed(one)
		case "wrote":
			k = k.Wrote(one)
		case "added":
			k = k.Added(one, two)
		case "appended":
			k = k.Appended(one, two)
		case "merged":
			k = k.Merged(one, two)
		case "refused":
			k = k.Refused()
		case "length":
			n, _ := strconv.ParseInt(word[1], 10, 64)
			k = k.WithLength(n)
		}
	}
	return k
}

// String says what k is: "2 refused meant 1>2 2>3", the changes last.
func (k Knowledge) String() string {
	if !k.known && k.more == nil && !k.refused {
		return ""
	}
	text := []string{"?"}
	if k.known {
		text[0] = nameOf(k.head)
	}
	if k.refused {
		text = append(text, "refused")
	}
	if k.meant {
		text = append(text, "meant")
	}
	for _, one := range k.Changes() {
		from := "?"
		if one.Known {
			from = nameOf(one.From)
		}
		if one.Cut > 0 {
			from += fmt.Sprint("/", one.Cut)
		}
		text = append(text, from+">"+nameOf(one.To))
	}
	return strings.Join(text, " ")
}

// TestKnowledge does one thing after another, and looks at what the session knows
// then.
func TestKnowledge(t *testing.T) {
	for _, c := range []struct{ name, does, want string }{
		{"a first read", "read 1a", "1"},
		{"a first read of what has grown", "length 1, read 2ab", "2 ?/1>2"},
		{"a first read of what has shrunk", "length 3, read 2ab", "2"},
		{"a read of the same", "read 1a, read 1a", "1"},
		{"a read of other bytes", "read 1a, read 2b", "2 1>2"},
		{"a read of the same bytes in another version", "read 1a, read 2a", "2"},
		{"a read of what another has made", "nothing, read 1a", "1 ->1"},
		{"a read of what has grown", "read 1a, length 1, read 2ab", "2 1/1>2"},
		{"a read of the same bytes in another version, longer than a reader knew", "read 1ab, length 1, read 2ab", "2"},
		{"more changes than are remembered", "read 1a, read 2b, read 3c, read 4d, read 5e, read 6f", "6 2>3 3>4 4>5 5>6"},

		{"a write", "read 1a, wrote 2b", "2"},
		{"a write of nothing known", "wrote 1a", "1"},
		{"a write keeps the changes", "read 1a, read 2b, wrote 3bc", "3 1>2"},

		{"a read after a refusal", "read 1a, refused, read 2b", "2 meant 1>2"},
		{"a read of the same after a refusal", "read 1a, refused, read 1a", "1 meant"},
		{"a write after a refusal and no read", "read 1a, refused, wrote 2b", "2 refused"},
		{"a write that is meant", "read 1a, refused, read 2b, wrote 3c", "3 1>2"},
		{"a read of a second version after a refusal", "read 1a, refused, read 2b, read 3c", "3 1>2 2>3"},
		{"a read of the same twice after a refusal", "read 1a, refused, read 2b, read 2b", "2 meant 1>2"},

		{"a view of what another has written", "read 1a, read 2b, viewed 2b", "2 meant 1>2"},
		{"a view of what is not there any more", "read 1a, read 2b, viewed 1a", "2 1>2"},
		{"a view of what is not known", "viewed 1a", ""},
		{"a write after a view", "read 1a, read 2b, viewed 2b, wrote 3c", "3 1>2"},
		{"a read of a second version after a view", "read 1a, read 2b, viewed 2b, read 3c", "3 1>2 2>3"},

		{"an append to what is known", "read 1a, appended 2ab 1a", "2"},
		{"an append that makes the file", "nothing, appended 1a", "1"},
		{"an append that makes a file of which nothing is known", "appended 1a", "1"},
		{"an append to what is not known", "appended 2ab 1a", "?"},
		{"an append to what is not read", "read 1a, appended 3bc 2b", "1 1>2"},
		{"a read of an own append", "read 1a, appended 3bc 2b, read 3bc", "3 1>2"},
		{"a second append to what is not read", "read 1a, appended 3bc 2b, appended 4bcd 3bc", "1 1>2"},
		{"a second append after another's", "read 1a, appended 3bc 2b, appended 5bcde 4bcd", "1 1>2 1>4"},
		{"an append after a refusal", "read 1a, refused, read 2b, appended 3bc 2b", "3 meant 1>2"},
		{"an append after a refusal to what is not read", "read 1a, refused, read 2b, appended 4cd 3c", "2 1>2 2>3"},
		{"a read of an own append after a refusal", "read 1a, refused, read 2b, appended 4bc 3b, read 4bc", "4 meant 1>2"},

		{"a merge with what is known", "read 1a, merged 2ab 1a", "2"},
		{"a merge with what is not read", "read 1a, merged 3ab 2b", "1 1>2"},
		{"a merge after a refusal", "read 1a, refused, read 2b, merged 3bc 2b", "3 1>2"},
		{"a merge that takes a change back", "read 1a, read 2b, added 3bc 2b", "2 1>2"},
		{"a read of what was merged, after a refusal", "read 1a, refused, read 2b, added 3bc 2b, read 3bc", "3 meant 1>2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := (Knowledge{}).after(c.does).String(); got != c.want {
				t.Errorf("%s: the session knows %q, want %q", c.does, got, c.want)
			}
		})
	}
}

// TestKnowledgeAnswers asks what a session may do that knows as much.
func TestKnowledgeAnswers(t *testing.T) {
	for _, c := range []struct {
		name, does, head string
		stale            bool
		expected         string // version
	}{
		{"knows nothing", "", "1a", false, "1"},
		{"knows that there is nothing", "nothing", "1a", true, "-"},
		{"knows another", "read 1a", "2b", true, "1"},
		{"knows the same bytes", "read 1a", "2a", false, "2"},
		{"knows it", "read 1a", "1a", false, "1"},
		{"it is gone", "read 1a", "-", false, "-"},
		{"has appended to what it has not read", "read 1a, appended 3bc 2b", "3bc", true, "1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			k, head := (Knowledge{}).after(c.does), version(c.head)
			if got := k.Stale(head); got != c.stale {
				t.Errorf("stale: %v", got)
			}
			if got := nameOf(k.Expected(head)); got != c.expected {
				t.Errorf("expected to replace %s, want %s", got, c.expected)
			}
		})
	}
	for _, c := range []struct {
		name, does                      string
		asks, onlyRead, judged, refused bool
	}{
		{"knows nothing", "", false, false, false, false},
		{"has read it", "read 1a", false, false, false, false},
		{"has read a change", "read 1a, read 2b", true, true, true, false},
		{"has read that it is empty now", "read 1a, read 2", true, false, true, false},
		{"has written what keeps it", "read 1a, read 2b, wrote 3bc", true, false, true, false},
		{"knows only how long it was", "length 1, read 2ab", true, false, true, false},
		{"was refused", "read 1a, refused", true, false, false, true},
		{"was refused, and has read a change", "read 1a, refused, read 2b", true, false, false, false},
		{"was refused, had read a change, and writes", "read 1a, refused, read 2b, wrote 3c", true, false, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := (Knowledge{}).after(c.does)
			if k.Asks() != c.asks || k.OnlyRead() != c.onlyRead || k.WasRefused() != c.refused || k.ToJudge() != nil != c.judged {
				t.Errorf("asks %v, only read %v, refused %v, judged by %v", k.Asks(), k.OnlyRead(), k.WasRefused(), k.ToJudge())
			}
		})
	}
}

func TestPrecedes(t *testing.T) {
	first, next := version("1a").Version(), version("2b").Version()
	next.Parent = first.ID
	for does, want := range map[string][2]bool{
		"":                    {false, false},
		"nothing":             {true, false},
		"read 1a":             {false, true},
		"read 2b":             {false, false},
		"appended 2b 1a":      {false, false},
		"read 1a, length 200": {false, true},
	} {
		k := (Knowledge{}).after(does)
		if got := [2]bool{k.Precedes(first), k.Precedes(next)}; got != want {
			t.Errorf("%q precedes the first and the second version: %v, want %v", does, got, want)
		}
	}
}

// TestKnowledgeIsAValue changes what is known, and looks at what was known before.
func TestKnowledgeIsAValue(t *testing.T) {
	before := (Knowledge{}).after("read 1a, read 2b, read 3c, appended 5de 4d, refused, length 7")
	was, next := before.State(nil), before.after("read 6x")
	wasNext := next.State(nil)
	for _, does := range []string{"read 6f", "read 5de", "wrote 6f", "appended 7fg 6f", "merged 7fg 6f", "length 8", "refused"} {
		before.after(does)
		before.WithoutOlder(3)
		if diff := cmp.Diff(was, before.State(nil)) + cmp.Diff(wasNext, next.State(nil)); diff != "" {
			t.Errorf("%s changes what was known:\n%s", does, diff)
		}
	}
}

// TestWithoutOlder drops changes of which there are too many in a store.
func TestWithoutOlder(t *testing.T) {
	k := (Knowledge{}).after("read 1a, read 2b, read 3c, length 9")
	for seq, want := range map[uint64]string{0: "3 1>2 2>3", 3: "3 2>3", 4: "3"} {
		if got := k.WithoutOlder(seq); got.String() != want || got.length() != 9 {
			t.Errorf("from %d: %s, length %d, want %s", seq, got, got.length(), want)
		}
	}
}

// TestState hands what is known on as data.
func TestState(t *testing.T) {
	head := version("9x")
	for _, k := range []Knowledge{
		{}, Nothing(), Of(head),
		(Knowledge{}).after("read 1a, read 2b, refused, length 7, appended 4cd 3c"),
		(Knowledge{}).after("refused, read 1a"),
		(Knowledge{}).after("length 3"),
	} {
		st := k.State(head)
		if got := st.Knowledge(head); got.String() != k.String() || !cmp.Equal(got.State(head), st) {
			t.Errorf("%q becomes %q", k, got)
		}
	}
	if st := Of(head).State(head); st.Head != nil || !st.IsHead {
		t.Errorf("what is the head is said as %+v", st)
	}
	if got := (*State)(nil).Knowledge(head); got.IsKnown() {
		t.Errorf("nothing becomes %q", got)
	}
}

// TestKnowledgeIsSmall: there is one for each file that a mount shows, and reading
// one again costs nothing.
func TestKnowledgeIsSmall(t *testing.T) {
	if size := unsafe.Sizeof(Knowledge{}); size > 24 {
		t.Errorf("%d bytes, want at most 24", size)
	}
	k, v := (Knowledge{}).after("read 1a, read 2b"), version("2b")
	if n := testing.AllocsPerRun(100, func() { k = k.Read(v); k = k.Wrote(v).Refused() }); n > 0 {
		t.Errorf("%v allocations of a read and a write", n)
	}
}
