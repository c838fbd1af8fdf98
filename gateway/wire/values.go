package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"mneme/versionlog"
)

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
