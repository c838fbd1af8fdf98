package archive

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"mneme/cas"
	"mneme/forget"
	"mneme/memory"
	"mneme/verify"
	"mneme/versionlog"
)

// exportAt exports a store as it was after a commit.
func (p *place) exportAt(st *memory.Store, seq uint64) (*Manifest, *bytes.Buffer) {
	p.t.Helper()
	past, err := p.OpenAt(p.t.Context(), st.Info().ID, seq)
	p.must(err)
	var out bytes.Buffer
	m, err := Export(p.t.Context(), past, &out, nil)
	p.must(err)
	return m, &out
}

// TestRoundTrip: what comes of an archive is the same store, of which the archive is the
// same bytes; at every point of its history.
func TestRoundTrip(t *testing.T) {
	from := newPlace(t)
	st := from.fill("notes")
	tip, err := st.Tip(t.Context())
	from.must(err)
	for seq := range tip.Seq + 1 {
		m, out := from.exportAt(st, seq)
		to := newPlace(t)
		done, err := to.bring(out.Bytes(), ImportOptions{})
		to.must(err)
		if m.Seq != seq || done.Commits != seq {
			t.Errorf("%d commits of %d exported, %d imported", m.Seq, seq, done.Commits)
		}
		to.wantSame("notes", out.Bytes())
		if sum, err := verify.Store(t.Context(), to.open("notes"), nil, func(p verify.Problem) { t.Errorf("commit %d: %+v", seq, p) }); err != nil || sum.Commits != int(seq) {
			t.Errorf("%+v, %v", sum, err)
		}
	}
}

// TestRoundTripRedacted: a history of which versions were erased comes as it is, at every
// point of it, and what was erased is in no archive.
func TestRoundTripRedacted(t *testing.T) {
	from := newPlace(t)
	st := from.fill("notes")
	const secret = "hunter2"
	from.write(st, "/a.md", secret)
	from.write(st, "/a.md", "none")
	from.write(st, "/"+secret, "short-lived "+secret)
	_, err := st.Remove(t.Context(), "/"+secret, versionlog.ExpectAny())
	from.must(err)
	var ids []string
	for c, err := range st.Commits(t.Context(), 0) {
		from.must(err)
		for i := range c.Versions {
			if v := &c.Versions[i]; v.Path == "/"+secret || v.Digest == cas.Sum([]byte(secret)) {
				ids = append(ids, v.ID)
			}
		}
	}
	_, err = forget.Redact(t.Context(), nil, st, &forget.Request{Versions: ids, Reason: "a password"})
	from.must(err)
	from.write(st, "/a.md", "after")
	tip, err := st.Tip(t.Context())
	from.must(err)
	for seq := range tip.Seq + 1 {
		_, out := from.exportAt(st, seq)
		if strings.Contains(out.String(), secret) {
			t.Errorf("the archive of commit %d has what was erased", seq)
		}
		to := newPlace(t)
		_, err := to.bring(out.Bytes(), ImportOptions{})
		to.must(err)
		to.wantSame("notes", out.Bytes())
		if seq == tip.Seq {
			_, err = verify.Store(t.Context(), to.open("notes"), nil, func(p verify.Problem) { t.Errorf("%+v", p) })
			to.must(err)
		}
		merged := newPlace(t)
		_, err = merged.CreateStore(t.Context(), "other", nil)
		merged.must(err)
		_, err = merged.bring(out.Bytes(), ImportOptions{Slug: "other", Mode: Merge})
		merged.must(err)
		if have, want := merged.live("other"), to.live("notes"); have != want {
			t.Errorf("of commit %d %s is merged, want %s", seq, have, want)
		}
	}
}

// TestRoundTripKeys: a history that uses an idempotency key again comes as it is.
func TestRoundTripKeys(t *testing.T) {
	from := newPlace(t)
	st := from.fill("notes")
	tip, err := st.Tip(t.Context())
	from.must(err)
	var first *versionlog.Commit
	past := versionlog.NewRehearsal(st.Info())
	for c, err := range st.Commits(t.Context(), 0) {
		from.must(err)
		from.must(past.Add(c))
		if first == nil {
			first = c
		}
	}
	again := &versionlog.Proposal{Key: first.Key, Changes: []versionlog.Change{
		{Action: versionlog.Put, Path: "/b.md", Expect: versionlog.ExpectAbsent(), Digest: cas.Sum([]byte("one")), Size: 3}}}
	second, err := versionlog.Build(past, past.Store(), tip, again, tip.Time.Add(8*24*time.Hour))
	from.must(err)
	from.must(versionlog.Import(t.Context(), from.log, st.Info().ID, func(yield func(*versionlog.Commit, error) bool) { yield(second, nil) }))

	data, to := from.export("notes", nil), newPlace(t)
	done, err := to.bring(data, ImportOptions{})
	to.must(err)
	if done.Commits != tip.Seq+1 {
		t.Errorf("%d commits of %d were imported", done.Commits, tip.Seq+1)
	}
	to.wantSame("notes", data)
}
