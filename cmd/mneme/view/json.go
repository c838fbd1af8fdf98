// Package view shows stores, versions and memories to people, and writes them in JSON.
// It uses app and jsonview, and holds nothing of a single command. Read json.go first, then
// versionref.go.
package view

import (
	"encoding/json"
	"time"
	"unicode/utf8"

	"mneme/jsonview"
	"mneme/versionlog"
)

// The objects of --json. Names and values follow the memory stores API, if it has them. All
// names are stable.

// Store is a store in JSON.
type Store struct {
	ID             string            `json:"id"`
	Type           string            `json:"type"`
	Name           string            `json:"name"`
	Slug           string            `json:"slug"`
	Description    string            `json:"description"`
	MaxMemoryBytes int64             `json:"max_memory_bytes"`
	Content        string            `json:"content"`
	CreatedAt      time.Time         `json:"created_at"`
	UpdatedAt      time.Time         `json:"updated_at"` // until the first update, the time of its creation
	ArchivedAt     *time.Time        `json:"archived_at"`
	Quota          *quotaJSON        `json:"quota,omitempty"`
	Policy         versionlog.Policy `json:"policy,omitzero"`
	Metadata       metaJSON          `json:"metadata"`
}

// metaJSON are pairs of metadata. Without pairs it is an empty object.
type metaJSON map[string]string

func (m metaJSON) MarshalJSON() ([]byte, error) {
	if m == nil {
		return []byte("{}"), nil
	}
	return json.Marshal(map[string]string(m))
}

// quotaJSON is a quota. A missing bound is unlimited.
type quotaJSON struct {
	Bytes    int64 `json:"bytes,omitempty"`
	Memories int64 `json:"memories,omitempty"`
	Versions int64 `json:"versions_per_hour,omitempty"`
}

// NewStore returns the JSON form of a store.
func NewStore(s versionlog.Store) Store {
	j := Store{
		ID: s.ID, Type: "memory_store", Name: s.Name, Slug: s.Slug, Description: s.Description,
		MaxMemoryBytes: s.Limits.MaxMemoryBytes, Content: string(s.Limits.Content), CreatedAt: s.CreatedAt.UTC(),
		UpdatedAt: s.CreatedAt.UTC(), Metadata: s.Metadata, Policy: s.Policy,
	}
	if !s.UpdatedAt.IsZero() {
		j.UpdatedAt = s.UpdatedAt.UTC()
	}
	if !s.ArchivedAt.IsZero() {
		at := s.ArchivedAt.UTC()
		j.ArchivedAt = &at
	}
	if q := s.Quota; q != (versionlog.Quota{}) {
		j.Quota = &quotaJSON{q.Bytes, q.Memories, q.PerHour}
	}
	return j
}

// Memory is a memory in JSON.
type Memory struct {
	ID        string            `json:"id"`
	Type      string            `json:"type"`
	StoreID   string            `json:"memory_store_id"`
	VersionID string            `json:"memory_version_id"`
	Seq       uint64            `json:"seq"`
	Path      string            `json:"path"`
	SHA256    versionlog.Digest `json:"content_sha256"`
	Size      int64             `json:"content_size_bytes"`
	UpdatedAt time.Time         `json:"updated_at"`
}

// NewMemory returns the JSON form of the memory of a version.
func NewMemory(storeID string, v versionlog.Version) Memory {
	return Memory{
		ID: v.MemoryID, Type: "memory", StoreID: storeID, VersionID: v.ID, Seq: v.Seq,
		Path: v.Path, SHA256: v.Digest, Size: v.Size, UpdatedAt: v.Time.UTC(),
	}
}

// Prefix is a directory. Its path ends with a slash.
type Prefix struct {
	Type string `json:"type"`
	Path string `json:"path"`
}

// contentJSON is a version with its content. UTF-8 is written as text.
type contentJSON struct {
	jsonview.Version
	Content       *string `json:"content,omitempty"`
	ContentBase64 []byte  `json:"content_base64,omitempty"`
}

// NewContent returns the JSON form of a version with its content.
func NewContent(storeID string, v versionlog.Version, data []byte) contentJSON {
	j := contentJSON{Version: jsonview.NewVersion(storeID, v)}
	if utf8.Valid(data) {
		text := string(data)
		j.Content = &text
	} else {
		j.ContentBase64 = data
	}
	return j
}
