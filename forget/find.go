package forget

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"mneme/cas"
	"mneme/history"
	"mneme/memory"
	"mneme/versionlog"
)

// Query says which versions to erase: those of which everything holds that it asks for. A field that is zero
// asks for nothing.
type Query struct {
	Versions []string // ids, each of which must exist: versionlog.ErrNotFound
	Path     string   // they took place there or below
	Session  string
	Text     string // that their content, path or spelling has
}

// Found is a version that a query takes.
type Found struct {
	versionlog.Version
	Current bool // it is the current one, which is not erased
	Copies  int  // versions that have its content, and that stay
}

// Unseen is what a query could not look at, so that what it takes may be in there.
type Unseen struct {
	What string // "commit 3", "version memver_… of /a.md"
	Why  string
}

// Find returns the versions that a query takes, in the order of the history.
// Those that were erased before are passed over. Unseen are the commits that
// cannot be read and, if the query has a text, the versions whose contents are lost or damaged.
// Progress, unless nil, is called with how many commits were looked at.
func Find(ctx context.Context, st *memory.Store, q Query, progress func(done, total int)) (found []Found, unseen []Unseen, err error) {
	tip, err := st.Tip(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, id := range q.Versions {
		if _, err := st.Version(ctx, id); err != nil {
			return nil, nil, fmt.Errorf("store %s: version %.80q: %w", st.Info().Slug, id, err)
		}
	}
	newest, users := map[string]string{}, map[cas.Digest]int{} // versions by memory, of a content
	texts := &textFinder{store: st, text: []byte(q.Text), in: map[cas.Digest]textFound{}}
	var lost []memory.Gap
	lose := func(seq uint64, why string) {
		if n := len(lost); n == 0 || !lost[n-1].Extend(seq, why) {
			lost = append(lost, memory.Gap{From: seq, To: seq, Why: why})
		}
	}
	for c, err := range st.Readable(ctx, tip.Seq, lose) {
		if err != nil {
			return nil, nil, err
		}
		for i := range c.Versions {
			v := &c.Versions[i]
			newest[v.MemoryID] = v.ID
			if !v.Digest.IsZero() {
				users[v.Digest]++
			}
			if v.Redacted() {
				continue
			}
			ok, err := q.takes(ctx, v, texts)
			if err != nil {
				return nil, nil, err
			}
			if ok {
				found = append(found, Found{Version: *v})
			}
		}
		if progress != nil {
			progress(int(c.Seq), int(tip.Seq))
		}
	}
	for _, r := range lost {
		unseen = append(unseen, Unseen{r.String(), r.Why})
	}
	unseen = append(unseen, texts.unseen...)
	for i := range found {
		v := &found[i]
		if v.Current, err = isCurrent(ctx, st, &v.Version, newest[v.MemoryID], lost); err != nil {
			return nil, nil, err
		}
		if !v.Current {
			users[v.Digest]--
		}
	}
	for i := range found {
		if v := &found[i]; !v.Digest.IsZero() {
			v.Copies = users[v.Digest]
		}
	}
	return found, unseen, nil
}

// isCurrent reports whether a version is the current one of its memory, of which newest is the
// newest that was read. One that could not be read may be newer.
func isCurrent(ctx context.Context, st *memory.Store, v *versionlog.Version, newest string, lost []memory.Gap) (bool, error) {
	if !v.Live() || newest != v.ID || len(lost) == 0 {
		return v.Live() && newest == v.ID, nil
	}
	now, err := st.Newest(ctx, v.MemoryID)
	return now.ID == v.ID, err
}

// takes reports whether the query takes a version.
func (q *Query) takes(ctx context.Context, v *versionlog.Version, texts *textFinder) (bool, error) {
	if len(q.Versions) > 0 && !slices.Contains(q.Versions, v.ID) || q.Session != "" && v.Session != q.Session {
		return false, nil
	}
	if q.Path != "" && q.Path != "/" && !history.IsWithin(v.Path, q.Path) && !history.IsWithin(v.From, q.Path) {
		return false, nil
	}
	if q.Text == "" {
		return true, nil
	}
	for _, name := range []string{v.Path, v.From, v.Spelling} {
		if strings.Contains(name, q.Text) {
			return true, nil
		}
	}
	if v.Digest.IsZero() {
		return false, nil
	}
	return texts.has(ctx, v)
}

// textFinder looks for a text in contents, each of which it reads once.
type textFinder struct {
	store  *memory.Store
	text   []byte
	in     map[cas.Digest]textFound
	unseen []Unseen
}

// textFound says whether a content has the text, or why that is not known.
type textFound struct {
	has  bool
	lost string
}

// has reports whether the content of a version has the text. It notes the version if that
// cannot be read.
func (t *textFinder) has(ctx context.Context, v *versionlog.Version) (bool, error) {
	found, known := t.in[v.Digest]
	if !known {
		data, err := t.store.Content(ctx, *v)
		switch {
		case memory.IsLost(err):
			found.lost = err.Error()
		case err != nil:
			return false, err
		}
		found.has = bytes.Contains(data, t.text)
		t.in[v.Digest] = found
	}
	if found.lost != "" {
		t.unseen = append(t.unseen, Unseen{fmt.Sprintf("version %s of %s", v.ID, v.Path), found.lost})
	}
	return found.has, nil
}
