package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"mneme/versionlog"
)

// Store is a versionlog.Store.
type Store struct {
	ID          string                 `json:"id"`
	Slug        string                 `json:"slug"`
	Name        string                 `json:"name"`
	Description string                 `json:"description,omitempty"`
	Metadata    map[string]string      `json:"metadata,omitempty"`
	MaxBytes    int64                  `json:"max_memory_bytes"`
	Content     versionlog.ContentRule `json:"content"`
	Quota       Quota                  `json:"quota,omitzero"`
	Policy      versionlog.Policy      `json:"policy,omitzero"`
	CreatedAt   time.Time              `json:"created_at,omitzero"`
	UpdatedAt   time.Time              `json:"updated_at,omitzero"`
	ArchivedAt  time.Time              `json:"archived_at,omitzero"`
	Epoch       uint64                 `json:"epoch"`
	Replica     bool                   `json:"replica,omitempty"`
}

// Quota is a versionlog.Quota.
type Quota struct {
	Bytes    int64 `json:"bytes,omitempty"`
	Memories int64 `json:"memories,omitempty"`
	PerHour  int64 `json:"per_hour,omitempty"`
}

// StoreOf returns the form of a store.
func StoreOf(s versionlog.Store) *Store {
	return &Store{
		s.ID, s.Slug, s.Name, s.Description, s.Metadata, s.Limits.MaxMemoryBytes, s.Limits.Content, Quota(s.Quota), s.Policy,
		s.CreatedAt, s.UpdatedAt, s.ArchivedAt, s.Epoch, s.Replica,
	}
}

// Store returns the store.
func (s *Store) Store() versionlog.Store {
	var metadata map[string]string
	if len(s.Metadata) > 0 {
		metadata = s.Metadata
	}
	return versionlog.Store{
		ID: s.ID, Slug: s.Slug, Name: s.Name, Description: s.Description, Metadata: metadata,
		Limits: versionlog.Limits{MaxMemoryBytes: s.MaxBytes, Content: s.Content},
		Quota:  versionlog.Quota(s.Quota), Policy: s.Policy,
		CreatedAt: s.CreatedAt.UTC(), UpdatedAt: s.UpdatedAt.UTC(), ArchivedAt: s.ArchivedAt.UTC(), Epoch: s.Epoch, Replica: s.Replica,
	}
}

// Tip is a versionlog.Tip.
type Tip struct {
	Seq        uint64            `json:"seq"`
	Digest     versionlog.Digest `json:"digest,omitzero"`
	Time       time.Time         `json:"time,omitzero"`
	Bytes      int64             `json:"bytes"`
	Memories   int64             `json:"memories"`
	InHour     int64             `json:"in_hour"`
	ArchivedAt time.Time         `json:"archived_at,omitzero"`
}

// TipOf returns the form of a tip.
func TipOf(t versionlog.Tip) *Tip {
	return &Tip{t.Seq, t.Digest, t.Time, t.Totals.Bytes, t.Totals.Memories, t.Totals.InHour, t.ArchivedAt}
}

// Tip returns the tip.
func (t *Tip) Tip() versionlog.Tip {
	return versionlog.Tip{
		Seq: t.Seq, Digest: t.Digest, Time: t.Time.UTC(), ArchivedAt: t.ArchivedAt.UTC(),
		Totals: versionlog.Totals{Bytes: t.Bytes, Memories: t.Memories, InHour: t.InHour},
	}
}

// Filter is a versionlog.Filter.
type Filter struct {
	Session  string        `json:"session,omitempty"`
	ActorID  string        `json:"actor_id,omitempty"`
	From     time.Time     `json:"from,omitzero"`
	To       time.Time     `json:"to,omitzero"`
	Op       versionlog.Op `json:"op,omitempty"`
	MemoryID string        `json:"memory_id,omitempty"`
}

// unchanged is a commit that is not part of the history.
type unchanged struct {
	Unchanged bool              `json:"unchanged"`
	StoreID   string            `json:"store_id"`
	Seq       uint64            `json:"seq"`
	Digest    versionlog.Digest `json:"digest,omitzero"`
	Time      time.Time         `json:"time,omitzero"`
}

// EncodeCommit returns the record of a commit, which docs/FORMAT.md describes; of one that
// changes nothing, an object with "unchanged":true and the tip.
func EncodeCommit(c *versionlog.Commit) ([]byte, error) {
	if !c.Changes() {
		return json.Marshal(unchanged{true, c.StoreID, c.Seq, c.Digest, c.Time})
	}
	return versionlog.EncodeRecord(c)
}

// DecodeCommit reads what EncodeCommit writes, and verifies that a record is whole.
func DecodeCommit(data []byte) (*versionlog.Commit, error) {
	if len(data) == 0 {
		return nil, errors.New("an answer without a commit")
	}
	if objects, commas := count(data); objects > versionlog.MaxChanges+maxAround || commas > len(data)/minMember+1000 {
		return nil, fmt.Errorf("a commit of %d objects and %d members", objects, commas)
	}
	var u unchanged
	if err := json.Unmarshal(data, &u); err != nil {
		return nil, fmt.Errorf("a commit: %w", err)
	}
	if u.Unchanged {
		return &versionlog.Commit{StoreID: u.StoreID, Seq: u.Seq, Digest: u.Digest, Time: u.Time.UTC()}, nil
	}
	return versionlog.DecodeRecord(data)
}
