package forget

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"mneme/cas"
	"mneme/cas/memcas"
	"mneme/memory"
	"mneme/session/conflict"
	"mneme/spool"
	"mneme/versionlog"
	"mneme/versionlog/memlog"
)

// rig is a store in memory, what a machine keeps of it, and a person.
type rig struct {
	*testing.T
	log       versionlog.Log
	st        *memory.Store
	machine   *Machine
	conflicts *conflict.Store
}

func newRig(t *testing.T) *rig {
	blobs := memcas.New()
	log := memlog.New(nil)
	lib := memory.NewLibrary(log, func(string) (cas.Store, error) { return blobs, nil })
	info, err := lib.CreateStore(t.Context(), "notes", nil)
	r := &rig{T: t, log: log}
	r.must(err)
	r.st, err = lib.Open(t.Context(), info.ID, &memory.Author{Actor: versionlog.Actor{Kind: versionlog.ActorUser, ID: "ada"}})
	r.must(err)
	dir := t.TempDir()
	r.conflicts = conflict.New(filepath.Join(dir, info.ID))
	r.machine = &Machine{Conflicts: func(id string) *conflict.Store { return conflict.New(filepath.Join(dir, id)) }, Importing: func(string) (bool, error) { return false, nil }}
	return r
}

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

func (r *rig) write(text string) versionlog.Version {
	r.Helper()
	v, err := r.st.Write(r.Context(), "/a.md", []byte(text), versionlog.ExpectAny())
	r.must(err)
	return v
}

func (r *rig) redact(q *Request) *Receipt {
	r.Helper()
	q.Reason = "a test"
	receipt, err := Redact(r.Context(), r.machine, r.st, q)
	r.must(err)
	return receipt
}

// TestRedactMachine: kept conflicts go that have the version or its text, and no others; scratch files of a
// running mount stay and are named with what to do, until they are gone.
func TestRedactMachine(t *testing.T) { synctest.Test(t, testRedactMachine) } // which waits for the mount to wipe

func testRedactMachine(t *testing.T) {
	r := newRig(t)
	v := r.write("the canary")
	r.write("clean")
	keep := func(about conflict.About, yours string) {
		_, err := r.conflicts.Keep(about, conflict.Texts{Yours: []byte(yours)})
		r.must(err)
	}
	keep(conflict.About{Path: "/a.md", Base: &conflict.Side{Version: v.ID}}, "mine")
	keep(conflict.About{Path: "/b.md"}, "the canary")
	keep(conflict.About{Path: "/c.md"}, "more than the canary")
	mount := spool.New(r.conflicts.Dir(), 1<<20)
	scratch, err := mount.Write(spool.Entry{Path: "/.a.md.swp", Session: "s1", Data: []byte("the canary")})
	r.must(err)
	_, err = mount.Write(spool.Entry{Path: "/.b.md.swp", Session: "s1", Data: []byte("another")})
	r.must(err)

	q := &Request{Versions: []string{v.ID}, Contents: []cas.Digest{v.Digest}}
	receipt := r.redact(q)
	left := receipt.Left()
	if len(left) != 1 || left[0].Place != "scratch files of running mounts (1)" || !strings.HasPrefix(left[0].Left, `"notes:/.a.md.swp", of session "s1",`) {
		t.Errorf("left is %+v", left)
	}
	if ids, err := r.conflicts.IDs(); err != nil || !slices.Equal(ids, []int{3}) {
		t.Errorf("conflicts %v are kept, %v", ids, err)
	}
	if len(receipt.Versions) != 1 || receipt.Erased != 1 || !slices.ContainsFunc(receipt.Places, func(p Place) bool { return p.Place == "kept conflicts (2)" && !p.ErasedAt.IsZero() }) {
		t.Errorf("the receipt is %+v", receipt)
	}
	if e, err := scratch.Read(); err != nil || string(e.Data) != "the canary" {
		t.Errorf("the scratch file is %v, %v", e, err)
	}
	r.must(scratch.Drop())
	receipt = r.redact(&Request{Text: "canary"})
	if left := receipt.Left(); len(left) != 1 || !strings.HasPrefix(left[0].Left, "1 scratch file that a running mount has settled") {
		t.Errorf("left is %+v", left)
	}
	if ids, err := r.conflicts.IDs(); err != nil || len(ids) > 0 || receipt.Found != 2 {
		t.Errorf("%d were found; conflicts %v are kept, %v", receipt.Found, ids, err)
	}
	r.must(mount.Wipe())
	if left := r.redact(&Request{Text: "canary"}).Left(); len(left) > 0 {
		t.Errorf("left is %+v", left)
	}
}

// TestRedactBehind: a receipt names the places of a server, and what could not be done there.
func TestRedactBehind(t *testing.T) {
	r := newRig(t)
	v := r.write("the canary")
	r.write("clean")
	var fails error
	r.machine.Behind = func(_ context.Context, _ string, versions []string, contents []cas.Digest, text string) ([]versionlog.Purged, error) {
		if versions[0] != v.ID || contents[0] != v.Digest || text != "canary" {
			t.Errorf("the server is asked for %v, %v, %q", versions, contents, text)
		}
		return []versionlog.Purged{{Place: "the server's kept conflicts (1)"}}, fails
	}
	q := &Request{Versions: []string{v.ID}, Contents: []cas.Digest{v.Digest}, Text: "canary"}
	if last := r.redact(q).Places; last[len(last)-1].Place != "the server's kept conflicts (1)" {
		t.Errorf("the places are %+v", last)
	}
	fails = errors.New("it is away")
	if left := r.redact(q).Left(); len(left) != 1 || left[0].Left != "it is away" {
		t.Errorf("left is %+v", left)
	}
}

func TestWaitingForAMount(t *testing.T) {
	for _, c := range []struct {
		name string
		left *spool.Entry
		want error
	}{
		{"its text", &spool.Entry{Path: "/a", Data: []byte("canary")}, errWaiting},
		{"its path", &spool.Entry{Path: "canary"}, errWaiting},
		{"damaged", nil, errWaiting},
		{"another", &spool.Entry{Path: "/a", Data: []byte("b")}, nil},
	} {
		if err := waiting(c.left, &Request{Text: "canary"}); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}
