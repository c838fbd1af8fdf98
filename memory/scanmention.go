package memory

import (
	"context"
	"maps"
	"slices"

	"mneme/secrets"
	"mneme/versionlog"
)

// Mention is a text of the history that has credentials and is no content.
type Mention struct {
	Found []secrets.Finding // at most maxSecrets
	// What is "path", "message", or the name of a field of the store, such as "description".
	What     string
	Commits  []uint64 // that have the text, the first ones first
	Versions []string // of a path: the ids of those that have it
}

// The texts of a Mention.
const (
	MentionPath    = "path"
	MentionMessage = "message"
)

// ScanMentions looks for credentials in the paths and messages of the commits at and below a
// path, and of the whole store also in its name, description and metadata, as they were. Each
// text is looked at once and told once, in the order in which they came into the store.
func (s *Store) ScanMentions(ctx context.Context, path string) (mentions []Mention, err error) {
	type text struct{ what, text string }
	at := map[text]int{} // -1: it has none
	look := func(seq uint64, id, what, said string) {
		key := text{what, said}
		place, known := at[key]
		if !known {
			place = -1
			if found := secrets.Find([]byte(said), maxSecrets); len(found) > 0 {
				place = len(mentions)
				mentions = append(mentions, Mention{Found: found, What: what})
			}
			at[key] = place
		}
		if place < 0 {
			return
		}
		m := &mentions[place]
		if n := len(m.Commits); n == 0 || m.Commits[n-1] != seq {
			m.Commits = append(m.Commits, seq)
		}
		if n := len(m.Versions); id != "" && (n == 0 || m.Versions[n-1] != id) {
			m.Versions = append(m.Versions, id)
		}
	}
	for c, err := range s.Commits(ctx, 0) {
		if err != nil {
			return nil, err
		}
		concerned := path == "/"
		for i := range c.Versions {
			v := &c.Versions[i]
			if !isWithin(v.Path, path) && (v.From == "" || !isWithin(v.From, path)) {
				continue
			}
			concerned = true
			for _, name := range []string{v.Path, v.From, v.Spelling} {
				look(c.Seq, v.ID, MentionPath, name)
			}
		}
		if !concerned {
			continue
		}
		look(c.Seq, "", MentionMessage, c.Message)
		if e := c.Event; e != nil && (e.Kind == versionlog.EventCreated || e.Kind == versionlog.EventUpdated) {
			for _, name := range slices.Sorted(maps.Keys(e.Fields)) {
				look(c.Seq, "", name, e.Fields[name])
			}
		}
	}
	return mentions, nil
}
