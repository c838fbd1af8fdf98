package main

import (
	"encoding/json"
	"time"
	"unicode/utf8"

	"mneme/versionlog"
)

// The objects of --json. Names and values follow the memory stores API where
// it has them; all names are stable.

type storeJSON struct {
	ID             string            `json:"id"`
	Type           string            `json:"type"`
	Name           string            `json:"name"`
	Slug           string            `json:"slug"`
	Description    string            `json:"description"`
	MaxMemoryBytes int64             `json:"max_memory_bytes"`
	Content        string            `json:"content"`
	CreatedAt      time.Time         `json:"created_at"`
	UpdatedAt      time.Time         `json:"updated_at"` // that of its creation until then
	ArchivedAt     *time.Time        `json:"archived_at"`
	Quota          *quotaJSON        `json:"quota,omitempty"`
	Policy         versionlog.Policy `json:"policy,omitzero"`
	Metadata       metaJSON          `json:"metadata"`
}

// metaJSON are pairs of metadata; none are an empty object.
type metaJSON map[string]string

func (m metaJSON) MarshalJSON() ([]byte, error) {
	if m == nil {
		return []byte("{}"), nil
	}
	return json.Marshal(map[string]string(m))
}

// quotaJSON is a quota; a bound that is missing is any number.
type quotaJSON struct {
	Bytes    int64 `json:"bytes,omitempty"`
	Memories int64 `json:"memories,omitempty"`
	Versions int64 `json:"versions_per_hour,omitempty"`
}

func newStoreJSON(s versionlog.Store) storeJSON {
	j := storeJSON{
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

type memoryJSON struct {
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

func newMemoryJSON(storeID string, v versionlog.Version) memoryJSON {
	return memoryJSON{
		ID: v.MemoryID, Type: "memory", StoreID: storeID, VersionID: v.ID, Seq: v.Seq,
		Path: v.Path, SHA256: v.Digest, Size: v.Size, UpdatedAt: v.Time.UTC(),
	}
}

// prefixJSON is a directory; its path ends with a slash.
type prefixJSON struct {
	Type string `json:"type"`
	Path string `json:"path"`
}

type versionJSON struct {
	ID        string             `json:"id"`
	Type      string             `json:"type"`
	MemoryID  string             `json:"memory_id"`
	StoreID   string             `json:"memory_store_id"`
	ParentID  string             `json:"parent_version_id,omitempty"`
	Seq       uint64             `json:"seq"`
	Operation string             `json:"operation"`
	Path      string             `json:"path"`
	FromPath  string             `json:"from_path,omitempty"`
	SHA256    *versionlog.Digest `json:"content_sha256"`
	Size      *int64             `json:"content_size_bytes"`
	CreatedAt time.Time          `json:"created_at"`
	CreatedBy map[string]string  `json:"created_by"`
	SessionID string             `json:"session_id,omitempty"`
	Message   string             `json:"message,omitempty"`
}

// hasContent reports whether a version has a content, of which it says size and hash: it is no deletion
// and no directory, and was not erased.
func hasContent(v *versionlog.Version) bool { return v.Live() && !v.IsDir() && !v.Redacted() }

func newVersionJSON(storeID string, v versionlog.Version) versionJSON {
	j := versionJSON{
		ID: v.ID, Type: "memory_version", MemoryID: v.MemoryID, StoreID: storeID, ParentID: v.Parent,
		Seq: v.Seq, Operation: string(v.Op), Path: v.Path, FromPath: v.From,
		CreatedAt: v.Time.UTC(), CreatedBy: newActorJSON(v.Actor), SessionID: v.Session, Message: v.Message,
	}
	if hasContent(&v) {
		j.SHA256, j.Size = &v.Digest, &v.Size
	}
	return j
}

func newActorJSON(a versionlog.Actor) map[string]string {
	switch a.Kind {
	case versionlog.ActorSession:
		return map[string]string{"type": "session_actor", "session_id": a.ID}
	case versionlog.ActorUser:
		return map[string]string{"type": "user_actor", "user_id": a.ID}
	case versionlog.ActorAPIKey:
		return map[string]string{"type": "api_actor", "api_key_id": a.ID}
	case versionlog.ActorServiceAccount:
		return map[string]string{"type": "service_account_actor", "service_account_id": a.ID}
	}
	return map[string]string{"type": string(a.Kind), "id": a.ID}
}

type commitJSON struct {
	Type      string            `json:"type"`
	StoreID   string            `json:"memory_store_id"`
	Seq       uint64            `json:"seq"`
	Digest    versionlog.Digest `json:"digest"`
	CreatedAt time.Time         `json:"created_at"`
	CreatedBy map[string]string `json:"created_by"`
	SessionID string            `json:"session_id,omitempty"`
	Message   string            `json:"message,omitempty"`
	Metadata  map[string]string `json:"metadata,omitempty"`
	Event     *eventJSON        `json:"event,omitempty"` // of the store as a whole, instead of versions
	Versions  []versionJSON     `json:"versions"`
}

type eventJSON struct {
	Kind   string            `json:"kind"`
	Fields map[string]string `json:"fields,omitempty"`
}

func newCommitJSON(c *versionlog.Commit) commitJSON {
	j := commitJSON{
		Type: "commit", StoreID: c.StoreID, Seq: c.Seq, Digest: c.Digest, CreatedAt: c.Time.UTC(),
		CreatedBy: newActorJSON(c.Actor), SessionID: c.Session, Message: c.Message, Metadata: c.Meta, Versions: []versionJSON{},
	}
	if c.Event != nil {
		j.Event = &eventJSON{string(c.Event.Kind), c.Event.Fields}
	}
	for _, v := range c.Versions {
		j.Versions = append(j.Versions, newVersionJSON(c.StoreID, v))
	}
	return j
}

// contentJSON is a version with its content, as text where it is UTF-8.
type contentJSON struct {
	versionJSON
	Content       *string `json:"content,omitempty"`
	ContentBase64 []byte  `json:"content_base64,omitempty"`
}

func newContentJSON(storeID string, v versionlog.Version, data []byte) contentJSON {
	j := contentJSON{versionJSON: newVersionJSON(storeID, v)}
	if utf8.Valid(data) {
		text := string(data)
		j.Content = &text
	} else {
		j.ContentBase64 = data
	}
	return j
}
