package plugin

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"mneme/cas"
	"mneme/memory"
	"mneme/versionlog"
)

// TestRecall: memories with the words of a query come in the order of how well they fit, with
// all that a host needs to name them.
func TestRecall(t *testing.T) {
	r := newRig(t, nil)
	v := r.theirs("/plan.md", "We ship on Friday.\n")
	r.theirs("/old.md", "Once we shipped; nobody knows when.\n")
	r.theirs("/long.md", "ship "+strings.Repeat("other words of no use ", 50))
	r.theirs("/ship.md", "The vessel.\n")
	r.theirs("/café.md", "Le CAFÉ est fermé. Ｆｕｌｌ width.\n")
	r.theirs("/ja.md", "来週の会議は月曜日です。\n")
	r.theirs("/c.md", "written in C\n")
	r.found("When do we SHIP?", "/plan.md /ship.md /long.md")
	r.found("ship friday", "/plan.md /ship.md /long.md")
	r.found("cafe\u0301", "/café.md")
	r.found("full", "/café.md")
	r.found("会議", "/ja.md")
	r.found("月曜", "/ja.md")
	r.found("曜", "/ja.md")
	r.found("曜月", "")
	r.found("月曜会議", "/ja.md")
	r.found("ship width", "/café.md /plan.md /ship.md /long.md") // few have width
	r.found("absent", "")
	r.found("c", "/c.md")
	r.found("what is in", "/c.md")
	got := r.find("friday")
	if len(got.Items) != 1 {
		t.Fatal(show(got))
	}
	one := got.Items[0]
	want := Item{ID: v.MemoryID, Store: "notes", Path: "/plan.md", Version: v.ID, Seq: v.Seq, Text: "We ship on Friday.", Score: one.Score, Updated: v.Time.UTC()}
	if one != want || one.Score <= 0 {
		t.Errorf("%+v, want %+v", one, want)
	}
	d := got.Diagnostics
	if d.Degraded || len(d.Reasons) != 0 || *d.Coverage != (Coverage{Memories: 7, Searched: 7, Found: 1}) || d.Receipt != nil {
		t.Errorf("%s", show(d))
	}
	if shown := show(got); !strings.Contains(shown, `"facts":[],"summaries":[],"provider":{"name":"mneme","version":"test","kind":"lexical","capabilities":["recall","remember"]},"diagnostics":{"degraded":false,"reasons":[],"took_ms":`) {
		t.Errorf("%s", shown)
	}
	r.theirs("/plan.md", "We ship on Monday.\n")
	r.found("friday", "")
}

// TestRecallNewest: without words to search for there are the newest memories.
func TestRecallNewest(t *testing.T) {
	r := newRig(t, nil)
	for i := range 30 {
		r.theirs(fmt.Sprintf("/f%02d", i), fmt.Sprintf("text %d\n", i))
	}
	got := r.find("")
	if len(got.Items) != DefaultItems || got.Items[0].Path != "/f29" || got.Items[19].Path != "/f10" || got.Items[0].Text != "text 29" || got.Items[0].Score != 0 {
		t.Errorf("%s", show(got))
	}
	if d := got.Diagnostics; d.Degraded || *d.Coverage != (Coverage{Memories: 30, Searched: 20, Found: 20}) {
		t.Errorf("%s", show(d))
	}
	if d := r.find(" ?! ").Diagnostics; !d.Degraded || !strings.HasPrefix(d.Reasons[0], "no words: ") {
		t.Errorf("%s", show(d))
	}
	if got := newRig(t, nil).find("x"); got.Diagnostics.Degraded || got.Items == nil || len(got.Items) != 0 {
		t.Errorf("an empty store: %s", show(got))
	}
}

// TestRecallStores: all stores are searched, and one that fails takes nothing from the others.
func TestRecallStores(t *testing.T) {
	r := newRig(t, &rigOptions{stores: []string{"notes", "books:ro"}, create: memory.StoreOptions{Content: versionlog.ContentAny}})
	r.theirs("/a", "needle")
	r.theirs("/bin", "needle\x00")
	_, err := r.stores[1].Write(t.Context(), "/b", []byte("needle and thread"), versionlog.ExpectAny())
	r.must(err)
	for _, st := range []*memory.Store{r.stores[1], r.stores[0]} {
		_, err = st.Write(t.Context(), "/same", []byte("equal"), versionlog.ExpectAny())
		r.must(err)
	}
	if got := r.find("equal").Items; len(got) != 2 || got[0].Store != "notes" || got[0].Score != got[1].Score {
		t.Errorf("of equals the older is first: %s", show(got))
	}
	got := r.find("needle")
	if len(got.Items) != 2 || got.Items[0].Store != "notes" || got.Items[1].Store != "books" || *got.Diagnostics.Coverage != (Coverage{Memories: 5, Searched: 5, Found: 2, NotText: 1}) || got.Diagnostics.Degraded {
		t.Errorf("%s", show(got))
	}
	r.must(r.blobs.Delete(t.Context(), cas.Sum([]byte("needle"))))
	got = r.find("needle")
	if d := got.Diagnostics; len(got.Items) != 1 || !d.Degraded || d.Reasons[0] != "corrupt: 1 memory cannot be read" || *d.Coverage != (Coverage{Memories: 5, Searched: 5, Found: 1, NotText: 1, Damaged: 1}) {
		t.Errorf("%s", show(got))
	}
	r.log.SetDown(true)
	fresh := r.provider("mine", &rigOptions{stores: []string{"notes", "books:ro"}})
	if got := fresh.Recall(t.Context(), Request{QueryText: "needle"}); !got.Diagnostics.Degraded || got.Diagnostics.Retry != Later || got.Diagnostics.Reasons[0] != "unknown: store notes does not answer" {
		t.Errorf("%s", show(got))
	}
}

// TestRecallParts: of a long memory there is the part with most of the words, whole lines of it,
// and nothing of its front matter.
func TestRecallParts(t *testing.T) {
	var text strings.Builder
	text.WriteString("---\nalpha: \"omega\"\n---\n")
	for i := range 100 {
		fmt.Fprintf(&text, "line %d of many\n", i)
		switch i {
		case 10:
			text.WriteString("alpha alone\n")
		case 60:
			text.WriteString("then omega and alpha together\n")
		}
	}
	r := newRig(t, nil)
	r.theirs("/f", text.String())
	got := r.find("alpha omega").Items[0]
	if !got.Part || !strings.HasPrefix(got.Text, "then omega and alpha together\nline 61 of many\n") || !strings.HasSuffix(got.Text, " of many") || utf8.RuneCountInString(got.Text) > leastRoom {
		t.Errorf("%q", got.Text)
	}
	if got := r.Recall(t.Context(), Request{QueryText: "alpha omega", Limits: Limits{MaxItems: 1}}).Items[0]; got.Part || strings.Contains(got.Text, "---") || !strings.HasSuffix(got.Text, "line 99 of many") {
		t.Errorf("%q", got.Text)
	}
	r.theirs("/last", "theta "+strings.Repeat("b", 300)+"\nthen iota "+strings.Repeat("c", 300)+"\n")
	if got := r.find("theta iota").Items[0]; !strings.HasPrefix(got.Text, "theta ") || !strings.Contains(got.Text, "\nthen iota c") || utf8.RuneCountInString(got.Text) != leastRoom {
		t.Errorf("%q", got.Text)
	}
	r.theirs("/one", strings.Repeat("é", 3000)+" zeta "+strings.Repeat("ü", 3000))
	if got := r.find("zeta").Items[0]; !got.Part || !strings.Contains(got.Text, "é zeta ü") || utf8.RuneCountInString(got.Text) != leastRoom {
		t.Errorf("%q", got.Text)
	}
	r.theirs("/end", strings.Repeat("a line\n", 500)+"eta\n")
	if got := r.find("eta").Items[0]; !strings.HasPrefix(got.Text, "a line\n") || !strings.HasSuffix(got.Text, "a line\neta") || utf8.RuneCountInString(got.Text) < leastRoom-10 {
		t.Errorf("%q", got.Text)
	}
}

// TestRecallOddLimits: limits that cannot be obeyed cost the answer nothing, and it says so. It is
// degraded only if something is left out that they have room for.
func TestRecallOddLimits(t *testing.T) {
	r := newRig(t, nil)
	for i := range 30 {
		r.theirs(fmt.Sprintf("/f%02d", i), "needle")
	}
	hold := func(l Limits, items, notes, reasons int) {
		t.Helper()
		got := r.Recall(t.Context(), Request{QueryText: "needle", Limits: l})
		d := got.Diagnostics
		if len(got.Items) != items || len(d.Notes) != notes || len(d.Reasons) != reasons || d.Degraded != (reasons > 0) || (d.Retry == Never) != (reasons > 0) {
			t.Errorf("%+v: %d items, %+v", l, len(got.Items), d)
		}
	}
	hold(Limits{}, 20, 0, 0)
	hold(Limits{MaxItems: -1}, 20, 1, 0)
	hold(Limits{MaxItems: -1 << 62, MaxChars: -5}, 20, 2, 0)
	hold(Limits{MaxItems: MostItems + 1}, 30, 1, 0)
	hold(Limits{MaxItems: MostItems, MaxChars: MostChars}, 30, 0, 0)
	hold(Limits{MaxItems: 1 << 40, MaxChars: 1 << 60}, 30, 2, 0)
	for i := range MostItems {
		r.theirs(fmt.Sprintf("/more%03d", i), "needle")
	}
	hold(Limits{MaxItems: MostItems}, MostItems, 0, 0)
	hold(Limits{MaxItems: MostItems + 1}, MostItems, 0, 1)
}

// TestRecallLimits: whatever memories hold, there are never more items or characters than were
// asked for, and as many as there can be.
func TestRecallLimits(t *testing.T) {
	r := newRig(t, nil)
	alphabet := []string{"word ", "é", "𝒳", "\n", "needle ", "日本", "a\u0301", "\u200d"}
	rapid.Check(t, func(rt *rapid.T) {
		texts := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) string {
			return "needle " + strings.Join(rapid.SliceOfN(rapid.SampledFrom(alphabet), 0, 300).Draw(rt, "text"), "")
		}), 1, 8).Draw(rt, "texts")
		for i, text := range texts {
			r.theirs(fmt.Sprintf("/f%d", i), text)
		}
		l := Limits{MaxItems: rapid.IntRange(1, 10).Draw(rt, "items"), MaxChars: rapid.IntRange(1, 2000).Draw(rt, "chars")}
		got := r.Recall(context.Background(), Request{QueryText: "needle", Limits: l})
		chars := 0
		for _, one := range got.Items {
			if !utf8.ValidString(one.Text) || one.Text == "" {
				rt.Fatalf("the text is %q", one.Text)
			}
			chars += utf8.RuneCountInString(one.Text)
		}
		if len(got.Items) > l.MaxItems || chars > l.MaxChars || len(got.Items) == 0 {
			rt.Fatalf("%d items of %d characters, limits are %+v", len(got.Items), chars, l)
		}
		if len(got.Items) < min(l.MaxItems, len(texts)) && l.MaxChars-chars >= leastCut {
			rt.Fatalf("%d items of %d characters, and there are more; limits are %+v", len(got.Items), chars, l)
		}
	})
}

// TestRecallIsExact: texts fill what there is for them to the last character.
func TestRecallIsExact(t *testing.T) {
	r := newRig(t, nil)
	for i := range 40 {
		r.theirs(fmt.Sprintf("/f%02d", i), "needle"+strings.Repeat("é", 1000))
	}
	for _, test := range []struct {
		limits       Limits
		items, chars int
	}{
		{Limits{}, 20, 8000},
		{Limits{MaxItems: 3}, 3, 3018},
		{Limits{MaxChars: 7}, 1, 7},
		{Limits{MaxItems: 2, MaxChars: 439}, 1, 400},
		{Limits{MaxItems: 2, MaxChars: 440}, 2, 440},
		{Limits{MaxItems: 1000, MaxChars: 1 << 30}, 40, 40 * 1006},
	} {
		chars := 0
		got := r.Recall(t.Context(), Request{QueryText: "needle" + strings.Repeat("é", 1000), Limits: test.limits})
		for _, one := range got.Items {
			chars += utf8.RuneCountInString(one.Text)
		}
		if len(got.Items) != test.items || chars != test.chars {
			t.Errorf("%+v: %d items of %d characters, want %d of %d", test.limits, len(got.Items), chars, test.items, test.chars)
		}
	}
}

// TestRecallManyWords: of a long text the first words are searched for, which is said.
func TestRecallManyWords(t *testing.T) {
	r := newRig(t, nil)
	r.theirs("/f", "word127 word128")
	var text strings.Builder
	for i := range 130 {
		fmt.Fprintf(&text, "word%d ", i)
	}
	got := r.find(text.String())
	if d := got.Diagnostics; len(got.Items) != 1 || !d.Degraded || d.Reasons[0] != "too many words: the first 128 different words of query_text were searched for, and 2 not" {
		t.Errorf("%s", show(got))
	}
	r.found("word129 word128", "/f")
	r.found("word129", "")
}

// TestRecallPrunes: of more candidates than are kept the best are.
func TestRecallPrunes(t *testing.T) {
	r := newRig(t, nil)
	var best versionlog.Version
	for i := range maxFound + 100 {
		if i == maxFound/2 {
			best = r.theirs("/best", "needle needle needle")
		}
		r.theirs(fmt.Sprintf("/f%d", i), "a needle in other words")
	}
	got := r.find("needle")
	if c := got.Diagnostics.Coverage; got.Items[0].Version != best.ID || got.Items[1].Path != fmt.Sprintf("/f%d", maxFound+99) || c.Searched != maxFound+101 {
		t.Errorf("the first is %s; %+v", got.Items[0].Path, c)
	}
}

// TestRecallOfDeletedStore: what does not come back is not to be tried again, by any method.
func TestRecallOfDeletedStore(t *testing.T) {
	r := newRig(t, &rigOptions{stores: []string{"notes", "books:ro"}})
	r.theirs("/a.md", "a needle")
	r.must(r.lib.DeleteStore(t.Context(), r.stores[0].Info().ID))
	d := r.find("needle").Diagnostics
	if !d.Degraded || d.Retry != Never || d.Reasons[0] != "not_found: store notes is not there" {
		t.Errorf("recall: %s", show(d))
	}
	got := r.Remember(t.Context(), turnOne("t", "1", "text"))
	r.result(got, Refused, 0, "not_found: store notes is not there")
	if got.Diagnostics.Retry != Never {
		t.Errorf("remember: %s", show(got))
	}
	_, err := r.stores[1].Write(t.Context(), "/b.md", []byte("damaged"), versionlog.ExpectAny())
	r.must(err)
	r.must(r.blobs.Delete(t.Context(), cas.Sum([]byte("damaged"))))
	if d := r.find("needle").Diagnostics; len(d.Reasons) != 2 || d.Retry != Later {
		t.Errorf("recall, with a memory that cannot be read beside: %s", show(d))
	}
}
