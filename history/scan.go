package history

import (
	"context"
	"errors"

	"mneme/cas"
	"mneme/memory"
	"mneme/secrets"
	"mneme/versionlog"
)

// Leak is a content that has credentials, with the versions that have it.
type Leak struct {
	Found    []secrets.Finding    // at most maxSecrets
	Versions []versionlog.Version // the oldest first
	Live     bool                 // one of them is the head of its path
}

// Scanned lists the credentials in a history.
type Scanned struct {
	Leaks    []Leak
	Mentions []Mention
	Unread   Unread // the versions that cannot be looked at
}

// Scan looks for credentials at and below a path.
//
// Leaks are those in the versions of memories as they were called then; of a path where a memory is
// or was, in its History. Each content is read once, however many versions have it. They come in the
// order in which their contents came into the store, and a later content with the same credentials is
// listed, too: each must be replaced, or redacted, separately.
//
// Mentions are those in paths and messages of commits, and of the whole store also in its name,
// description and metadata, as they were. Each text is scanned once and reported once, in the order
// in which they came into the store.
//
// Progress, unless nil, is called with the number of commits that it has scanned. Commits that are
// made meanwhile may be missing.
func Scan(ctx context.Context, s *memory.Store, path string, progress func(done, total int)) (*Scanned, error) {
	found := map[cas.Digest][]secrets.Finding{}
	t := newCounter(s, func(d cas.Digest, content []byte) int {
		all := secrets.Find(content, memory.MaxSecrets)
		if len(all) > 0 {
			found[d] = all
		}
		return len(all)
	})
	at := map[cas.Digest]int{}
	out, said := &Scanned{}, newMentions(path)
	for group, err := range oldestFirst(ctx, s, path, said.add, progress) {
		if err == nil {
			err = t.read(ctx, group)
		}
		if err != nil {
			return nil, err
		}
		for i := range group {
			v := &group[i]
			if n := t.in(v); out.Unread.skip(v, n) || n == 0 {
				continue
			}
			place, known := at[v.Digest]
			if !known {
				place = len(out.Leaks)
				at[v.Digest] = place
				out.Leaks = append(out.Leaks, Leak{Found: found[v.Digest]})
			}
			out.Leaks[place].Versions = append(out.Leaks[place].Versions, *v)
		}
	}
	if said.last == 0 { // the versions were those of a History
		for c, err := range s.Commits(ctx, 0) {
			if err != nil {
				return nil, err
			}
			said.add(c)
		}
	}
	out.Mentions = said.all
	return out, markLive(ctx, s, out.Leaks)
}

// markLive notes which leaks heads have.
func markLive(ctx context.Context, s *memory.Store, leaks []Leak) error {
	heads := map[string]string{}
	for i := range leaks {
		for j := range leaks[i].Versions {
			v := &leaks[i].Versions[j]
			id, asked := heads[v.Path]
			if !asked {
				head, err := s.Log().Head(ctx, s.Info().ID, v.Path)
				if err != nil && !errors.Is(err, versionlog.ErrNotFound) {
					return s.Wrap(v.Path, err)
				}
				id = head.ID
				heads[v.Path] = id
			}
			leaks[i].Live = leaks[i].Live || id == v.ID
		}
	}
	return nil
}
