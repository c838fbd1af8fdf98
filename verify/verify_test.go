package verify_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mneme/cas"
	"mneme/cas/memcas"
	"mneme/internal/testing/memtest"
	"mneme/memory"
	"mneme/verify"
	"mneme/versionlog"
	"mneme/versionlog/memlog"
)

// damaged is a library whose log and blobs can be made to have lost things.
type damaged struct {
	versionlog.Log
	blobs damagedBlobs

	commit func(*versionlog.Commit) (*versionlog.Commit, error) // nil, nil: missing
	head   func(versionlog.Version) (versionlog.Version, bool)
	extra  []versionlog.Version // heads besides
	tip    func(*versionlog.Tip)
}

type damagedBlobs struct {
	*memcas.Store
	get func(cas.Digest) error
}

func (d *damaged) Commits(ctx context.Context, id string, after uint64) iter.Seq2[*versionlog.Commit, error] {
	return func(yield func(*versionlog.Commit, error) bool) {
		for c, err := range d.Log.Commits(ctx, id, after) {
			if d.commit != nil {
				c, err = d.commit(c)
			}
			if c == nil && err == nil {
				err = fmt.Errorf("%w: gap", versionlog.ErrCorrupt)
			}
			if !yield(c, err) || err != nil {
				return
			}
		}
	}
}

func (d *damaged) Heads(ctx context.Context, id, prefix, after string) iter.Seq2[versionlog.Version, error] {
	return func(yield func(versionlog.Version, error) bool) {
		for v, err := range d.Log.Heads(ctx, id, prefix, after) {
			ok := true
			if d.head != nil {
				v, ok = d.head(v)
			}
			if ok && !yield(v, err) {
				return
			}
		}
		for _, v := range d.extra {
			if !yield(v, nil) {
				return
			}
		}
	}
}

func (d *damaged) Tip(ctx context.Context, id string) (versionlog.Tip, error) {
	tip, err := d.Log.Tip(ctx, id)
	if d.tip != nil {
		d.tip(&tip)
	}
	return tip, err
}

func (d *damagedBlobs) Get(ctx context.Context, digest cas.Digest) ([]byte, error) {
	if d.get != nil {
		if err := d.get(digest); err != nil {
			return nil, err
		}
	}
	return d.Store.Get(ctx, digest)
}

// newDamaged has six commits: /a made, /b made, /a changed, /b renamed to
// /dir/c, /d made and removed. It is not damaged yet.
func newDamaged(t *testing.T) (*damaged, *memory.Store) {
	t.Helper()
	d := &damaged{Log: memlog.New(nil), blobs: damagedBlobs{Store: memcas.New()}}
	lib := memory.NewLibrary(d, func(string) (cas.Store, error) { return &d.blobs, nil })
	info, err := lib.CreateStore(t.Context(), "notes", nil)
	if err != nil {
		t.Fatal(err)
	}
	st, err := lib.Open(t.Context(), info.ID, memtest.Author)
	if err != nil {
		t.Fatal(err)
	}
	write := func(path, text string) {
		if _, err := st.Write(t.Context(), path, []byte(text), versionlog.ExpectAny()); err != nil {
			t.Fatal(err)
		}
	}
	write("/a", "one")
	write("/b", "two")
	write("/a", "three")
	if _, err := st.Rename(t.Context(), "/b", "/dir/c", nil); err != nil {
		t.Fatal(err)
	}
	write("/d", "four")
	if _, err := st.Remove(t.Context(), "/d", versionlog.ExpectAny()); err != nil {
		t.Fatal(err)
	}
	return d, st
}

// findings runs Verify and returns "kind subject: what" of each problem, and
// what it counted.
func findings(t *testing.T, st *memory.Store, opts *verify.Options) ([]string, verify.Verification) {
	t.Helper()
	found := []string{}
	sum, err := verify.Store(t.Context(), st, opts, func(p verify.Problem) {
		if p.Do == "" {
			t.Errorf("nothing to do about %v", p)
		}
		repaired := ""
		if p.Repaired {
			repaired = " (repaired)"
		}
		found = append(found, string(p.Kind)+" "+p.Subject+": "+p.What+repaired)
	})
	if err != nil {
		t.Fatal(err)
	}
	if sum.Problems != len(found) {
		t.Errorf("%d problems counted, %d reported", sum.Problems, len(found))
	}
	slices.Sort(found)
	return found, sum
}

func TestVerifySound(t *testing.T) {
	_, st := newDamaged(t)
	steps := map[string]int{}
	found, sum := findings(t, st, &verify.Options{Progress: func(step string, done, total int) {
		if done > total {
			t.Errorf("%s: %d of %d", step, done, total)
		}
		steps[step] = done
	}})
	if len(found) > 0 {
		t.Errorf("found %v", found)
	}
	want := verify.Verification{Commits: 6, Versions: 6, Memories: 2, Blobs: 4, Bytes: 3 + 3 + 5 + 4}
	if sum != want {
		t.Errorf("looked at %+v, want %+v", sum, want)
	}
	if diff := cmp.Diff(map[string]int{"commits": 6, "heads": 2, "blobs": 4}, steps); diff != "" {
		t.Errorf("progress (-want +got):\n%s", diff)
	}
}

// replaceCommit makes the log yield another commit in place of that one.
func replaceCommit(d *damaged, seq uint64, change func(*versionlog.Commit)) {
	d.commit = func(c *versionlog.Commit) (*versionlog.Commit, error) {
		if c.Seq != seq {
			return c, nil
		}
		other := *c
		other.Versions = slices.Clone(c.Versions)
		change(&other)
		return &other, nil
	}
}

func digestOf(text string) cas.Digest { return cas.Sum([]byte(text)) }

// TestVerifyFindsDamage damages a store in every way and wants exactly the
// finding that fits.
func TestVerifyFindsDamage(t *testing.T) {
	lose := func(seqs ...uint64) func(*damaged) {
		return func(d *damaged) {
			d.commit = func(c *versionlog.Commit) (*versionlog.Commit, error) {
				if slices.Contains(seqs, c.Seq) {
					return nil, nil
				}
				return c, nil
			}
		}
	}
	blobError := func(text string, err error) func(*damaged) {
		return func(d *damaged) {
			d.blobs.get = func(digest cas.Digest) error {
				if digest == digestOf(text) {
					return fmt.Errorf("get: %w", err)
				}
				return nil
			}
		}
	}
	for _, c := range []struct {
		name   string
		damage func(*damaged)
		want   []string // beginnings, in order
	}{
		{"a record is gone, and what it did cannot be told", lose(3), []string{"record commit 3: "}},
		{"several records in a row", lose(2, 3), []string{"record commits 2 to 3: "}},
		{"the last record is gone", lose(6), []string{"record commit 6: "}},
		{"all records are gone", lose(1, 2, 3, 4, 5, 6), []string{"record commits 1 to 6: "}},
		{"records end before the tip", func(d *damaged) {
			d.tip = func(tip *versionlog.Tip) { tip.Seq = 8 }
		}, []string{"record commits 7 to 8: there is no record"}},
		{"the tip has another digest", func(d *damaged) {
			d.tip = func(tip *versionlog.Tip) { tip.Digest[0]++ }
		}, []string{"record commit 6: it is not the one that the store's index names"}},
		{"a record's content was changed", func(d *damaged) {
			replaceCommit(d, 3, func(c *versionlog.Commit) { c.Message = "forged" })
		}, []string{"record commit 3: it does not match its digest"}},
		{"a version's content was changed", func(d *damaged) {
			replaceCommit(d, 5, func(c *versionlog.Commit) { c.Versions[0].Size++ })
		}, []string{"blob blob ", "record commit 5: payload of version"}},
		{"the chain is broken", func(d *damaged) {
			replaceCommit(d, 3, func(c *versionlog.Commit) { c.Prev[0]++ })
		}, []string{"record commit 3: it does not follow", "record commit 3: it does not match its digest"}},
		{"a version names another parent", func(d *damaged) {
			replaceCommit(d, 3, func(c *versionlog.Commit) { c.Versions[0].Parent = "memver_other" })
		}, []string{"head /a: the index and the records disagree", "record commit 3: it does not match its digest", "record commit 3: version memver_"}},
		{"a head is missing", func(d *damaged) {
			d.head = func(v versionlog.Version) (versionlog.Version, bool) { return v, v.Path != "/a" }
		}, []string{"head /a: by the records version"}},
		{"a head is of another version", func(d *damaged) {
			d.head = func(v versionlog.Version) (versionlog.Version, bool) {
				if v.Path == "/a" {
					v.ID = "memver_other"
				}
				return v, true
			}
		}, []string{"head /a: the index has version memver_other there, by the records it is memver_"}},
		{"a head has another digest", func(d *damaged) {
			d.head = func(v versionlog.Version) (versionlog.Version, bool) {
				if v.Path == "/a" {
					v.Digest = digestOf("two")
				}
				return v, true
			}
		}, []string{"head /a: the index and the records disagree"}},
		{"a head too many", func(d *damaged) {
			d.extra = []versionlog.Version{{ID: "memver_x", Path: "/x", Seq: 2}}
		}, []string{"head /x: the index has version memver_x there, by the records nothing"}},
		{"a live blob is gone", func(d *damaged) { _ = d.blobs.Delete(context.Background(), digestOf("three")) },
			[]string{"blob blob " + digestOf("three").String() + ": the bytes are gone; they are the current version of /a"}},
		{"a blob of the past is gone", func(d *damaged) { _ = d.blobs.Delete(context.Background(), digestOf("one")) },
			[]string{"blob blob " + digestOf("one").String() + ": the bytes are gone; they are an earlier version of /a"}},
		{"a deleted memory's blob is damaged", blobError("four", cas.ErrCorrupt),
			[]string{"blob blob " + digestOf("four").String() + ": the bytes are damaged; they are an earlier version of /d"}},
		{"what a deleted memory's blob is kept against is damaged", blobError("four", &cas.NeedsError{Blob: digestOf("base"), Err: cas.ErrCorrupt}),
			[]string{"blob blob " + digestOf("four").String() + ": the bytes are kept against blob " + digestOf("base").String() + ", which is damaged; they are an earlier version of /d"}},
		{"a renamed memory's blob is damaged", blobError("two", cas.ErrCorrupt),
			[]string{"blob blob " + digestOf("two").String() + ": the bytes are damaged; they are the current version of /dir/c"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, st := newDamaged(t)
			c.damage(d)
			found, _ := findings(t, st, nil)
			ok := len(found) == len(c.want)
			for i := 0; ok && i < len(found); i++ {
				ok = strings.HasPrefix(found[i], c.want[i])
			}
			if !ok {
				t.Errorf("found:\n%s\nwant:\n%s", strings.Join(found, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

func TestVerifyPresenceOnly(t *testing.T) {
	d, st := newDamaged(t)
	d.blobs.get = func(cas.Digest) error { t.Error("a blob was read"); return nil }
	_ = d.blobs.Delete(t.Context(), digestOf("two"))
	found, sum := findings(t, st, &verify.Options{PresenceOnly: true})
	if len(found) != 1 || sum.Bytes != 0 || sum.Blobs != 4 {
		t.Errorf("found %v, %+v", found, sum)
	}
}

// TestVerifySalvages: what is found elsewhere is put back, other bytes are not.
func TestVerifySalvages(t *testing.T) {
	d, st := newDamaged(t)
	_ = d.blobs.Delete(t.Context(), digestOf("two"))
	_ = d.blobs.Delete(t.Context(), digestOf("three"))
	opts := &verify.Options{Salvage: func(digest cas.Digest) ([]byte, bool) { return []byte("three"), true }}
	found, sum := findings(t, st, opts)
	if len(found) != 2 || sum.Repaired != 1 {
		t.Fatalf("found %v, %+v", found, sum)
	}
	if found, _ = findings(t, st, nil); len(found) != 1 || !strings.Contains(found[0], digestOf("two").String()) {
		t.Errorf("afterwards: %v", found)
	}
}

// TestVerifyWhileWritten: what is committed during the check is no problem.
func TestVerifyWhileWritten(t *testing.T) {
	d, st := newDamaged(t)
	d.head = func(v versionlog.Version) (versionlog.Version, bool) { return v, true }
	var once bool
	d.commit = func(c *versionlog.Commit) (*versionlog.Commit, error) {
		if !once { // the tip has been read
			once = true
			if _, err := st.Write(t.Context(), "/new", []byte("five"), versionlog.ExpectAbsent()); err != nil {
				t.Error(err)
			}
			if _, err := st.Write(t.Context(), "/a", []byte("six"), versionlog.ExpectAny()); err != nil {
				t.Error(err)
			}
		}
		return c, nil
	}
	if found, sum := findings(t, st, nil); len(found) > 0 || sum.Commits != 6 {
		t.Errorf("found %v, %+v", found, sum)
	}
}

// TestVerifyCannotLook: trouble with the backend is an error, not a finding.
func TestVerifyCannotLook(t *testing.T) {
	broken := errors.New("no route to host")
	for name, damage := range map[string]func(*damaged){
		"log": func(d *damaged) {
			d.commit = func(*versionlog.Commit) (*versionlog.Commit, error) { return nil, broken }
		},
		"blobs": func(d *damaged) { d.blobs.get = func(cas.Digest) error { return broken } },
	} {
		t.Run(name, func(t *testing.T) {
			d, st := newDamaged(t)
			damage(d)
			_, err := verify.Store(t.Context(), st, nil, func(p verify.Problem) { t.Errorf("reported %v", p) })
			if !errors.Is(err, broken) {
				t.Errorf("got %v, want %v", err, broken)
			}
		})
	}
}

// TestVerifyAgainst proves histories up to a commit that was noted.
func TestVerifyAgainst(t *testing.T) {
	d, st := newDamaged(t)
	otherLog, other := newDamaged(t) // the same writes, another history
	digestsOf := func(log versionlog.Log, st *memory.Store) (digests []versionlog.Digest) {
		for c, err := range log.Commits(t.Context(), st.Info().ID, 0) {
			if err != nil {
				t.Fatal(err)
			}
			digests = append(digests, c.Digest)
		}
		return digests
	}
	digests, others := digestsOf(d.Log, st), digestsOf(otherLog.Log, other)
	for _, c := range []struct {
		name    string
		st      *memory.Store
		against versionlog.Tip
		want    string
	}{
		{"the newest", st, versionlog.Tip{Seq: 6, Digest: digests[5]}, ""},
		{"an earlier one", st, versionlog.Tip{Seq: 2, Digest: digests[1]}, ""},
		{"by its digest alone", st, versionlog.Tip{Digest: digests[3]}, ""},
		{"at another number", st, versionlog.Tip{Seq: 3, Digest: digests[1]}, "history history: commit 3 has the digest " + digests[2].String() + ", not " + digests[1].String()},
		{"rewritten", other, versionlog.Tip{Seq: 2, Digest: digests[1]}, "history history: commit 2 has the digest " + others[1].String() + ", not " + digests[1].String()},
		{"rewritten, by the digest alone", other, versionlog.Tip{Digest: digests[1]}, "history history: it has no commit of digest " + digests[1].String()},
		{"cut", st, versionlog.Tip{Seq: 7, Digest: digests[1]}, "history history: it has no commit 7"},
	} {
		if c.want != "" {
			tip, err := c.st.Tip(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			c.want += fmt.Sprintf("; it ends with commit 6, %v", tip.Digest)
		}
		found, _ := findings(t, c.st, &verify.Options{Against: &c.against})
		if got := strings.Join(found, "\n"); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	replaceCommit(d, 3, func(c *versionlog.Commit) { c.Message = "forged" }) // which claims the digest
	for seq, want := range []string{0: "history history: it has no commit of digest", 3: "history history: commit 3 cannot be read"} {
		found, _ := findings(t, st, &verify.Options{Against: &versionlog.Tip{Seq: uint64(seq), Digest: digests[2]}})
		if want != "" && (len(found) == 0 || !strings.HasPrefix(found[0], want)) {
			t.Errorf("a forged record proves the history: %q", found)
		}
	}
}
