package witness

import (
	"time"

	"mneme/versionlog"
)

// format is that of the files.
const format = 1

// memo is what a file remembers of a store.
type memo struct {
	Format  int               `json:"format"`
	Library string            `json:"library"` // which the store is in
	Seq     uint64            `json:"seq"`     // of the newest commit that was seen; 0: none
	Digest  versionlog.Digest `json:"digest"`  // of that commit
	Store   description       `json:"store"`   // as it was when it was opened last,
	// Described is the newest commit then; 0 in files of a mneme that knew no events.
	Described uint64 `json:"described,omitempty"`
}

// description is a store as a file has it.
type description struct {
	ID             string    `json:"id"`
	Slug           string    `json:"slug"`
	Name           string    `json:"name"`
	Description    string    `json:"description"`
	MaxMemoryBytes int64     `json:"max_memory_bytes"`
	Content        string    `json:"content"`
	CreatedAt      time.Time `json:"created_at"`
	ArchivedAt     time.Time `json:"archived_at,omitzero"`
}

func describe(s versionlog.Store) description {
	return description{
		ID: s.ID, Slug: s.Slug, Name: s.Name, Description: s.Description,
		MaxMemoryBytes: s.Limits.MaxMemoryBytes, Content: string(s.Limits.Content), CreatedAt: s.CreatedAt.UTC(), ArchivedAt: s.ArchivedAt.UTC(),
	}
}

func (w *Witness) memo(tip versionlog.Tip, s versionlog.Store) memo {
	return memo{Format: format, Library: w.library, Seq: tip.Seq, Digest: tip.Digest, Store: describe(s), Described: tip.Seq}
}

// store returns the store, as far as it is described.
func (d description) store() versionlog.Store {
	return versionlog.Store{
		ID: d.ID, Slug: d.Slug, Name: d.Name, Description: d.Description,
		Limits:    versionlog.Limits{MaxMemoryBytes: d.MaxMemoryBytes, Content: versionlog.ContentRule(d.Content)},
		CreatedAt: d.CreatedAt, ArchivedAt: d.ArchivedAt,
	}
}
