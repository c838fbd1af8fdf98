// Package jsonview has commits and versions in JSON as programs get them, whichever face they
// ask: --json of the command line, .mneme/events of a mount, events of a server. Names and values
// follow the memory-stores API where it has them; all names are stable.
package jsonview

import (
	"time"

	"mneme/versionlog"
)

// Version is a version.
type Version struct {
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

// HasContent reports whether a version has a content, of which it says size and hash: it is no deletion
// and no directory, and was not erased.
func HasContent(v *versionlog.Version) bool { return v.Live() && !v.IsDir() && !v.Redacted() }

// NewVersion returns the form of a version.
func NewVersion(storeID string, v versionlog.Version) Version {
	j := Version{
		ID: v.ID, Type: "memory_version", MemoryID: v.MemoryID, StoreID: storeID, ParentID: v.Parent,
		Seq: v.Seq, Operation: string(v.Op), Path: v.Path, FromPath: v.From,
		CreatedAt: v.Time.UTC(), CreatedBy: NewActor(v.Actor), SessionID: v.Session, Message: v.Message,
	}
	if HasContent(&v) {
		j.SHA256, j.Size = &v.Digest, &v.Size
	}
	return j
}

// NewActor returns the form of an author, in which the name of its id says its kind.
func NewActor(a versionlog.Actor) map[string]string {
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

// Commit is a commit, with its versions or its event.
type Commit struct {
	Type      string            `json:"type"`
	StoreID   string            `json:"memory_store_id"`
	Seq       uint64            `json:"seq"`
	Digest    versionlog.Digest `json:"digest"`
	CreatedAt time.Time         `json:"created_at"`
	CreatedBy map[string]string `json:"created_by"` // nil: the commit is the newest one, and none was to be made
	SessionID string            `json:"session_id,omitempty"`
	Message   string            `json:"message,omitempty"`
	Metadata  map[string]string `json:"metadata,omitempty"`
	Event     *Event            `json:"event,omitempty"` // of the store as a whole, instead of versions
	Versions  []Version         `json:"versions"`
}

// Event is an event of a store as a whole.
type Event struct {
	Kind   string            `json:"kind"`
	Fields map[string]string `json:"fields,omitempty"`
}

// NewCommit returns the form of a commit.
func NewCommit(c *versionlog.Commit) Commit {
	j := Commit{
		Type: "commit", StoreID: c.StoreID, Seq: c.Seq, Digest: c.Digest, CreatedAt: c.Time.UTC(),
		SessionID: c.Session, Message: c.Message, Metadata: c.Meta, Versions: []Version{},
	}
	if c.Actor != (versionlog.Actor{}) { // else it changes nothing
		j.CreatedBy = NewActor(c.Actor)
	}
	if c.Event != nil {
		j.Event = &Event{string(c.Event.Kind), c.Event.Fields}
	}
	for _, v := range c.Versions {
		j.Versions = append(j.Versions, NewVersion(c.StoreID, v))
	}
	return j
}
