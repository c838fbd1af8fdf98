package virtual

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
)

// Pack is a text that says what was asked for.
func (m *mount) Pack(_ context.Context, ask PackRequest) ([]byte, uint64, error) {
	if m.packs++; ask.Seq > m.newest {
		return nil, 0, &MissingError{Err: syscall.ENOENT}
	}
	if during := m.during; during != nil {
		m.during = nil
		defer during()
	}
	if ask.Seq == 0 {
		ask.Seq = m.newest
	}
	text := fmt.Sprintf("%d@%d", ask.MaxBytes, ask.Seq)
	if ask.Since != nil {
		text = fmt.Sprintf("%d@%d..%d", ask.MaxBytes, *ask.Since, ask.Seq)
	}
	return []byte(m.padding + text), ask.Seq, nil
}

// Pin is what fusefs does.
func (m *mount) Pin(seq uint64) uint64 {
	m.pinned.CompareAndSwap(0, seq)
	return m.pinned.Load()
}

// TestPacks reads packs by their names.
func TestPacks(t *testing.T) {
	m := &mount{T: t, newest: 7}
	root := Control(m, since, nil)
	dir := m.dir(root, "/pack")
	m.wantNames(dir)
	if dir.Fixed() || dir.Mode() != syscall.S_IFDIR|0o555 {
		t.Errorf("the directory is %v, %o", dir.Fixed(), dir.Mode())
	}
	look := func(name, want string, constant bool) File {
		t.Helper()
		f := m.find(root, "/pack/"+name).(File)
		m.wantText(f, want)
		if size, _ := f.Stat(); size != int64(len(want)) || f.Constant() != constant || f.Mode() != syscall.S_IFREG|0o444 {
			t.Errorf("%s has %d bytes, %v, %o", name, size, f.Constant(), f.Mode())
		}
		return f
	}
	look("8000@3", "8000@3", true)
	first := look("8000", "8000@7", true)
	open := look("900@3..", "900@3..7", false)
	m.newest = 9
	look("8000", "8000@7", true)
	look("700", "700@7", true)
	look("8000@9", "8000@9", true)
	look("900@4", "900@4", true)
	look("900@0..4", "900@0..4", true)
	look("900@1..4", "900@1..4", true)
	look("900@4", "900@4", true)
	later := look("900@3..", "900@3..9", false)
	m.wantText(first, "8000@7")
	m.wantText(open, "900@3..7") // which is what it was looked up as
	_, before := open.Stat()
	if _, after := later.Stat(); !after.After(before) {
		t.Errorf("another text is of %v, and the one before of %v", after, before)
	}
	for _, name := range []string{"", ".", "..", "x", "08", "+8", "8 ", "8k", "-8", "1048577", "99999999999999999999", "8000@", "8000@0", "8000@10", "8000@01", "8000@x",
		"8000@..", "8000@..3", "8000@1..0", "8000@1..10", "8000@01..", "8000@1...", "8000@1..3..4", "@3", "8000@3@4"} {
		n, err := dir.Lookup(m.Context(), name)
		var missing *MissingError
		if asks := name != "" && '0' <= name[0] && name[0] <= '9'; errors.As(err, &missing) != asks || !asks && err != syscall.ENOENT || asks && missing.Path != Packs+"/"+name {
			t.Errorf("%q is %v, %v", name, n, err)
		}
	}
	if err := dir.Remove("8000", false); err != syscall.EROFS {
		t.Errorf("removal: %v", err)
	}
}

// TestPackIsMadeOnce: one that is read where it was looked up is made once, and one that is
// long is not kept in memory.
func TestPackIsMadeOnce(t *testing.T) {
	m := &mount{T: t, newest: 7}
	root := Control(m, since, nil)
	f := m.find(root, "/pack/8000").(File)
	m.wantText(f, "8000@7")
	m.wantText(f, "8000@7")
	m.wantText(m.find(root, "/pack/8000"), "8000@7") // which is looked up each time
	m.wantText(m.find(root, "/pack/8000@7"), "8000@7")
	if m.packs != 1 {
		t.Errorf("it was made %d times", m.packs)
	}
	m.padding = strings.Repeat("x", maxKeptPack)
	long := m.find(root, "/pack/9000")
	m.wantText(long, m.padding+"9000@7")
	m.wantText(long, m.padding+"9000@7")
	if p := m.dir(root, "/pack").(*packs); m.packs != 4 || len(p.kept) > maxKeptPack {
		t.Errorf("after %d packs %d bytes are kept", m.packs, len(p.kept))
	}
	m.wantText(f, "8000@7")
}

// TestPackForgets: what is kept of a pack goes when something was erased, also if that happens while
// it is made.
func TestPackForgets(t *testing.T) {
	m := &mount{T: t, newest: 7}
	root := Control(m, since, nil)
	f := m.find(root, "/pack/8000").(File)
	ForgetPast(root)
	m.padding = "clean "
	m.wantText(f, "clean 8000@7")
	ForgetPast(root)
	m.during = func() { ForgetPast(root) }
	m.wantText(f, "clean 8000@7")
	if p := m.dir(root, "/pack").(*packs); p.kept != nil {
		t.Errorf("kept is %q", p.kept)
	}
}

// TestPackOfNothing: a store without a commit has no number to be pinned.
func TestPackOfNothing(t *testing.T) {
	m := &mount{T: t}
	root := Control(m, since, nil)
	f := m.find(root, "/pack/8000").(File)
	if m.wantText(f, "8000@0"); f.Constant() {
		t.Error("the kernel may keep a text that will be another")
	}
	m.newest = 2
	m.wantText(m.find(root, "/pack/8000"), "8000@2")
	m.newest = 3
	m.wantText(m.find(root, "/pack/8000"), "8000@2")
}

// TestPacksAtOnce: two that look a pack up at once are shown one commit.
func TestPacksAtOnce(t *testing.T) {
	m := &mount{T: t, newest: 7}
	root := Control(m, since, nil)
	var second Node
	m.during = func() {
		m.newest = 8
		second = m.find(root, "/pack/700")
	}
	m.wantText(m.find(root, "/pack/8000"), "8000@8")
	m.wantText(second, "700@8")
}

// manyPacks is a store that is asked for packs at once.
type manyPacks struct {
	mount
	inside atomic.Int32
	free   chan struct{}
}

func (m *manyPacks) Pack(context.Context, PackRequest) ([]byte, uint64, error) {
	m.inside.Add(1)
	defer m.inside.Add(-1)
	<-m.free
	return []byte("pack"), 1, nil
}

// TestPacksInTurn: however many programs want packs, few are made at once.
func TestPacksInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &manyPacks{mount: mount{T: t}, free: make(chan struct{})}
		dir := m.dir(Control(m, since, nil), "/pack")
		for i := range 9 {
			go func() { _, _ = dir.Lookup(m.Context(), strconv.Itoa(1000+i)) }()
		}
		synctest.Wait()
		if n := m.inside.Load(); n != packsAtOnce {
			t.Errorf("%d are made at once, want %d", n, packsAtOnce)
		}
		close(m.free)
		synctest.Wait()
	})
}
