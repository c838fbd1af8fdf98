package sqlitelog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mneme/internal/sqlite"
	"mneme/versionlog"
)

// acknowledged is a log as a killed process leaves it, and what was in its files
// after each change that it acknowledged.
type acknowledged struct {
	files  map[string][]byte // by name
	states []ackState
}

// ackState is how long the write-ahead log was when a change was acknowledged, and
// what the file that remembers it was.
type ackState struct {
	wal  int64
	tips []byte
}

// newAcknowledged makes stores, commits to both, archives one, and looks at the
// files while the log is open, as if the process was killed.
func newAcknowledged(t *testing.T) *acknowledged {
	t.Helper()
	dir := t.TempDir()
	l := openTest(t, dir, nil)
	a := &acknowledged{files: map[string][]byte{}}
	note := func() {
		t.Helper()
		info, err := os.Stat(l.path(DatabaseName + sqlite.WriteAheadSuffix))
		if err != nil {
			t.Fatal(err)
		}
		a.states = append(a.states, ackState{info.Size(), read(t, l.path(tipsName))})
	}
	var made []versionlog.Store
	for i := range 2 {
		made = append(made, addStore(t, l, fmt.Sprint("s", i)))
		note()
	}
	for i := range 12 {
		commitContent(t, l, made[i%2].ID, fmt.Sprintf("/%d", i), strings.Repeat(fmt.Sprint(i), 1000))
		note()
	}
	if err := happen(t.Context(), l, made[0].ID, versionlog.StoreArchived()); err != nil {
		t.Fatal(err)
	}
	note()
	for _, name := range []string{DatabaseName, DatabaseName + sqlite.WriteAheadSuffix, tipsName, changedName} {
		a.files[name] = read(t, l.path(name))
	}
	return a
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// with returns a directory with those files, some changed. Nil removes one.
func (a *acknowledged) with(t *testing.T, changed map[string][]byte) string {
	t.Helper()
	dir := t.TempDir()
	for name, data := range a.files {
		if other, ok := changed[name]; ok {
			data = other
		}
		if data == nil {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const walName = DatabaseName + sqlite.WriteAheadSuffix

// TestLossesAfterCut holds that whatever the write-ahead log is cut to, it is said
// if and only if something that was acknowledged is missing.
func TestLossesAfterCut(t *testing.T) {
	a := newAcknowledged(t)
	wal := a.files[walName]
	const page = 4096 + 24 // bytes of a frame
	for i, size := 0, 0; size <= len(wal); i, size = i+1, size+4*page/3 {
		dir := a.with(t, map[string][]byte{walName: wal[:size]})
		a.check(t, fmt.Sprintf("cut to %d of %d bytes", size, len(wal)), dir, false, i%16 == 0)
	}
	a.check(t, "whole", a.with(t, nil), true, true)
	a.check(t, "without its write-ahead log", a.with(t, map[string][]byte{walName: nil}), false, true)
	a.check(t, "without its database", a.with(t, map[string][]byte{walName: nil, DatabaseName: nil}), false, true)
}

// TestLossesAfterFlip does the same with single bits.
func TestLossesAfterFlip(t *testing.T) {
	a := newAcknowledged(t)
	wal := a.files[walName]
	for i, at := 0, 3; at < len(wal); i, at = i+1, at+9973 {
		flipped := slices.Clone(wal)
		flipped[at] ^= 1
		a.check(t, fmt.Sprintf("bit of byte %d", at), a.with(t, map[string][]byte{walName: flipped}), false, i%16 == 8)
	}
}

// check opens a damaged log. Where something is lost, it is said, and nothing is
// changed until that is accepted.
func (a *acknowledged) check(t *testing.T, what, dir string, whole, accept bool) {
	t.Helper()
	before := filesIn(t, dir)
	losses, err := Losses(t.Context(), dir)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if whole {
		if len(losses) > 0 {
			t.Errorf("%s: nothing is missing, but it says %v", what, losses)
		}
		openTest(t, dir, nil)
		return
	}
	if len(losses) == 0 {
		t.Fatalf("%s: it does not say what is missing", what)
	}
	if _, err := Open(t.Context(), dir, nil); !errors.Is(err, versionlog.ErrRewritten) {
		t.Fatalf("%s: opened to write: %v", what, err)
	}
	for name, data := range before {
		if now, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !bytes.Equal(now, data) {
			t.Errorf("%s: looking changes %s (%v)", what, name, err)
		}
	}
	if !accept {
		return
	}
	_, kept, err := AcceptLosses(t.Context(), dir)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if wal := before[walName]; len(wal) > 0 && !bytes.Equal(read(t, kept), wal) {
		t.Errorf("%s: the write-ahead log is not kept as it was", what)
	}
	l := openTest(t, dir, nil)
	if losses, err := Losses(t.Context(), dir); err != nil || len(losses) > 0 {
		t.Errorf("%s, accepted: %v, %v", what, losses, err)
	}
	s := addStore(t, l, "after")
	put(t, l, s.ID, "/a", "text")
	closeOnce(t, l)
}

func filesIn(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for _, name := range []string{DatabaseName, walName, tipsName} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		files[name] = data
	}
	return files
}

// TestTipsLag holds that a file which is behind, torn or absent is no alarm, and
// that what it still knows counts.
func TestTipsLag(t *testing.T) {
	a := newAcknowledged(t)
	for i, state := range a.states {
		if losses, err := Losses(t.Context(), a.with(t, map[string][]byte{tipsName: state.tips})); err != nil || len(losses) > 0 {
			t.Errorf("as of change %d: %v, %v", i, losses, err)
		}
		// As far as was remembered, it is all there; one byte less and it is not.
		wal := a.files[walName]
		if losses, err := Losses(t.Context(), a.with(t, map[string][]byte{tipsName: state.tips, walName: wal[:state.wal]})); err != nil || len(losses) > 0 {
			t.Errorf("log and memory as of change %d: %v, %v", i, losses, err)
		}
		if losses, err := Losses(t.Context(), a.with(t, map[string][]byte{tipsName: state.tips, walName: wal[:state.wal-1]})); err != nil || len(losses) == 0 {
			t.Errorf("log cut just before change %d, which is remembered: %v, %v", i, losses, err)
		}
	}
	all := a.files[tipsName]
	for at := 0; at < len(all); at += 97 {
		torn := slices.Clone(all)
		clear(torn[at:min(at+40, len(torn))])
		if losses, err := Losses(t.Context(), a.with(t, map[string][]byte{tipsName: torn})); err != nil || len(losses) > 0 {
			t.Errorf("torn at byte %d: %v, %v", at, losses, err)
		}
	}
	if losses, err := Losses(t.Context(), a.with(t, map[string][]byte{tipsName: nil, walName: nil})); err != nil || len(losses) > 0 {
		t.Errorf("nothing is remembered: %v, %v", losses, err)
	}
}

// TestNoLongerArchived: a store that was archived is missed as one, though its commits are
// all there.
func TestNoLongerArchived(t *testing.T) {
	a := newAcknowledged(t)
	dir := a.with(t, nil)
	change(t, dir, `UPDATE stores SET archived_at = NULL`)
	losses, err := Losses(t.Context(), dir)
	if want := "store s0: it was archived, and is not any more"; err != nil || !strings.Contains(fmt.Sprint(losses), want) {
		t.Errorf("it says %v, %v; want %q", losses, err, want)
	}
}

// TestLossesAreNamed holds the words for each kind of loss.
func TestLossesAreNamed(t *testing.T) {
	a := newAcknowledged(t)
	wal := a.files[walName]
	mid := a.states[7].wal // three commits to each store
	flipped, header := slices.Clone(wal), slices.Clone(wal)
	flipped[mid+100] ^= 1
	header[9] ^= 1
	first := slices.Clone(wal[:a.states[0].wal-1])
	for _, c := range []struct {
		what  string
		files map[string][]byte
		want  []string
	}{
		{"cut", map[string][]byte{walName: wal[:mid]}, []string{
			fmt.Sprintf("store s0: 4 acknowledged commits after sequence number 3 are missing: log.db-wal ends at byte %d, where it was cut", mid),
			"store s1: 3 acknowledged commits after sequence number 3",
		}},
		{"one commit", map[string][]byte{walName: wal[:a.states[12].wal]}, []string{"store s1: 1 acknowledged commits after sequence number 5 are missing"}},
		{"flipped", map[string][]byte{walName: flipped}, []string{
			fmt.Sprintf("log.db-wal is damaged at byte %d, and the %d frames behind it are not read", mid, (int64(len(wal))-mid)/(4096+24)), "store s1",
		}},
		{"header", map[string][]byte{walName: header}, []string{"it is missing as a whole, with 7 acknowledged commits", "the header of log.db-wal is damaged, and its"}},
		{"the first store", map[string][]byte{walName: first}, []string{"it is missing as a whole, with 7 acknowledged commits"}},
		{"archived", map[string][]byte{walName: wal[:a.states[13].wal]}, []string{"store s0: 1 acknowledged commits after sequence number 6 are missing"}},
		{"copied without", map[string][]byte{walName: nil}, []string{"log.db-wal is missing or empty, without which the database may have been copied"}},
	} {
		losses, err := Losses(t.Context(), a.with(t, c.files))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range c.want {
			if !strings.Contains(fmt.Sprint(losses), want) {
				t.Errorf("%s: it says %v; want %q", c.what, losses, want)
			}
		}
	}
}

// TestOtherHistory holds that a database with another history, as long or longer, is
// found.
func TestOtherHistory(t *testing.T) {
	dir := t.TempDir()
	l := openTest(t, dir, nil)
	s := addStore(t, l, "s")
	put(t, l, s.ID, "/a", "1")
	closeOnce(t, l)
	restore := func(files map[string][]byte, names ...string) {
		t.Helper()
		for _, name := range names {
			if err := os.WriteFile(filepath.Join(dir, name), files[name], 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	commit := func(texts ...string) map[string][]byte {
		t.Helper()
		l := openTest(t, dir, nil)
		for _, text := range texts {
			put(t, l, s.ID, "/a", text)
		}
		closeOnce(t, l)
		return filesIn(t, dir)
	}
	earlier := filesIn(t, dir)
	first := commit("2")
	for _, texts := range [][]string{{"other"}, {"other", "longer"}} {
		restore(earlier, DatabaseName, tipsName)
		commit(texts...)
		restore(first, tipsName)
		losses, err := Losses(t.Context(), dir)
		if err != nil || !strings.Contains(fmt.Sprint(losses), "commit 2 is another than the one that was acknowledged: the history was replaced") {
			t.Errorf("%v: %v, %v", texts, losses, err)
		}
	}
}

// TestDeletedStoreComesBack holds that a deletion which is undone is found, and one
// which is not remembered is no loss.
func TestDeletedStoreComesBack(t *testing.T) {
	dir := t.TempDir()
	l := openTest(t, dir, nil)
	s, other := addStore(t, l, "s"), addStore(t, l, "other")
	for range 10 { // more than there are slots
		put(t, l, s.ID, "/a", versionlog.NewKey())
	}
	closeOnce(t, l)
	before := filesIn(t, dir)
	l = openTest(t, dir, nil)
	if err := l.DeleteStore(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	put(t, l, other.ID, "/a", "1")
	closeOnce(t, l)
	if losses, err := Losses(t.Context(), dir); err != nil || len(losses) > 0 {
		t.Errorf("a store was deleted: %v, %v", losses, err)
	}
	after := filesIn(t, dir)
	if err := os.WriteFile(filepath.Join(dir, DatabaseName), before[DatabaseName], 0o600); err != nil {
		t.Fatal(err)
	}
	if losses, err := Losses(t.Context(), dir); err != nil || !strings.Contains(fmt.Sprint(losses), "store s: it was deleted, and is back") {
		t.Errorf("an earlier database: %v, %v", losses, err)
	}
	if err := os.WriteFile(filepath.Join(dir, DatabaseName), after[DatabaseName], 0o600); err != nil {
		t.Fatal(err)
	}
	// The process that deletes is killed before it is remembered.
	if err := os.WriteFile(filepath.Join(dir, tipsName), before[tipsName], 0o600); err != nil {
		t.Fatal(err)
	}
	if losses, err := Losses(t.Context(), dir); err != nil || len(losses) > 0 {
		t.Errorf("a store was deleted, but is remembered: %v, %v", losses, err)
	}
	openTest(t, dir, nil)
}

// TestManyProcessesRemember holds that the file is never ahead of the database,
// however many processes commit.
func TestManyProcessesRemember(t *testing.T) {
	dir := t.TempDir()
	l := openTest(t, dir, nil)
	s := addStore(t, l, "s")
	working := make(chan error)
	for range 3 {
		p := start(t, "work", dir, s.ID)
		go func() {
			_, err := io.Copy(io.Discard, p.out)
			working <- errors.Join(err, p.cmd.Wait())
		}()
	}
	for left := 3; left > 0; {
		select {
		case err := <-working:
			if left--; err != nil {
				t.Error(err)
			}
		default:
			if losses, err := Losses(t.Context(), dir); err != nil || len(losses) > 0 {
				t.Errorf("while others commit: %v, %v", losses, err)
			}
		}
	}
	put(t, l, s.ID, "/last", "text")
	tip, err := l.Tip(t.Context(), s.ID)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range readTips(l.root) {
		if k.storeID != s.ID || k.seq != tip.Seq || k.digest != tip.Digest {
			t.Errorf("remembered is %+v, the tip is %+v", k, tip)
		}
	}
}

// TestTipsGolden holds the bytes of a slot.
func TestTipsGolden(t *testing.T) {
	k := knownTip{storeID: "memstore_0123456789abcdefghjkmnpqrs", seq: 7, digest: versionlog.Digest{1, 2, 3}, state: tipArchived}
	b := k.encode()
	if len(b) != 128 || string(b[:8]) != "mnemtip1" || string(b[8:43]) != k.storeID || binary.BigEndian.Uint64(b[48:]) != 7 ||
		!bytes.Equal(b[56:88], k.digest[:]) || b[88] != 1 {
		t.Errorf("slot: %q", b)
	}
	if got, ok := decodeTip(b); !ok || got != k {
		t.Errorf("read back: %+v, %v", got, ok)
	}
	for i := range b {
		b[i] ^= 1
		if _, ok := decodeTip(b); ok {
			t.Errorf("a flip of byte %d is not noticed", i)
		}
		b[i] ^= 1
	}
}
