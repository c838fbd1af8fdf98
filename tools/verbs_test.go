package tools

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"mneme/errkind"
	"mneme/memory"
	"mneme/session"
	"mneme/versionlog"
)

// wantError fails the test unless err is an *Error of a kind, whose text begins so.
func wantError(t *testing.T, err error, kind errkind.Kind, text string) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Kind != kind || !strings.HasPrefix(e.Error(), text) {
		t.Errorf("error %v, want %v: %s", err, kind, text)
	}
}

// TestList: pages put together are the whole, and what is deeper is one directory.
func TestList(t *testing.T) {
	r := newRig(t, &rigOptions{stores: []string{"a", "a-a", "a-b"}})
	for _, path := range []string{"/x/y/z/1", "/x/y/2", "/x-y/3", "/.h", "/b"} {
		r.theirs(path, "12345")
	}
	_, err := r.stores[0].Write(t.Context(), "/x/y/z/4/5", []byte("12"), memoryAny)
	r.must(err)
	_, err = r.stores[0].MakeDir(t.Context(), "/empty", memoryAny, nil)
	r.must(err)
	_, err = r.stores[2].Write(t.Context(), "/f", nil, memoryAny)
	r.must(err)
	list := func(q ListQuery) (rows []string) {
		for pages := 0; ; pages++ {
			page, err := r.List(t.Context(), q)
			r.must(err)
			for _, e := range page.Entries {
				row := fmt.Sprintf("%s %d", strings.TrimPrefix(e.Path, Root), e.Size)
				if e.IsDir {
					row += fmt.Sprintf(" in %d", e.Files)
				} else if e.Version == "" || e.Seq == 0 || e.Updated.IsZero() {
					t.Errorf("%+v", e)
				}
				rows = append(rows, row)
			}
			if q.After = page.Next; q.After == "" || pages > 20 {
				return rows
			}
		}
	}
	for _, test := range []struct {
		q    ListQuery
		want string
	}{
		{ListQuery{}, "/a/.h 5|/a/b 5|/a/empty 0 in 0|/a/x-y 5 in 1|/a/x 12 in 3|/a-a 0 in 0|/a-b/f 0"},
		{ListQuery{Depth: 1}, "/a 27 in 6|/a-a 0 in 0|/a-b 0 in 1"},
		{ListQuery{Path: "/memories/a/x", Depth: 1}, "/a/x/y 12 in 3"},
		{ListQuery{Path: "/memories/a/x", Depth: 10}, "/a/x/y/2 5|/a/x/y/z/1 5|/a/x/y/z/4/5 2"},
		{ListQuery{Path: "/memories/a/b"}, "/a/b 5"},
		{ListQuery{Path: "/memories/a-b"}, "/a-b/f 0"},
	} {
		if got := strings.Join(list(test.q), "|"); got != test.want {
			t.Errorf("%+v: %s, want %s", test.q, got, test.want)
		}
		test.q.Limit = 1
		if got := strings.Join(list(test.q), "|"); got != test.want {
			t.Errorf("in pages, %+v: %s, want %s", test.q, got, test.want)
		}
	}
	_, err = r.List(t.Context(), ListQuery{Path: "/memories/none"})
	wantError(t, err, errkind.NotFound, "The path /memories/none does not exist.")
	_, err = r.List(t.Context(), ListQuery{Limit: -1})
	wantError(t, err, errkind.Invalid, "Error: The request is refused")
	below, err := r.Below(t.Context(), "/memories/a/x")
	if err != nil || len(below) != 3 || below[0].Path != "/memories/a/x/y/2" || below[0].Version == "" {
		t.Errorf("%+v, %v", below, err)
	}
}

// TestRead: a read of the newest version is one of the session, and long files come in parts.
func TestRead(t *testing.T) {
	r := newRig(t, nil)
	first := r.theirs("/f", "one\ntwo\n")
	r.theirs("/f", "one\ntwo\nthree")
	old, err := r.Read(t.Context(), ReadQuery{Path: "/memories/f", Version: "1"})
	r.must(err)
	if old.Text != "one\ntwo\n" || old.Version != first.ID || old.Seq != 1 || old.Op != "created" || old.From != 1 || old.To != 2 || old.Of != 2 {
		t.Errorf("%+v", old)
	}
	if r.sessions[0].Known().Of("/f").IsKnown() {
		t.Error("an old version makes the file known")
	}
	page, err := r.Read(t.Context(), ReadQuery{Path: "/memories/f", Version: "2", FromLine: 2, Lines: 1})
	r.must(err)
	if page.Text != "two\n" || page.From != 2 || page.To != 2 || page.Of != 3 || !r.sessions[0].Known().Of("/f").IsKnown() {
		t.Errorf("%+v", page)
	}
	for chars, want := range map[int]string{3: "one", 4: "one\n", 9: "one\ntwo\n", 0: "one\ntwo\nthree"} {
		if page, err := r.Read(t.Context(), ReadQuery{Path: "/memories/f", MaxChars: chars}); err != nil || page.Text != want {
			t.Errorf("%d characters: %+v, %v", chars, page, err)
		}
	}
	_, err = r.Read(t.Context(), ReadQuery{Path: "/memories/none"})
	wantError(t, err, errkind.NotFound, "The path /memories/none does not exist.")
	r.theirs("/d/x", "x")
	for _, path := range []string{"/memories", "/memories/d"} {
		for _, version := range []string{"", "1"} {
			_, err = r.Read(t.Context(), ReadQuery{Path: path, Version: version})
			wantError(t, err, errkind.Invalid, "Error: "+path+" is a directory, not a file. View or list it")
		}
		_, _, err = r.Content(t.Context(), path)
		wantError(t, err, errkind.Invalid, "Error: "+path+" is a directory, not a file.")
	}
	_, err = r.Read(t.Context(), ReadQuery{Path: "/memories/f", Version: "x"})
	wantError(t, err, errkind.Invalid, "Error: The request is refused: version does not fit")
}

// TestWrite: a write has the session's condition or its own, and a removal of several is of
// all or none.
func TestWrite(t *testing.T) {
	r := newRig(t, nil)
	write := func(text, ifVersion string) (Made, error) {
		return r.Write(t.Context(), WriteQuery{Path: "/memories/f", Text: NewSecret(text), IfVersion: ifVersion, Message: "why"})
	}
	made, err := write("one", IfNone)
	r.must(err)
	if made.Path != "/memories/f" || !made.Created || made.Seq != 1 {
		t.Errorf("%+v", made)
	}
	_, err = write("x", IfNone)
	wantError(t, err, errkind.Conflict, fmt.Sprintf(`Error: /memories/f is not what was expected: version 1 (%s) by session "mine" is there now. View it, and base your change on that.`, made.Version))
	_, err = r.Write(t.Context(), WriteQuery{Path: "/memories/none", Text: NewSecret("x"), IfVersion: "7"})
	wantError(t, err, errkind.Conflict, "Error: /memories/none is not what was expected: nothing is there now.")
	_, err = write("x\x00", made.Version)
	wantError(t, err, errkind.Invalid, "Error: The field `text` has the character U+0000, which a view cannot show; leave it out.")
	made, err = write("two", made.Version)
	r.must(err)
	if made, err = write("three", "2"); err != nil || made.Seq != 3 || made.Created {
		t.Errorf("%+v, %v", made, err)
	}
	_, err = write("x", "2")
	wantError(t, err, errkind.Conflict, "Error: /memories/f is not")
	_, err = write("x", "yesterday")
	wantError(t, err, errkind.Invalid, "Error: The request is refused: version does not fit: \"yesterday\"")
	r.theirs("/f", "theirs")
	_, err = write("mine", "")
	wantError(t, err, errkind.Conflict, "Error: /memories/f changed since you read it")
	r.kept("mine")
	_, err = r.Write(t.Context(), WriteQuery{Path: "/memories/f/g", Text: NewSecret("x")})
	wantError(t, err, errkind.Overlap, "Error: The path /memories/f is a file, not a directory.")
	r.theirs("/g", "x")
	_, err = r.Memory.Remove(t.Context(), []string{"/memories/g", "/memories/f"})
	wantError(t, err, errkind.Conflict, "Error: /memories/f changed since you read it")
	_, err = r.Memory.Remove(t.Context(), []string{"/memories/g", "/memories/none"})
	wantError(t, err, errkind.NotFound, "Error: The path /memories/none does not exist")
	r.holds("/g", "x")
	r.do("Here's", "view", "path", "/memories/f")
	removed, err := r.Memory.Remove(t.Context(), []string{"/memories/g", "/memories/f"})
	if err != nil || len(removed) != 2 || removed[0].Seq != removed[1].Seq {
		t.Errorf("%+v, %v", removed, err)
	}
}

// TestHistory: the versions of a file and of a directory, their differences, and what was
// deleted comes back.
func TestHistory(t *testing.T) {
	r := newRig(t, nil)
	r.theirs("/d/f", "one\n")
	r.theirs("/d/f", "two\n")
	r.theirs("/d/g", "x")
	r.must(remove(r, "/d/f"))
	seqs := func(q HistoryQuery) (all []uint64) {
		for pages := 0; pages < 20; pages++ {
			page, err := r.History(t.Context(), q)
			r.must(err)
			for _, v := range page.Versions {
				all = append(all, v.Seq)
			}
			if q.Before = page.Next; q.Before == 0 {
				break
			}
		}
		return all
	}
	for _, test := range []struct {
		q    HistoryQuery
		want []uint64
	}{
		{HistoryQuery{Path: "/memories/d/f"}, []uint64{4, 2, 1}},
		{HistoryQuery{Path: "/memories/d/f", Limit: 1}, []uint64{4, 2, 1}},
		{HistoryQuery{Path: "/memories/d/f", Before: 2}, []uint64{1}},
		{HistoryQuery{Path: "/memories/d", Limit: 2}, []uint64{4, 3, 2, 1}},
		{HistoryQuery{}, []uint64{4, 3, 2, 1}},
	} {
		if got := seqs(test.q); !slices.Equal(got, test.want) {
			t.Errorf("%+v: %v, want %v", test.q, got, test.want)
		}
	}
	_, err := r.History(t.Context(), HistoryQuery{Path: "/memories/none"})
	wantError(t, err, errkind.NotFound, "The path /memories/none does not exist.")
	const noThird = "Error: There is no version 3 of /memories/d/f; the newest are 4, 2, 1."
	_, err = r.Read(t.Context(), ReadQuery{Path: "/memories/d/f", Version: "3"})
	wantError(t, err, errkind.NotFound, noThird)
	_, err = r.Restore(t.Context(), "/memories/d/f", "3")
	wantError(t, err, errkind.NotFound, noThird)
	_, err = r.Diff(t.Context(), "/memories/d/f", "3", "2")
	wantError(t, err, errkind.NotFound, noThird)
	head, err := r.stores[0].Head(t.Context(), "/d/g")
	r.must(err)
	id := []byte(head.ID)
	id[15] = '0' + (id[15]+1)%2 // of random bits
	elsewhere := string(id)
	_, err = r.Read(t.Context(), ReadQuery{Path: "/memories/d/f", Version: elsewhere})
	wantError(t, err, errkind.NotFound, "Error: There is no version "+elsewhere+" of /memories/d/f; the newest are 4, 2, 1.")
	d, err := r.Diff(t.Context(), "/memories/d/f", "1", "2")
	r.must(err)
	if !strings.Contains(d.Text, "-one\n+two\n") || d.From.Seq != 1 || d.To.Seq != 2 || d.Cut {
		t.Errorf("%+v", d)
	}
	if again, err := r.Diff(t.Context(), "/memories/d/f", "", "2"); err != nil || again != d {
		t.Errorf("%+v, %v", again, err)
	}
	made, err := r.Restore(t.Context(), "/memories/d/f", "1")
	if err != nil || made.Seq != 5 {
		t.Errorf("%+v, %v", made, err)
	}
	r.holds("/d/f", "one\n")
	r.theirs("/d/f", "theirs\n")
	_, err = r.Restore(t.Context(), "/memories/d/f", "2")
	wantError(t, err, errkind.Conflict, "Error: /memories/d/f changed since you read it")
	r.holds("/d/f", "theirs\n")
	r.kept()
}

// TestConflicts: what is kept can be read and settled.
func TestConflicts(t *testing.T) {
	r := newRig(t, &rigOptions{stores: []string{"docs", "notes"}, ro: []string{"docs"}})
	st := r.stores[1]
	for i := range 3 {
		path := fmt.Sprintf("/f%d", i)
		_, err := st.Write(t.Context(), path, []byte("base"), memoryAny)
		r.must(err)
		r.do("Here's", "view", "path", "/memories/notes"+path)
		_, err = st.Write(t.Context(), path, []byte("theirs"), memoryAny)
		r.must(err)
		_, err = r.Write(t.Context(), WriteQuery{Path: "/memories/notes" + path, Text: NewSecret("mine")})
		wantError(t, err, errkind.Conflict, "Error: /memories/notes"+path+" changed")
	}
	list, err := r.Conflicts(t.Context(), "notes")
	if err != nil || len(list) != 3 {
		t.Errorf("%+v, %v", list, err)
	}
	kept, err := r.Conflict(t.Context(), "notes", 1)
	if err != nil || string(kept.Texts.Base)+string(kept.Texts.Theirs)+string(kept.Texts.Yours)+string(kept.NowText) != "basetheirsminetheirs" || kept.Now.Version != kept.About.Theirs.Version {
		t.Errorf("%+v, %v", kept, err)
	}
	made, err := r.Resolve(t.Context(), "notes", 1, session.Resolution{Take: session.Yours}, "")
	if err != nil || made.Path != "/memories/notes/f0" {
		t.Errorf("%+v, %v", made, err)
	}
	_, err = r.Resolve(t.Context(), "notes", 2, session.Resolution{Take: session.Merged}, "")
	wantError(t, err, errkind.Conflict, "Error: Conflict 2 cannot be merged")
	r.must(r.Dismiss(t.Context(), "notes", 2))
	wantError(t, r.Dismiss(t.Context(), "notes", 9), errkind.NotFound, "Error: There is no conflict 9 of /memories/notes.")
	_, err = r.Conflicts(t.Context(), "docs")
	wantError(t, err, errkind.ReadOnly, "Error: /memories/docs is read-only here")
	_, err = r.Conflicts(t.Context(), "none")
	wantError(t, err, errkind.NotFound, "Error: There is no store none; the stores are docs and notes.")
	for _, store := range []string{"notes", "/memories/notes", ""} { // which is the only one that can be written to
		if list, err := r.Conflicts(t.Context(), store); err != nil || len(list) != 1 || list[0].ID != 3 {
			t.Errorf("%q: %+v, %v", store, list, err)
		}
	}
	_, err = r.Conflict(t.Context(), "", 3)
	r.must(err)
}

// TestConflictOfMovedOn: a conflict whose file has changed since, or has gone, tells what is there
// now, and is settled under the condition that this is there.
func TestConflictOfMovedOn(t *testing.T) {
	for _, name := range []string{"read", "named"} {
		t.Run(name, func(t *testing.T) { conflictOfMovedOn(t, name) })
	}
}

func conflictOfMovedOn(t *testing.T, name string) {
	r := newRig(t, nil)
	for _, path := range []string{"/f", "/gone"} {
		r.theirs(path, "base")
		r.do("Here's", "view", "path", "/memories"+path)
		r.theirs(path, "theirs")
		_, err := r.Write(t.Context(), WriteQuery{Path: "/memories" + path, Text: NewSecret("mine")})
		wantError(t, err, errkind.Conflict, "Error: /memories"+path+" changed since")
	}
	now := r.theirs("/f", "later")
	_, err := r.stores[0].Remove(t.Context(), "/gone", versionlog.ExpectAny())
	r.must(err)
	resolve := func(id int, take session.Take, ifVersion string) (Made, error) {
		return r.Resolve(t.Context(), "", id, session.Resolution{Take: take, Data: []byte("both")}, ifVersion)
	}
	moved := fmt.Sprintf(`Error: Conflict 1 stays: /memories/f has changed since it was kept, version %d (%s) by session "other" is there now. Show the conflict, and resolve it again, or with if_version %[1]d.`, now.Seq, now.ID)
	for _, ifVersion := range []string{"", "1", now.Parent, IfNone} {
		for _, take := range []session.Take{session.Yours, session.Given, session.Theirs, session.Merged} {
			if ifVersion != "" || take == session.Yours || take == session.Given {
				_, err = resolve(1, take, ifVersion)
				wantError(t, err, errkind.Conflict, moved)
			}
		}
	}
	_, err = resolve(1, session.Given, "yesterday")
	wantError(t, err, errkind.Invalid, "Error: The request is refused: version does not fit")
	r.holds("/f", "later")
	kept, err := r.Conflict(t.Context(), "", 1)
	if err != nil || kept.Now == nil || kept.Now.Version != now.ID || string(kept.NowText) != "later" {
		t.Errorf("%+v, %v", kept, err)
	}
	last := r.theirs("/f", "last")
	_, err = resolve(1, session.Given, "")
	wantError(t, err, errkind.Conflict, fmt.Sprintf("Error: Conflict 1 stays: /memories/f has changed since it was kept, version %d", last.Seq))
	if name == "read" {
		_, err = r.Conflict(t.Context(), "", 1)
		r.must(err)
		_, err = resolve(1, session.Given, "")
	} else {
		_, err = resolve(1, session.Given, strconv.FormatUint(last.Seq, 10))
	}
	r.must(err)
	r.holds("/f", "both")

	if kept, err = r.Conflict(t.Context(), "", 2); err != nil || kept.Now != nil {
		t.Errorf("%+v, %v", kept, err)
	}
	_, err = resolve(2, session.Yours, "")
	wantError(t, err, errkind.Conflict, "Error: Conflict 2 stays: /memories/gone has changed since it was kept, nothing is there now. Show the conflict, and resolve it again, or with if_version none.")
	_, err = resolve(2, session.Merged, "")
	wantError(t, err, errkind.NotFound, "Error: Conflict 2 cannot be merged: nothing is at /memories/gone now.")
	_, err = resolve(2, session.Yours, IfNone)
	r.must(err)
	r.holds("/gone", "mine")
	if list, err := r.Conflicts(t.Context(), ""); err != nil || len(list) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
}

// TestWhichStore: of several stores the conflicts are listed together, and one is settled in
// a store that is named.
func TestWhichStore(t *testing.T) {
	r := newRig(t, &rigOptions{stores: []string{"a", "b"}})
	for i, slug := range []string{"a", "b"} {
		_, err := r.stores[i].Write(t.Context(), "/f", []byte("base"), memoryAny)
		r.must(err)
		r.do("Here's", "view", "path", "/memories/"+slug+"/f")
		_, err = r.stores[i].Write(t.Context(), "/f", []byte("theirs"), memoryAny)
		r.must(err)
		_, err = r.Write(t.Context(), WriteQuery{Path: "/memories/" + slug + "/f", Text: NewSecret("mine")})
		wantError(t, err, errkind.Conflict, "")
	}
	list, err := r.Conflicts(t.Context(), "")
	if err != nil || len(list) != 2 || list[0].Store != "a" || list[1].Store != "b" {
		t.Errorf("%+v, %v", list, err)
	}
	wantError(t, r.Dismiss(t.Context(), "", 1), errkind.Invalid, "Error: Say of which store it is: a and b.")
	r.must(r.Dismiss(t.Context(), "/memories/b", 1))
}

// TestFollowErased: a follower hears that anything may have changed where a version was erased before
// it was followed.
func TestFollowErased(t *testing.T) {
	r := newRig(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r.theirs("/gone", "x")
	r.theirs("/from", "x")
	began, changed, ended := make(chan bool), make(chan string), make(chan error, 1)
	go func() {
		ended <- r.Follow(ctx, "notes", func() { close(began) }, func(path string) {
			select {
			case changed <- path:
			case <-ctx.Done():
			}
		})
	}()
	<-began
	_, err := r.stores[0].Rename(ctx, "/from", "/to", nil)
	r.must(err)
	<-changed // the first of two: it waits with the other, and follows no further
	_, err = r.stores[0].Remove(ctx, "/gone", versionlog.ExpectAny())
	r.must(err)
	r.redactAll(r.stores[0])
	r.theirs("/last", "x")
	var heard []string
	for path := ""; path != "/memories/last"; heard = append(heard, path) {
		path = <-changed
	}
	if !slices.Contains(heard, "/memories") {
		t.Errorf("it hears of %q", heard)
	}
	cancel()
	<-ended
}

// TestFollow: a follower is told of every file that changes.
func TestFollow(t *testing.T) {
	r := newRig(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r.theirs("/before", "x")
	changed := make(chan string)
	ended := make(chan error, 1)
	go func() {
		ended <- r.Follow(ctx, "notes", nil, func(path string) {
			select {
			case changed <- path:
			case <-ctx.Done():
			}
		})
	}()
	for i, told := 0, false; !told; i++ { // it begins at the tip of when it is called
		r.theirs("/f", fmt.Sprint(i))
		select {
		case path := <-changed:
			if told = true; path != "/memories/f" {
				t.Errorf("%s has changed", path)
			}
		case <-time.After(time.Millisecond):
		}
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := r.Follow(t.Context(), "none", nil, nil); !errors.Is(err, memory.ErrNoStore) {
		t.Error(err)
	}
}

// TestErasedIsTold: a version that was erased on purpose is told as one, and not as a file that is not there.
func TestErasedIsTold(t *testing.T) {
	r := newRig(t, nil)
	v := r.theirs("/f", "secret\n")
	r.theirs("/f", "clean\n")
	r.redactAll(r.stores[0])
	erased := "Error: The content of version " + v.ID + " of /memories/f was erased, and nobody can"
	_, err := r.Read(t.Context(), ReadQuery{Path: "/memories/f", Version: "1"})
	wantError(t, err, errkind.NotFound, erased)
	_, err = r.Restore(t.Context(), "/memories/f", v.ID)
	wantError(t, err, errkind.NotFound, erased)
	_, err = r.Diff(t.Context(), "/memories/f", "", "")
	wantError(t, err, errkind.NotFound, erased)
	page, err := r.History(t.Context(), HistoryQuery{Path: "/memories/f"})
	r.must(err)
	if n := len(page.Versions); n != 2 || page.Versions[0].Erased || !page.Versions[1].Erased || page.Versions[1].Path != "" {
		t.Errorf("%+v", page.Versions)
	}
}
