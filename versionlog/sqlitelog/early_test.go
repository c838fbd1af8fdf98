package sqlitelog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mneme/versionlog"
)

// inSlices is how many slices the commits of tests have, and fewest how many memories they move or
// remove, at least.
const (
	inSlices = 3
	fewest   = draftFrom + 20
)

// earlyLog is a log with a store whose directory is moved by a commit that is written early.
type earlyLog struct {
	*Log
	dir   string
	store versionlog.Store
}

func newEarlyLog(t *testing.T, memories int) *earlyLog {
	t.Helper()
	defer func(slice int, between func()) {
		t.Cleanup(func() { earlySlice, betweenEarly = slice, between })
	}(earlySlice, betweenEarly)
	earlySlice, betweenEarly = memories/inSlices, func() {}
	dir := t.TempDir()
	l := &earlyLog{Log: openTest(t, dir, nil), dir: dir}
	l.store = addStore(t, l.Log, "s")
	p := &versionlog.Proposal{Key: versionlog.NewKey(), Fresh: true}
	for i := range memories {
		content := strings.Repeat(fmt.Sprint("content ", i, "\n"), 50)
		p.Changes = append(p.Changes, withContent(fmt.Sprintf("/a/%03d", i), content, versionlog.ExpectAny()).Changes...)
	}
	if _, err := l.Commit(t.Context(), l.store.ID, p); err != nil {
		t.Fatal(err)
	}
	return l
}

// move is a proposal that moves what is in a directory, and in directory a removes each tenth.
func move(memories int, from, to string) *versionlog.Proposal {
	p := &versionlog.Proposal{Key: versionlog.NewKey(), Fresh: true}
	for i := range memories {
		c := versionlog.Change{Action: versionlog.Rename, Path: fmt.Sprintf("/%s/%03d", from, i), To: fmt.Sprintf("/%s/%03d", to, i), Expect: versionlog.ExpectAny()}
		switch {
		case i%10 != 0:
		case from == "a":
			c.Action, c.To = versionlog.Remove, ""
		default:
			continue
		}
		p.Changes = append(p.Changes, c)
	}
	return p
}

// sound reports what fsck finds, and which rows are still early.
func (l *earlyLog) sound(t *testing.T) {
	t.Helper()
	report := func(p Problem) { t.Errorf("%+v", p) }
	if err := errors.Join(l.CheckDatabase(t.Context(), report), l.Check(t.Context(), l.store.ID, report)); err != nil {
		t.Error(err)
	}
	if left := l.early(t); len(left) > 0 {
		t.Errorf("early are %v", left)
	}
}

// early returns the notes and the versions that are early.
func (l *earlyLog) early(t *testing.T) []string {
	t.Helper()
	return texts(t, raw(t, l.dir), `SELECT 'note ' || id FROM early UNION ALL
		SELECT v.id FROM versions v WHERE v.seq > coalesce((SELECT tip_seq FROM stores WHERE num = v.store), 0)`)
}

// reads returns all that readers are told of a store, and what a check finds.
func reads(t *testing.T, l *Log, storeID string) (found []string) {
	t.Helper()
	ctx := t.Context()
	add := func(what string, value any, err error) {
		found = append(found, fmt.Sprintf("%s: %+v, %v", what, value, err))
	}
	versions := func(what string) func(versionlog.Version, error) bool {
		return func(v versionlog.Version, err error) bool {
			add(what, v, err)
			return true
		}
	}
	tip, err := l.Tip(ctx, storeID)
	add("tip", tip, err)
	l.Heads(ctx, storeID, "/", "")(versions("heads"))
	for _, path := range []string{"/a/000", "/a/001", "/b/001"} {
		v, err := l.Head(ctx, storeID, path)
		add("head", v, err)
		last, err := l.Last(ctx, storeID, path)
		add("last", last, err)
		held, err := l.Held(ctx, storeID, path)
		add("held", held, err)
		l.PathHistory(ctx, storeID, path)(versions("path history"))
		if v.MemoryID != "" {
			newest, err := l.Newest(ctx, storeID, v.MemoryID)
			add("newest", newest, err)
			l.History(ctx, storeID, v.MemoryID, 0)(versions("history"))
			for c, err := range l.CommitsBefore(ctx, storeID, tip.Seq+2, versionlog.Filter{MemoryID: v.MemoryID}) {
				add("commit", c.Seq, err)
			}
		}
	}
	for _, dir := range []string{"/", "/a", "/b"} {
		l.Children(ctx, storeID, dir)(versions("children"))
	}
	state, err := l.At(ctx, storeID, tip.Seq)
	if err != nil {
		t.Fatal(err)
	}
	state.Heads(ctx, "/", "")(versions("heads of the tip"))
	survey, err := l.survey(ctx, storeID)
	add("survey", survey.Versions, err)
	elsewhere, err := l.ContentsElsewhere(ctx, storeID)
	add("elsewhere", elsewhere, err)
	err = errors.Join(l.CheckDatabase(ctx, func(p Problem) { add("check", p, nil) }), l.Check(ctx, storeID, func(p Problem) { add("check", p, nil) }))
	add("checked", nil, err)
	return found
}

// TestEarlyIsInvisible: readers, also in other processes, checks, packing and copies see no early
// version.
func TestEarlyIsInvisible(t *testing.T) {
	const memories = sliceVersions + sliceVersions/5
	defer func(rows int) { pageRows = rows }(pageRows)
	pageRows = 1
	for _, erased := range []bool{false, true} {
		l := newEarlyLog(t, memories)
		if erased {
			commitContent(t, l.Log, l.store.ID, "/erased", "1")
			head, err := l.Head(t.Context(), l.store.ID, "/erased")
			if err != nil {
				t.Fatal(err)
			}
			commitContent(t, l.Log, l.store.ID, "/erased", "2")
			redact(t, l.Log, l.store.ID, head.ID)
		}
		other, reader := openTest(t, l.dir, nil), openTest(t, l.dir, &Options{ReadOnly: true})
		before := reads(t, l.Log, l.store.ID)
		gaps := 0
		betweenEarly = func() {
			if gaps++; gaps > inSlices {
				t.Fatal("it is written early again")
			}
			if early := l.early(t); len(early) != 1+gaps*earlySlice {
				t.Errorf("after %d slices %d rows are early", gaps, len(early)-1)
			}
			for _, from := range []*Log{l.Log, other, reader} {
				if diff := cmp.Diff(before, reads(t, from, l.store.ID)); diff != "" {
					t.Errorf("after %d slices: before -, now +:\n%s", gaps, diff)
				}
			}
			if gaps == inSlices { // the history and the early versions are more than packing looks at once
				packAll(t, l.Log)
			}
			copied := t.TempDir()
			if err := l.CopyTo(t.Context(), copied, nil); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(before, reads(t, openTest(t, copied, nil), l.store.ID)); diff != "" {
				t.Errorf("copy after %d slices: before -, now +:\n%s", gaps, diff)
			}
		}
		c, err := l.Commit(t.Context(), l.store.ID, move(memories, "a", "b"))
		if err != nil || gaps != inSlices || len(c.Versions) != memories {
			t.Errorf("%d gaps: %v", gaps, err)
		}
		l.sound(t)
		packAll(t, l.Log)
		checkPacked(t, l.Log, l.store.ID)
		if whole := texts(t, raw(t, l.dir), `SELECT hex(sha256) FROM blobs WHERE sha256 IN (SELECT p.sha256 FROM versions v
			JOIN versions p ON p.memory_id = v.memory_id WHERE v.op = 'deleted')`); len(whole) > 0 {
			t.Errorf("%d contents that were removed are not packed", len(whole))
		}
	}
}

// TestEarlyIsTaken: the versions that were written early are those of the commit, which is judged once.
func TestEarlyIsTaken(t *testing.T) {
	l := newEarlyLog(t, fewest)
	know(t, l.Log, l.store)
	for _, dirs := range []string{"ab", "bc", "cb"} {
		var id string
		betweenEarly = func() { id = texts(t, raw(t, l.dir), `SELECT id FROM early`)[0] }
		c, err := l.Commit(t.Context(), l.store.ID, move(fewest, dirs[:1], dirs[1:]))
		if err != nil {
			t.Fatal(err)
		}
		if c.Versions[0].ID != id {
			t.Errorf("%s: the first version is %s, early was %s", dirs, c.Versions[0].ID, id)
		}
		known, err := l.stores.row(t.Context(), l.store.ID)
		if err != nil || known.early != "" {
			t.Errorf("early is known to be %q, %v", known.early, err)
		}
		l.sound(t)
	}
}

// TestEarlyMeetsCommit: between two slices any other commit of the store, in the same process or in
// another, is made as if no version were early. Then the large commit is judged again.
func TestEarlyMeetsCommit(t *testing.T) {
	name := "Another name"
	for kind, test := range map[string]struct {
		theirs *versionlog.Proposal
		want   error
	}{
		"elsewhere": {theirs: putProposal("/elsewhere", "x")},
		"in it":     {theirs: putProposal("/a/001", "x"), want: versionlog.ErrConflict},
		"event":     {theirs: &versionlog.Proposal{Key: versionlog.NewKey(), Event: versionlog.StoreUpdated(versionlog.StoreUpdate{Name: &name})}},
		"large":     {theirs: move(fewest, "a", "c"), want: versionlog.ErrConflict},
	} {
		for at := 1; at <= inSlices; at++ {
			for _, elsewhere := range []bool{false, true} {
				t.Run(fmt.Sprint(kind, at, elsewhere), func(t *testing.T) {
					l := newEarlyLog(t, fewest)
					from := l.Log
					if elsewhere {
						from = openTest(t, l.dir, nil)
					}
					before, err := l.Tip(t.Context(), l.store.ID)
					if err != nil {
						t.Fatal(err)
					}
					gaps := 0
					betweenEarly = func() {
						if gaps++; gaps != at {
							return
						}
						c, err := from.Commit(t.Context(), l.store.ID, test.theirs)
						if err != nil || c.Seq != before.Seq+1 {
							t.Errorf("theirs is %+v: %v", c, err)
						}
						l.sound(t)
					}
					p := move(fewest, "a", "b")
					if kind == "in it" {
						v, err := l.Head(t.Context(), l.store.ID, "/a/001")
						if err != nil {
							t.Fatal(err)
						}
						p.Changes[1].Expect = versionlog.ExpectVersion(v.ID)
					}
					c, err := l.Commit(t.Context(), l.store.ID, p)
					if !errors.Is(err, test.want) || err == nil && c.Seq != before.Seq+2 {
						t.Errorf("it is %+v: %v, want %v", c, err, test.want)
					}
					l.sound(t)
				})
			}
		}
	}
}

// TestEarlyIsGivenUp: no early version stays of a commit that is given up between two slices, nor of one
// whose key the history has.
func TestEarlyIsGivenUp(t *testing.T) {
	l := newEarlyLog(t, fewest)
	ctx, cancel := context.WithCancel(t.Context())
	betweenEarly = cancel
	if _, err := l.Commit(ctx, l.store.ID, move(fewest, "a", "b")); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	l.sound(t)
	betweenEarly = func() {}
	first, err := l.Commit(t.Context(), l.store.ID, move(fewest, "a", "b"))
	if err != nil {
		t.Fatal(err)
	}
	again := move(fewest, "b", "a")
	again.Key, again.Fresh = first.Key, false
	gaps := 0
	betweenEarly = func() { gaps++ }
	if c, err := l.Commit(t.Context(), l.store.ID, again); err != nil || c.Digest != first.Digest || gaps == 0 {
		t.Errorf("of the same key is %+v after %d gaps: %v", c, gaps, err)
	}
	l.sound(t)
}

// TestEarlyByKilledProcess: the next commit of a store removes the early versions of a killed process,
// and so does the removal of the store.
func TestEarlyByKilledProcess(t *testing.T) {
	for _, next := range []string{"put", "move", "delete"} {
		l := newEarlyLog(t, fewest)
		p := start(t, "early", l.dir, l.store.ID)
		var line string
		if _, err := fmt.Fscanln(p.out, &line); err != nil {
			t.Fatal(err, p.stderr.String())
		}
		if err := p.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = p.cmd.Wait() // it was killed
		if early := l.early(t); len(early) != 1+earlySlice {
			t.Errorf("%d rows are early", len(early)-1)
		}
		var err error
		switch next {
		case "put":
			put(t, l.Log, l.store.ID, "/a/001", "x")
		case "move":
			_, err = l.Commit(t.Context(), l.store.ID, move(fewest, "a", "b"))
		case "delete":
			if err = l.DeleteStore(t.Context(), l.store.ID); err == nil {
				if early := l.early(t); len(early) > 0 {
					t.Errorf("early are %v", early)
				}
				continue
			}
		}
		if err != nil {
			t.Error(err)
		}
		l.sound(t)
	}
}

// writeEarlyAndStay writes one slice early and waits to be killed.
func writeEarlyAndStay(ctx context.Context, l *Log, storeID string) error {
	earlySlice = fewest / inSlices
	betweenEarly = func() {
		fmt.Println("early")
		_, _ = io.Copy(io.Discard, os.Stdin)
	}
	_, err := l.Commit(ctx, storeID, move(fewest, "a", "b"))
	return err
}

// TestEarlyTableIsThere: the table may exist in a database that says it is of the format before, since
// an older process that has it open notes its own format.
func TestEarlyTableIsThere(t *testing.T) {
	dir, s := newLog(t)
	change(t, dir, fmt.Sprintf(`PRAGMA user_version = %d`, earlyFormat-1))
	put(t, openTest(t, dir, nil), s.ID, "/b", "1")
	if format := texts(t, raw(t, dir), `PRAGMA user_version`); strings.Join(format, "") != fmt.Sprint(schemaFormat) {
		t.Errorf("the format is %v", format)
	}
}
