package verify_test

import (
	"crypto/sha256"
	"fmt"
	"iter"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mneme/cas"
	"mneme/internal/testing/memtest"
	"mneme/memory"
	"mneme/versionlog"
)

func wantFindings(t *testing.T, st *memory.Store, want ...string) {
	t.Helper()
	if got, _ := findings(t, st, nil); cmp.Diff(append([]string{}, want...), got) != "" {
		t.Errorf("got %q, want %q", got, want)
	}
}

// redact appends the event that versions were erased, as another log would have made it:
// docs/FORMAT.md says what its digest is of.
func redact(t *testing.T, d *damaged, st *memory.Store, ids string) {
	t.Helper()
	tip, err := d.Log.Tip(t.Context(), st.Info().ID)
	if err != nil {
		t.Fatal(err)
	}
	c := &versionlog.Commit{
		Format: 2, StoreID: st.Info().ID, Seq: tip.Seq + 1, Epoch: 1, Time: tip.Time, Actor: memtest.Author.Actor, Key: versionlog.NewKey(), Prev: tip.Digest,
		Event: &versionlog.Event{Kind: versionlog.EventRedacted, Fields: map[string]string{"versions": ids}},
	}
	h := sha256.New()
	fmt.Fprintln(h, "mneme commit v2")
	for _, line := range [][2]string{
		{"store_id", c.StoreID}, {"seq", fmt.Sprint(c.Seq)}, {"epoch", "1"}, {"time", c.Time.Format("2006-01-02T15:04:05.000000Z")},
		{"actor_kind", string(c.Actor.Kind)}, {"actor_id", c.Actor.ID}, {"session", ""}, {"message", ""}, {"key", c.Key},
		{"prev", c.Prev.String()}, {"event", "redacted"}, {"field", "versions"}, {"value", ids},
	} {
		fmt.Fprintf(h, "%s %d:%s\n", line[0], len(line[1]), line[1])
	}
	c.Digest = cas.Digest(h.Sum(nil))
	one := iter.Seq2[*versionlog.Commit, error](func(yield func(*versionlog.Commit, error) bool) { yield(c, nil) })
	if err := versionlog.Import(t.Context(), d.Log, c.StoreID, one); err != nil {
		t.Fatal(err)
	}
}

// erased makes commits look as a redaction of all their versions leaves them, and
// returns the ids of these.
func erased(t *testing.T, d *damaged, st *memory.Store, seqs ...uint64) map[uint64]string {
	ids := map[uint64]string{}
	for c := range d.Log.Commits(t.Context(), st.Info().ID, 0) {
		if slices.Contains(seqs, c.Seq) {
			ids[c.Seq] = c.Versions[0].ID
		}
	}
	d.commit = func(c *versionlog.Commit) (*versionlog.Commit, error) {
		if id := ids[c.Seq]; id != "" {
			return c.Erase(id), nil
		}
		return c, nil
	}
	return ids
}

// TestVerifyErased: a version that was erased is sound where a later event says so,
// whether it had been replaced, renamed or deleted.
func TestVerifyErased(t *testing.T) {
	d, st := newDamaged(t)
	if _, err := st.Remove(t.Context(), "/dir/c", versionlog.ExpectAny()); err != nil {
		t.Fatal(err)
	}
	ids := erased(t, d, st, 1, 4, 5)
	says := func(seq uint64) string {
		return fmt.Sprintf("record commit %d: version %s was erased, and no later event says so", seq, ids[seq])
	}
	wantFindings(t, st, says(1), says(4), says(5))
	redact(t, d, st, ids[4])
	wantFindings(t, st, says(1), says(5))
	before := d.commit // what cannot be read may be the event
	d.commit = func(c *versionlog.Commit) (*versionlog.Commit, error) {
		if c.Seq == 8 {
			return nil, nil
		}
		return before(c)
	}
	if got, _ := findings(t, st, nil); len(got) != 1 {
		t.Errorf("where the event cannot be read: %q", got)
	}
	d.commit = before
	d.tip = func(tip *versionlog.Tip) { // the last event comes meanwhile
		if tip.Seq == 9 {
			for c := range d.Log.Commits(t.Context(), st.Info().ID, 7) {
				tip.Seq, tip.Digest = c.Seq, c.Digest
				break
			}
		}
	}
	redact(t, d, st, ids[1]+" "+ids[5])
	wantFindings(t, st)
	d.tip = nil
	wantFindings(t, st)
	ids = erased(t, d, st, 3) // a head
	wantFindings(t, st, "head /a: the index has version "+ids[3]+" there, by the records nothing is there", says(3))
}

// TestVerifyEpochs: an epoch begins with a promotion, and none comes back.
func TestVerifyEpochs(t *testing.T) {
	d, st := newDamaged(t)
	if _, err := d.Log.Commit(t.Context(), st.Info().ID, &versionlog.Proposal{Key: "p", Event: versionlog.StorePromoted()}); err != nil {
		t.Fatal(err)
	}
	wantFindings(t, st)
	epochs := map[uint64]uint64{4: 3}
	d.commit = func(c *versionlog.Commit) (*versionlog.Commit, error) {
		if epoch := epochs[c.Seq]; epoch != 0 {
			changed := *c
			changed.Epoch = epoch
			return &changed, nil
		}
		return c, nil
	}
	wantFindings(t, st, "record commit 4: it does not match its digest",
		"record commit 4: it is of epoch 3, which no promotion begins",
		"record commit 5: it is of epoch 1, and the one before it of epoch 3")
	maps.Copy(epochs, map[uint64]uint64{4: 1, 7: 1})
	wantFindings(t, st, "record commit 7: it does not match its digest")
}

// TestVerifyDirectories: directories that were made are heads, and no memories.
func TestVerifyDirectories(t *testing.T) {
	d, st := newDamaged(t)
	_, err := d.Log.Commit(t.Context(), st.Info().ID, &versionlog.Proposal{Key: "d", Changes: []versionlog.Change{
		{Action: versionlog.MakeDir, Path: "/made/", Expect: versionlog.ExpectAbsent()},
	}})
	if err != nil {
		t.Fatal(err)
	}
	got, sum := findings(t, st, nil)
	if len(got) != 0 || sum.Memories != 2 {
		t.Errorf("found %q and %d memories", got, sum.Memories)
	}
	d.head = func(v versionlog.Version) (versionlog.Version, bool) { return v, !v.IsDir() }
	if got, _ := findings(t, st, nil); len(got) != 1 {
		t.Errorf("without its head: %q", got)
	}
}
