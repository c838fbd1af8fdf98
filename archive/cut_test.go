package archive

import (
	"bytes"
	"errors"
	"testing"

	"mneme/forget"
	"mneme/history"
	"mneme/memory"
	"mneme/versionlog"
)

// TestCut: what is erased while an export reads the history is erased in it, with the event that
// says so, and nothing of it is taken for lost. Once the archive is being written, it is an error.
func TestCut(t *testing.T) {
	for _, test := range []struct {
		name, step string
		done       int    // of the step
		past       uint64 // so many commits before the newest
		opts       ExportOptions
		fails      bool
	}{
		{"first commit", "commits", 1, 0, ExportOptions{}, false},
		{"last commit", "commits", 13, 0, ExportOptions{}, false},
		{"heads", "check", 1, 0, ExportOptions{Kind: Heads, KeepGoing: true, Workers: 1}, false},
		{"of the past", "commits", 1, 1, ExportOptions{}, false},
		{"keep going", "check", 1, 0, ExportOptions{KeepGoing: true, Workers: 1}, false},
		{"writing", "contents", 1, 0, ExportOptions{Workers: 1}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := newPlace(t)
			st := p.fill("notes")
			p.write(st, "/secret.md", "hunter2")
			if test.opts.Kind != Heads { // there it is erased as soon as it is not live
				p.write(st, "/secret.md", "none")
			}
			tip, err := st.Tip(t.Context())
			p.must(err)
			from, at := st, tip.Seq-test.past
			if test.past > 0 {
				from, err = p.OpenAt(t.Context(), st.Info().ID, at)
				p.must(err)
			}
			erased := false
			test.opts.Lost = func(v versionlog.Version) { t.Errorf("%s is lost", v.Path) }
			test.opts.Progress = func(step string, done, _ int) {
				if erased || step != test.step || done != test.done {
					return
				}
				erased = true
				eraseSecret(p, st)
			}
			var out bytes.Buffer
			m, err := Export(t.Context(), from, &out, &test.opts)
			if !erased {
				t.Fatal("nothing was erased meanwhile")
			}
			if test.fails {
				if !errors.Is(err, memory.ErrRedacted) {
					t.Errorf("error is %v", err)
				}
				return
			}
			p.must(err)
			if (test.past == 0) != (m.Seq > at) {
				t.Errorf("it ends with commit %d; the history did with %d", m.Seq, at)
			}
			if bytes.Contains(out.Bytes(), []byte("hunter2")) || len(m.Lost) > 0 {
				t.Errorf("it has what was erased, or calls it lost: %v", m.Lost)
			}
			test.opts.Progress = nil
			var again bytes.Buffer
			_, err = Export(t.Context(), from, &again, &test.opts)
			p.must(err)
			if !bytes.Equal(out.Bytes(), again.Bytes()) {
				t.Error("it is another archive than one that was made in peace")
			}
			to := newPlace(t)
			_, err = to.bring(out.Bytes(), ImportOptions{})
			to.must(err)
		})
	}
}

// eraseSecret replaces a memory, and erases what it was.
func eraseSecret(p *place, st *memory.Store) {
	p.t.Helper()
	p.write(st, "/secret.md", "nothing")
	var ids []string
	for v, err := range history.Versions(p.t.Context(), st, "/secret.md") {
		p.must(err)
		ids = append(ids, v.ID)
	}
	_, err := forget.Redact(p.t.Context(), nil, st, &forget.Request{Versions: ids[1:], Reason: "a password"})
	p.must(err)
}
