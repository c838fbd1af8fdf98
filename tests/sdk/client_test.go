package sdk

import (
	"context"
	"encoding/json"
	"time"
)

// client is an SDK.
type client interface {
	// do makes a call. It fails if the SDK does.
	do(context.Context, call) (answer, *failure)
}

// call is one of the 14 operations, by its name in the TypeScript SDK.
type call struct {
	Op         string `json:"op"`         // such as memories.update
	ID         string `json:"id"`         // of its subject; of a creation and a list of memories and versions the store
	Params     params `json:"params"`     // by their names on the wire
	Once       string `json:"once"`       // the x-idempotency-key; "": none
	All        bool   `json:"all"`        // of a list: by the SDK's iterator over all pages
	Credential string `json:"credential"` // a key or a token
}

type params struct {
	StoreID          string            `json:"memory_store_id,omitempty"`
	Name             string            `json:"name,omitempty"`
	Description      string            `json:"description,omitempty"`
	Metadata         map[string]string `json:"metadata,omitempty"`
	Path             string            `json:"path,omitempty"`
	Content          *string           `json:"content,omitempty"`
	View             string            `json:"view,omitempty"`
	Precondition     *precondition     `json:"precondition,omitempty"`
	ExpectedSHA256   string            `json:"expected_content_sha256,omitempty"`
	PathPrefix       string            `json:"path_prefix,omitempty"`
	Depth            int64             `json:"depth,omitempty"`
	Limit            int64             `json:"limit,omitempty"`
	Page             string            `json:"page,omitempty"`
	IncludeArchived  bool              `json:"include_archived,omitempty"`
	MemoryID         string            `json:"memory_id,omitempty"`
	Operation        string            `json:"operation,omitempty"`
	SessionID        string            `json:"session_id,omitempty"`
	APIKeyID         string            `json:"api_key_id,omitempty"`
	ServiceAccountID string            `json:"service_account_id,omitempty"`
	From             time.Time         `json:"created_at[gte],omitzero"`
	To               time.Time         `json:"created_at[lte],omitzero"`
}

type precondition struct {
	Type   string `json:"type"` // "content_sha256"
	SHA256 string `json:"content_sha256"`
}

// answer is what an SDK has read.
type answer struct {
	Data     []object `json:"data"` // one, but of a list
	NextPage string   `json:"next_page"`
}

// object is a store, a memory, a prefix, a version, or the rest of one. A field that an SDK does
// not have is zero.
type object struct {
	ID          string            `json:"id"`
	Type        string            `json:"type"`
	Name        string            `json:"name"`
	Description string            `json:"description"`
	Metadata    map[string]string `json:"metadata"`
	StoreID     string            `json:"memory_store_id"`
	MemoryID    string            `json:"memory_id"`
	VersionID   string            `json:"memory_version_id"`
	Path        string            `json:"path"`
	Content     string            `json:"content"`
	SHA256      string            `json:"content_sha256"`
	Size        int64             `json:"content_size_bytes"`
	Operation   string            `json:"operation"`
	CreatedAt   time.Time         `json:"created_at"`
	UpdatedAt   time.Time         `json:"updated_at"`
	ArchivedAt  time.Time         `json:"archived_at"`
	RedactedAt  time.Time         `json:"redacted_at"`
	CreatedBy   actor             `json:"created_by"`
	RedactedBy  actor             `json:"redacted_by"`
}

type actor struct {
	Type      string `json:"type"`
	APIKeyID  string `json:"api_key_id"`
	SessionID string `json:"session_id"`
}

// failure is an SDK's error.
type failure struct {
	Status    int             `json:"status"` // 0: there was no answer
	Type      string          `json:"type"`
	RequestID string          `json:"request_id"`
	Class     string          `json:"class"` // in which the SDK throws it; "": it has one for all
	Body      json.RawMessage `json:"body"`
}
