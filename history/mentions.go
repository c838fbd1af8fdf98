package history

import (
	"maps"
	"slices"

	"mneme/memory"
	"mneme/secrets"
	"mneme/versionlog"
)

// Mention is a text of the history that has credentials and is no content.
type Mention struct {
	Found []secrets.Finding // at most maxSecrets
	// The field What is "path", "message", or the name of a field of the store, such as
	// "description".
	What     string
	Commits  []uint64 // that have the text, the first ones first
	Versions []string // of a path: the ids of those that have it
}

// mentions are those of commits at and below a path.
type mentions struct {
	path string
	last uint64 // commit that was added; 0: none
	all  []Mention
	at   map[mentioned]int // the index in all; -1: there is none
}

type mentioned struct{ what, text string }

func newMentions(path string) *mentions { return &mentions{path: path, at: map[mentioned]int{}} }

// add takes the next commit.
func (m *mentions) add(c *versionlog.Commit) {
	m.last = c.Seq
	concerned := m.path == "/"
	for i := range c.Versions {
		v := &c.Versions[i]
		if !IsWithin(v.Path, m.path) && (v.From == "" || !IsWithin(v.From, m.path)) {
			continue
		}
		concerned = true
		for _, name := range []string{v.Path, v.From, v.Spelling} {
			m.look(c.Seq, v.ID, memory.MentionPath, name)
		}
	}
	if !concerned {
		return
	}
	m.look(c.Seq, "", memory.MentionMessage, c.Message)
	if e := c.Event; e != nil && (e.Kind == versionlog.EventCreated || e.Kind == versionlog.EventUpdated) {
		for _, name := range slices.Sorted(maps.Keys(e.Fields)) {
			m.look(c.Seq, "", name, e.Fields[name])
		}
	}
}

// look looks at one text of a commit, and of a version unless id is empty.
func (m *mentions) look(seq uint64, id, what, said string) {
	key := mentioned{what, said}
	place, known := m.at[key]
	if !known {
		place = -1
		if found := secrets.Find([]byte(said), memory.MaxSecrets); len(found) > 0 {
			place = len(m.all)
			m.all = append(m.all, Mention{Found: found, What: what})
		}
		m.at[key] = place
	}
	if place < 0 {
		return
	}
	one := &m.all[place]
	if n := len(one.Commits); n == 0 || one.Commits[n-1] != seq {
		one.Commits = append(one.Commits, seq)
	}
	if n := len(one.Versions); id != "" && (n == 0 || one.Versions[n-1] != id) {
		one.Versions = append(one.Versions, id)
	}
}
