// Package wire is the gateway protocol, by which a version log and its blobs are used over
// HTTP: the paths, the forms of requests and answers, and of errors. docs/GATEWAY.md
// describes it. The client is package gateway, the server package server/gate.
package wire

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
	"unicode/utf8"

	"mneme/versionlog"
)

// Protocol is the version of the protocol. It changes when an older side would
// misunderstand a newer one; members of JSON objects may be added without that.
const Protocol = 1

// Prefix begins the path of each operation; its name follows.
const Prefix = "/v1/mneme/gateway/"

// The operations, which are all POST.
const (
	OpHello         = "hello"
	OpCreateStore   = "create-store"
	OpStore         = "store"
	OpStores        = "stores"
	OpDeleteStore   = "delete-store"
	OpCommit        = "commit"
	OpTip           = "tip"
	OpHead          = "head"
	OpLast          = "last"
	OpHeld          = "held"
	OpHeads         = "heads"
	OpChildren      = "children"
	OpVersion       = "version"
	OpHistory       = "history"
	OpPathHistory   = "path-history"
	OpNewest        = "newest"
	OpAt            = "at"
	OpSeqAt         = "seq-at"
	OpCommits       = "commits"
	OpCommitsBefore = "commits-before"
	OpFollow        = "follow"
	OpPurge         = "purge"
	OpUnpurged      = "unpurged"
	OpLeft          = "left"
	OpForget        = "forget"
	OpGetBlobs      = "get-blobs"
	OpHasBlobs      = "has-blobs"
	OpPutBlob       = "put-blob"
)

// The types of bodies.
const (
	TypeJSON   = "application/json"
	TypeBytes  = "application/octet-stream"
	TypeStream = "application/vnd.mneme.stream"
	TypeError  = "application/vnd.mneme.error+json" // by which an error of the server is told from one of a proxy
)

// DigestHeader has the SHA-256 of the blob that a request puts, and StoreHeader the id of the store of
// a blob or a commit: where the caller lacks the right to it, the body is not read.
const (
	DigestHeader = "Mneme-Sha256"
	StoreHeader  = "Mneme-Store"
)

// Limits of the protocol, in bytes but for MaxBatch.
const (
	MaxAsk      = 1 << 20   // of a request, but for those that carry contents
	MaxContent  = 1 << 20   // of a content that rides with its commit
	MaxRiding   = 16 << 20  // of all contents that ride with one commit
	MaxProposal = 64 << 20  // of the JSON of a proposal
	MaxBlob     = 256 << 20 // of a blob
	MaxAnswer   = 64 << 20  // of an answer that is no stream
	MaxBatch    = 256       // blobs of one request
)

// PollTime is how long the server lets a follower wait, and AliveTime the longest that a
// stream is silent.
const (
	PollTime  = 50 * time.Second
	AliveTime = 10 * time.Second
)

// Hello is the server's first answer to a client.
type Hello struct {
	Protocol       int  `json:"protocol"`
	MaxContent     int  `json:"max_content"` // of a content that may ride with a commit, at most MaxContent
	Purges         bool `json:"purges"`      // there is purge
	TellsUnpurged  bool `json:"tells_unpurged"`
	TellsLeft      bool `json:"tells_left"`
	Forgets        bool `json:"forgets"`         // there is forget
	ErasesContents bool `json:"erases_contents"` // see versionlog.Capabilities; a log that keeps contents erases them

	Caller *Caller `json:"caller,omitempty"` // nil: the server does not say
}

// Caller is the identity and the rights of a credential. Rights are none, read, write and
// admin.
type Caller struct {
	Key        string            `json:"key"`               // id of the key that it is, or was made with
	Session    string            `json:"session,omitempty"` // of a token; "": that which a commit says
	Everywhere string            `json:"everywhere"`        // the right in each store
	Grants     map[string]string `json:"grants,omitempty"`  // by the id of a store, where it is more
}

// Ask is a request that carries no contents. Which members count, the operation says.
type Ask struct {
	Store  string     `json:"store,omitempty"` // id
	Slug   Text       `json:"slug,omitempty"`
	Path   Text       `json:"path,omitempty"`
	After  Text       `json:"after,omitempty"` // a path or a slug
	ID     string     `json:"id,omitempty"`    // of a memory or a version
	Seq    uint64     `json:"seq,omitempty"`
	At     *uint64    `json:"at,omitempty"` // nil: now
	Time   *time.Time `json:"time,omitempty"`
	Filter *Filter    `json:"filter,omitempty"`

	Versions []string            `json:"versions,omitempty"`
	Blobs    []versionlog.Digest `json:"blobs,omitempty"` // at most MaxBatch, but for forget
	Text     Text                `json:"text,omitempty"`  // that is looked for in what is kept
	New      *Store              `json:"new,omitempty"`
}

// Answer is an answer that is no stream.
type Answer struct {
	Hello   *Hello          `json:"hello,omitempty"`
	Store   *Store          `json:"store,omitempty"`
	Tip     *Tip            `json:"tip,omitempty"`
	Version json.RawMessage `json:"version,omitempty"`
	Commit  json.RawMessage `json:"commit,omitempty"` // see EncodeCommit
	Yes     bool            `json:"yes,omitempty"`
	Seq     uint64          `json:"seq,omitempty"`
	Seqs    []uint64        `json:"seqs,omitempty"`
	Has     []bool          `json:"has,omitempty"` // of each blob asked for, in their order
	Purged  []Purged        `json:"purged,omitempty"`
}

// Purged is a versionlog.Purged.
type Purged struct {
	Place string    `json:"place"`
	At    time.Time `json:"at,omitzero"`
	Why   string    `json:"why,omitempty"`
}

// Text is a text that need not be UTF-8, which a JSON string must be: one that is not is
// {"bytes":"…"}, in base64.
type Text string

type textBytes struct {
	Bytes string `json:"bytes"`
}

// MarshalJSON writes the text.
func (t Text) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(t)) {
		return json.Marshal(string(t))
	}
	return json.Marshal(textBytes{base64.StdEncoding.EncodeToString([]byte(t))})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (t *Text) UnmarshalJSON(data []byte) error {
	if len(data) == 0 || data[0] != '{' {
		return json.Unmarshal(data, (*string)(t))
	}
	var b textBytes
	err := json.Unmarshal(data, &b)
	text, decodeErr := base64.StdEncoding.DecodeString(b.Bytes)
	if err == nil && decodeErr != nil {
		err = fmt.Errorf("bytes: %w", decodeErr)
	}
	*t = Text(text)
	return err
}

// The first byte of an item of get-blobs.
const (
	BlobFound  = 'b' // the bytes follow
	BlobFailed = 'x' // an Error follows, in JSON
	BlobLater  = 'l' // the answer has become long: ask again
)

// MaxBlobs is how many bytes of blobs an answer has before the client must ask again for
// the rest.
const MaxBlobs = 8 << 20

// ReadAsk decodes a request. A member that it does not know it refuses: it would leave out
// what was meant.
func ReadAsk(data []byte) (*Ask, error) {
	a := &Ask{}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	err := d.Decode(a)
	if err == nil && d.More() {
		err = errors.New("something follows it")
	}
	if err == nil && len(a.Blobs) > MaxBatch {
		err = fmt.Errorf("%d blobs, at most %d", len(a.Blobs), MaxBatch)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: the request: %w", versionlog.ErrInvalid, err)
	}
	return a, nil
}

// ReadAnswer decodes an answer.
func ReadAnswer(data []byte) (*Answer, error) {
	a := &Answer{}
	if objects, _ := count(data); objects > versionlog.MaxChanges+maxAround {
		return nil, fmt.Errorf("an answer of %d objects", objects)
	}
	if err := json.Unmarshal(data, a); err != nil {
		return nil, fmt.Errorf("an answer: %w", err)
	}
	return a, nil
}

// IsStream reports whether an answer is a stream.
func IsStream(h http.Header) bool { return h.Get("Content-Type") == TypeStream }
