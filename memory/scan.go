package memory

import (
	"context"
	"errors"

	"mneme/cas"
	"mneme/secrets"
	"mneme/versionlog"
)

// Leak is a content that has credentials, with the versions that have it.
type Leak struct {
	Found    []secrets.Finding    // at most maxSecrets
	Versions []versionlog.Version // the oldest first
	Live     bool                 // one of them is the head of its path
}

// ScanSecrets looks for credentials in the versions at and below a path, of memories as they
// were called then; of a path where a memory is or was, in its History. Each content is read
// once, however many versions have it. Leaks come in the order in which their contents came
// into the store, those of which the credentials are the same with the later content, too:
// each has to be replaced, or redacted, by itself.
//
// Unread counts the versions that cannot be looked at. Progress, unless nil, is called with how
// many commits it has looked at. What is committed meanwhile may be missing.
func (s *Store) ScanSecrets(ctx context.Context, path string, progress func(done, total int)) (leaks []Leak, unread Unread, err error) {
	found := map[cas.Digest][]secrets.Finding{}
	t := newCounter(s, func(d cas.Digest, content []byte) int {
		all := secrets.Find(content, maxSecrets)
		if len(all) > 0 {
			found[d] = all
		}
		return len(all)
	})
	at := map[cas.Digest]int{}
	for group, err := range s.oldestFirst(ctx, path, progress) {
		if err == nil {
			err = t.read(ctx, group)
		}
		if err != nil {
			return nil, unread, err
		}
		for i := range group {
			v := &group[i]
			if n := t.in(v); unread.skip(v, n) || n == 0 {
				continue
			}
			place, known := at[v.Digest]
			if !known {
				place = len(leaks)
				at[v.Digest] = place
				leaks = append(leaks, Leak{Found: found[v.Digest]})
			}
			leaks[place].Versions = append(leaks[place].Versions, *v)
		}
	}
	return leaks, unread, s.markLive(ctx, leaks)
}

// markLive notes which leaks heads have.
func (s *Store) markLive(ctx context.Context, leaks []Leak) error {
	heads := map[string]string{}
	for i := range leaks {
		for j := range leaks[i].Versions {
			v := &leaks[i].Versions[j]
			id, asked := heads[v.Path]
			if !asked {
				head, err := s.log.Head(ctx, s.info.ID, v.Path)
				if err != nil && !errors.Is(err, versionlog.ErrNotFound) {
					return s.wrap(v.Path, err)
				}
				id = head.ID
				heads[v.Path] = id
			}
			leaks[i].Live = leaks[i].Live || id == v.ID
		}
	}
	return nil
}
