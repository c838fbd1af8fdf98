package tools

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"mneme/errkind"
	"mneme/internal/testing/logfault"
	"mneme/memory"
	"mneme/versionlog"
)

// TestIndex: whatever is committed before, while and after an index is loaded, it has the
// heads of the store.
func TestIndex(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := newRig(t, nil)
		st := r.stores[0]
		change := func() {
			path := "/" + rapid.SampledFrom([]string{"a", "a-b", "a/x", "a/y", "b/x", "b/c/d"}).Draw(rt, "path")
			switch rapid.IntRange(0, 3).Draw(rt, "change") {
			case 0:
				_, _ = st.RemoveTree(t.Context(), path, nil, nil)
			case 1:
				_, _ = st.Rename(t.Context(), path, path+"2", nil)
			case 2:
				_, _ = st.MakeDir(t.Context(), path+"dir", versionlog.ExpectAny(), nil)
			default:
				_, _ = st.Write(t.Context(), path, fmt.Append(nil, rapid.IntRange(0, 9).Draw(rt, "text")), versionlog.ExpectAny())
			}
		}
		for range rapid.IntRange(0, 4).Draw(rt, "before") {
			change()
		}
		x := r.places[0]
		for range rapid.IntRange(0, 3).Draw(rt, "during") {
			r.log.Next(logfault.AfterPage, change)
		}
		for range 3 {
			got, err := x.idx.sync(t.Context())
			r.must(err)
			r.log.Forget()
			if err := sameHeads(t, st, got); err != nil {
				rt.Fatal(err)
			}
			for range rapid.IntRange(0, 3).Draw(rt, "after") {
				change()
			}
			if rapid.IntRange(0, 3).Draw(rt, "redact") == 0 {
				r.redactAll(st)
			}
		}
	})
}

// TestIndexRedacted: an index that meets versions which were erased before it has seen them has
// the heads of the store all the same.
func TestIndexRedacted(t *testing.T) {
	r := newRig(t, nil)
	st, x := r.stores[0], r.places[0]
	for _, path := range []string{"/kept", "/removed", "/moved", "/changed"} {
		r.theirs(path, "x")
	}
	_, err := x.idx.sync(t.Context())
	r.must(err)
	_, err = st.Remove(t.Context(), "/removed", versionlog.ExpectAny())
	r.must(err)
	_, err = st.Rename(t.Context(), "/moved", "/there", nil)
	r.must(err)
	r.theirs("/there", "y")
	r.theirs("/changed", "y")
	r.theirs("/changed", "z")
	r.redactAll(st)
	got, err := x.idx.sync(t.Context())
	r.must(err)
	r.must(sameHeads(t, st, got))
}

// redactAll erases each version of a store that can be, also those that were not followed yet.
func (r *rig) redactAll(st *memory.Store) {
	r.Helper()
	info := st.Info()
	for c, err := range st.Commits(r.Context(), 0) {
		r.must(err)
		for _, v := range c.Versions {
			_, err := r.log.Commit(r.Context(), info.ID, &versionlog.Proposal{
				Key: versionlog.NewKey(), Actor: versionlog.Actor{Kind: versionlog.ActorUser, ID: "other"}, Message: "a test", Epoch: info.Epoch, Event: versionlog.StoreRedacted(v.ID),
			})
			if err != nil && !errors.Is(err, versionlog.ErrLiveHead) {
				r.must(err)
			}
		}
	}
}

// sameHeads compares an index with the heads of the store now, unless that has commits above
// it.
func sameHeads(t *testing.T, st *memory.Store, got *snapshot) error {
	t.Helper()
	var want, have []string
	for v, err := range st.Tree(t.Context(), "/") {
		if err != nil {
			return err
		}
		want = append(want, v.Path+" "+v.ID)
	}
	for _, h := range got.heads {
		have = append(have, h.Path()+" "+h.ID())
	}
	if tip, err := st.Tip(t.Context()); err != nil || tip.Seq != got.tip.Seq {
		return fmt.Errorf("it is of commit %d, and there are %d: %w", got.tip.Seq, tip.Seq, err)
	}
	if !slices.Equal(have, want) {
		return fmt.Errorf("it has %v, the store %v", have, want)
	}
	return nil
}

// TestIndexIsCheap: an index that is up to date asks for nothing.
func TestIndexIsCheap(t *testing.T) {
	r := newRig(t, nil)
	r.theirs("/f", "x")
	r.do("Here're", "view", "path", "/memories")
	r.log.SetKnowsTip(true)
	r.log.ResetReads()
	r.log.Each(logfault.BeforeTip, func() { t.Error("it asks for the tip") })
	allocs := testing.AllocsPerRun(20, func() { r.do("Here're", "view", "path", "/memories") })
	if r.log.Reads() != 0 || allocs > 150 {
		t.Errorf("a listing reads %d heads and allocates %v times", r.log.Reads(), allocs)
	}
}

// TestIndexRewritten: a history that is not the one that was there is told, and the next call
// takes what is there.
func TestIndexRewritten(t *testing.T) {
	r := newRig(t, nil)
	r.theirs("/f", "x")
	r.do("Here're", "view", "path", "/memories")
	x := &r.places[0].idx
	other := *x.now.Load()
	other.tip.Digest[0]++
	x.now.Store(&other)
	got := r.fail("Error: What the store has at /memories is damaged. Trying again does not help; tell a person.", "view", "path", "/memories")
	if got.Error.Kind != errkind.Rewritten || got.Error.Retry != Never {
		t.Errorf("%+v", got.Error)
	}
	r.do("Here're", "view", "path", "/memories")
	x.now.Store(&other)
	r.theirs("/g", "x")
	r.fail("Error: What the store has at /memories is damaged.", "view", "path", "/memories")
}

// TestListing: a listing is what a plain walk over the paths makes, whatever they are.
func TestListing(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := newRig(t, nil)
		names := []string{"a", "a-b", "a.b", "b", ".h", "node_modules", "Z", "é"}
		sizes := map[string]int64{}
		for range rapid.IntRange(0, 12).Draw(rt, "files") {
			var path string
			for range rapid.IntRange(1, 4).Draw(rt, "depth") {
				path += "/" + rapid.SampledFrom(names).Draw(rt, "name")
			}
			size := rapid.IntRange(0, 3000).Draw(rt, "size")
			if _, err := r.stores[0].Write(t.Context(), path, []byte(strings.Repeat("x", size)), versionlog.ExpectAny()); err == nil {
				sizes[path] = int64(size)
			}
		}
		got := r.call("view", "path", "/memories").Text
		_, got, _ = strings.Cut(got+"\n", "\n")
		if want := walked(sizes, "", 0); got != want {
			rt.Fatalf("of %v the listing is\n%swant\n%s", sizes, got, want)
		}
	})
}

// walked is a listing, made plainly.
func walked(sizes map[string]int64, dir string, level int) string {
	var total int64
	below := map[string]bool{}
	for path, size := range sizes {
		if path == dir || strings.HasPrefix(path, dir+"/") {
			total += size
		}
		if rest, ok := strings.CutPrefix(path, dir+"/"); ok {
			name, _, _ := strings.Cut(rest, "/")
			below[name] = true
		}
	}
	out := fmt.Sprintf("%s\t/memories%s\n", Documentation.size(total), dir)
	if level == listedLevels {
		return out
	}
	for _, name := range slices.Sorted(maps.Keys(below)) {
		if name[0] != '.' && name != "node_modules" {
			out += walked(sizes, dir+"/"+name, level+1)
		}
	}
	return out
}

func TestSizes(t *testing.T) {
	for size, want := range map[int64][2]string{
		0: {"0B", "0B"}, 1023: {"1023B", "1023B"}, 1024: {"1.0K", "1K"}, 1500: {"1.5K", "1.5K"}, 4096: {"4.0K", "4K"}, 1 << 20: {"1.0M", "1M"}, 1258291: {"1.2M", "1.2M"}, 3 << 30: {"3.0G", "3G"},
	} {
		if got := [2]string{Documentation.size(size), SDK.size(size)}; got != want {
			t.Errorf("%d: %v, want %v", size, got, want)
		}
	}
}

// TestViewsAreCut: what does not fit into a view says how to go on, and going on shows all.
func TestViewsAreCut(t *testing.T) {
	r := newRig(t, &rigOptions{create: storeOptions{MaxMemoryBytes: 2 << 20}})
	var text strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&text, "line %d é\n", i+1)
	}
	r.theirs("/f", text.String())
	var seen strings.Builder
	for from := 1; ; {
		got := r.do("Here's the content of /memories/f with line numbers:\n", "view", "path", "/memories/f", "view_range", []int{from, -1}).Text
		_, lines, _ := strings.Cut(got, "\n")
		lines, cut, more := strings.Cut(lines, "\n\n[The view ends here, at line ")
		for line := range strings.SplitSeq(lines, "\n") {
			_, line, _ = strings.Cut(line, "\t")
			seen.WriteString(line + "\n")
		}
		if n := len([]rune(got[:len(got)-len(cut)])) - len("\n\n[The view ends here, at line "); n > 16_000 || more && n < 15_980 {
			t.Errorf("a view has %d characters", n)
		}
		if !more {
			break
		}
		var last, total, next, again int
		if _, err := fmt.Sscanf(cut, "%d of %d. Go on with view_range [%d, %d].]", &last, &total, &next, &again); err != nil || total != 5001 || next != last+1 || again != total || last < from {
			t.Fatalf("it ends with %q: %v", cut, err)
		}
		from = next
	}
	if seen.String() != text.String()+"\n" {
		t.Errorf("the views show %d bytes of %d", seen.Len(), text.Len())
	}
	r.theirs("/long", strings.Repeat("é", 20_000)+"\nend")
	got := r.do("Here's", "view", "path", "/memories/long").Text
	if !strings.HasSuffix(got, "\n\n[Line 1 has 4063 characters more, which a view does not show.]\n\n[The view ends here, at line 1 of 2. Go on with view_range [2, 2].]") {
		t.Errorf("a long line ends with %q", got[len(got)-150:])
	}
	for i := range 1000 {
		r.theirs(fmt.Sprintf("/d/%04d-a-long-name-of-a-file", i), "x")
	}
	got = r.do("Here're", "view", "path", "/memories").Text
	if !strings.Contains(got, " more entries are not shown. View a directory below, such as /memories/d.]") || len(got) > 16_200 {
		t.Errorf("a listing of %d bytes ends with %q", len(got), got[len(got)-150:])
	}
	r.theirs("/lines", strings.Repeat("\n", 1_000_000))
	r.fail("File /memories/lines exceeds maximum line limit of 999,999 lines.", "view", "path", "/memories/lines")
}

// TestManyMatches: however often a text occurs, the error names so many lines only, and takes
// no longer than reading the file.
func TestManyMatches(t *testing.T) {
	r := newRig(t, &rigOptions{create: storeOptions{MaxMemoryBytes: 1 << 22}})
	r.theirs("/lines", strings.Repeat("x\n", 1<<20))
	got := r.fail("No replacement was performed. Multiple occurrences of old_str `x` in lines: 1, 2, 3, ", "str_replace", "path", "/memories/lines", "old_str", "x")
	if want := ", 99, 100, …. Please ensure it is unique"; !strings.HasSuffix(got.Text, want) {
		t.Errorf("it ends in %q, want %q", got.Text[len(got.Text)-50:], want)
	}
	r.theirs("/hundred", strings.Repeat("x x\n", 100))
	got = r.fail("No replacement", "str_replace", "path", "/memories/hundred", "old_str", "x")
	if want := ", 99, 100. Please ensure it is unique"; !strings.HasSuffix(got.Text, want) {
		t.Errorf("it ends in %q, want %q", got.Text[len(got.Text)-50:], want)
	}
	r.theirs("/line", strings.Repeat("x", 1<<22))
	r.fail("No replacement was performed. Multiple occurrences of old_str `xxx", "str_replace", "path", "/memories/line", "old_str", strings.Repeat("x", 1<<19))
}

// TestPictures: a picture is shown as one; other bytes that are no text are not shown.
func TestPictures(t *testing.T) {
	r := newRig(t, &rigOptions{create: anyContent})
	png := "\x89PNG\r\n\x1a\n" + strings.Repeat("\x00", 20)
	r.theirs("/a.PNG", png)
	r.theirs("/text.png", "no picture")
	r.theirs("/b.bin", png)
	got := r.do("Here's", "view", "path", "/memories/a.PNG")
	if got.Image == nil || got.Image.MediaType != "image/png" || string(got.Image.Data) != png {
		t.Errorf("%+v", got.Image)
	}
	if got := r.do("Here's", "view", "path", "/memories/text.png"); got.Image != nil || !strings.Contains(got.Text, "no picture") {
		t.Errorf("%+v", got)
	}
	r.fail("Error: File /memories/b.bin is not text.", "view", "path", "/memories/b.bin")
}
