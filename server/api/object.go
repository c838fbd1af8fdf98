package api

import (
	"context"
	"errors"
	"time"
	"unicode/utf8"

	"mneme/forget"
	"mneme/jsonview"
	"mneme/memory"
	"mneme/versionlog"
)

type storeJSON struct {
	ID          string            `json:"id"`
	Type        string            `json:"type"` // "memory_store"
	Name        string            `json:"name"`
	Slug        string            `json:"slug"` // the name of its directory in a mount
	Description string            `json:"description"`
	Metadata    map[string]string `json:"metadata"`
	CreatedAt   time.Time         `json:"created_at"`
	UpdatedAt   time.Time         `json:"updated_at"`
	ArchivedAt  *time.Time        `json:"archived_at"`
}

func newStore(s versionlog.Store) storeJSON {
	j := storeJSON{
		ID: s.ID, Type: "memory_store", Name: s.Name, Slug: s.Slug, Description: s.Description, Metadata: s.Metadata,
		CreatedAt: s.CreatedAt.UTC(), UpdatedAt: s.UpdatedAt.UTC(),
	}
	if s.UpdatedAt.IsZero() {
		j.UpdatedAt = j.CreatedAt
	}
	if j.Metadata == nil {
		j.Metadata = map[string]string{}
	}
	if !s.ArchivedAt.IsZero() {
		at := s.ArchivedAt.UTC()
		j.ArchivedAt = &at
	}
	return j
}

// deletedJSON says that something is gone.
type deletedJSON struct {
	ID   string `json:"id"`
	Type string `json:"type"`
}

type memoryJSON struct {
	ID        string            `json:"id"`
	Type      string            `json:"type"` // "memory"
	StoreID   string            `json:"memory_store_id"`
	VersionID string            `json:"memory_version_id"`
	Path      string            `json:"path"`
	Content   *string           `json:"content"` // null in a basic view, and where it is not UTF-8
	Base64    []byte            `json:"content_base64,omitempty"`
	SHA256    versionlog.Digest `json:"content_sha256"`
	Size      int64             `json:"content_size_bytes"`
	Seq       uint64            `json:"seq"`
	CreatedAt time.Time         `json:"created_at"`
	UpdatedAt time.Time         `json:"updated_at"`
}

// newMemory is the object of a live version, with its content in the full view.
func newMemory(ctx context.Context, st *memory.Store, v versionlog.Version, full bool) (memoryJSON, error) {
	if !full {
		return memoryOf(st, v), nil
	}
	data, err := st.Content(ctx, v)
	if err != nil {
		return memoryJSON{}, err
	}
	return fullMemory(st, v, data), nil
}

// fullMemory is newMemory of a version whose content is data.
func fullMemory(st *memory.Store, v versionlog.Version, data []byte) memoryJSON {
	j := memoryOf(st, v)
	j.Content, j.Base64 = contentIn(data)
	return j
}

func memoryOf(st *memory.Store, v versionlog.Version) memoryJSON {
	created, err := versionlog.MemoryTime(v.MemoryID)
	if err != nil {
		created = v.Time // an id of another program
	}
	return memoryJSON{
		ID: v.MemoryID, Type: "memory", StoreID: st.Info().ID, VersionID: v.ID, Path: v.Path,
		SHA256: v.Digest, Size: v.Size, Seq: v.Seq, CreatedAt: created.UTC(), UpdatedAt: v.Time.UTC(),
	}
}

// contentIn returns a content as text or, where it is none, as bytes.
func contentIn(data []byte) (*string, []byte) {
	if !utf8.Valid(data) {
		return nil, data
	}
	text := string(data)
	return &text, nil
}

// prefixJSON stands for the memories below a path, which ends in a slash.
type prefixJSON struct {
	Type string `json:"type"` // "memory_prefix"
	Path string `json:"path"`
}

type versionJSON struct {
	ID         string             `json:"id"`
	Type       string             `json:"type"` // "memory_version"
	MemoryID   string             `json:"memory_id"`
	StoreID    string             `json:"memory_store_id"`
	ParentID   *string            `json:"parent_version_id"`
	Operation  string             `json:"operation"`
	Path       *string            `json:"path"`
	Content    *string            `json:"content"`
	Base64     []byte             `json:"content_base64,omitempty"`
	SHA256     *versionlog.Digest `json:"content_sha256"`
	Size       *int64             `json:"content_size_bytes"`
	Seq        uint64             `json:"seq"`
	CreatedAt  time.Time          `json:"created_at"`
	CreatedBy  map[string]string  `json:"created_by"`
	SessionID  string             `json:"session_id,omitempty"`
	RedactedAt *time.Time         `json:"redacted_at"`
	RedactedBy map[string]string  `json:"redacted_by"`
	Redaction  *forget.Receipt    `json:"redaction,omitempty"` // of the request that redacted it
}

// operationOf is the operation of a version: a new path is a modification, too.
func operationOf(op versionlog.Op) string {
	if op == versionlog.OpRenamed {
		op = versionlog.OpModified
	}
	return string(op)
}

// newVersion is the object of a version, with its content in the full view.
func newVersion(ctx context.Context, st *memory.Store, v versionlog.Version, full bool) (versionJSON, error) {
	j := versionJSON{
		ID: v.ID, Type: "memory_version", MemoryID: v.MemoryID, StoreID: st.Info().ID, Operation: operationOf(v.Op),
		Seq: v.Seq, CreatedAt: v.Time.UTC(), CreatedBy: jsonview.NewActor(v.Actor), SessionID: v.Session,
	}
	if v.Parent != "" {
		j.ParentID = &v.Parent
	}
	if v.Redacted() {
		_, err := st.Content(ctx, v)
		at := j.CreatedAt // where the history does not say
		if by := redactedBy(err); by != nil {
			at, j.RedactedBy = by.At.UTC(), jsonview.NewActor(by.By)
		} else if err != nil && !errors.Is(err, memory.ErrRedacted) {
			return j, err
		}
		j.RedactedAt = &at
		return j, nil
	}
	j.Path = &v.Path
	if !v.Live() {
		return j, nil
	}
	j.SHA256, j.Size = &v.Digest, &v.Size
	if full {
		data, err := st.Content(ctx, v)
		if err != nil {
			return j, err
		}
		j.Content, j.Base64 = contentIn(data)
	}
	return j, nil
}
