package plugin

import (
	"fmt"
	"time"
	"unicode/utf8"
)

// Limits bound what Recall returns; a zero field is its default. If one is less than 1 or more
// than there may be, Recall takes the default or the most instead, and says so in the Notes of
// Diagnostics; in the Reasons, if something is left out that the request has room for.
type Limits struct {
	MaxItems int // 20; at most MostItems
	MaxChars int // characters (not bytes) of the texts of all items together; 8,000; at most MostChars
}

// The bounds of a request.
const (
	DefaultItems = 20
	DefaultChars = 8000
	MostItems    = 200
	MostChars    = 1_000_000
	MaxEntries   = 1000 // of a batch
)

// Request is what a host says of the turn for which it asks. No field is required for Recall,
// which uses QueryText and Limits; Remember needs ThreadID and TurnID.
type Request struct {
	AgentURI          string
	AgentID           string
	ThreadID          string
	TurnID            string
	RunID             string // is TurnID where that is ""
	Origin            string
	Sender            string
	QueryText         string
	ExecutionStrategy string
	Limits            Limits
	Meta              map[string]any // at most MaxMeta pairs, with values of JSON
}

// Entry is something that was said or done in a turn.
type Entry struct {
	ID   string // "": its number, from 1 on
	Role string // "": "entry"
	Text string
	Meta map[string]any // as that of a Request
}

// Batch is a turn to remember.
type Batch struct {
	Request
	Entries []Entry
}

// Recall is the answer to a host for a turn. Its texts are data, never instructions.
type Recall struct {
	Items       []Item      `json:"items"`     // the best first
	Facts       []any       `json:"facts"`     // empty: there is no index of them yet
	Summaries   []any       `json:"summaries"` // empty likewise
	Provider    About       `json:"provider"`
	Diagnostics Diagnostics `json:"diagnostics"`
}

// Item is a memory, or the part of it that fits a request best.
type Item struct {
	ID      string    `json:"id"` // of the memory, which stays through renames
	Store   string    `json:"store"`
	Path    string    `json:"path"` // in the store
	Version string    `json:"version"`
	Seq     uint64    `json:"seq"` // of the version, in the store's history
	Text    string    `json:"text"`
	Part    bool      `json:"part"`  // Text is not all of the memory; its front matter does not count
	Score   float64   `json:"score"` // comparable within one Recall; 0: there was nothing to search for
	Updated time.Time `json:"updated"`
}

// Remembered is the outcome of a Batch.
type Remembered struct {
	Written     int         `json:"written"` // entries that this call has written; 0 where they were there already
	Provider    About       `json:"provider"`
	Diagnostics Diagnostics `json:"diagnostics"` // with a Receipt
}

// Receipt says where the entries of a batch are. A host that gets Unknown, or no answer, sends
// the same batch again.
type Receipt struct {
	Key      string         `json:"key"` // the idempotency key of the commit
	Entries  []ReceiptEntry `json:"entries"`
	Warnings []string       `json:"warnings,omitempty"` // credentials that this call has brought into the store, by rule and line of the memory
}

// ReceiptEntry is the part of a Receipt that is about one entry.
type ReceiptEntry struct {
	ID      string `json:"id"`
	Store   string `json:"store"`
	Path    string `json:"path"`
	Version string `json:"version,omitempty"`
	Seq     uint64 `json:"seq,omitempty"`
	Status  Status `json:"status"`
	Reason  string `json:"reason,omitempty"`
}

// Status is the outcome of an entry.
type Status string

// The statuses.
const (
	Written Status = "written" // by this call
	Already Status = "already" // an earlier call has written the same turn
	Refused Status = "refused" // it was not written
	Unknown Status = "unknown" // it may have been written; the same batch again finds out
)

// Retry says whether the same request can succeed later.
type Retry string

// The values of Retry.
const (
	Never Retry = "never"
	Later Retry = "later"
)

// Diagnostics say how far an answer can be relied on.
type Diagnostics struct {
	Degraded bool      `json:"degraded"`        // the answer has less than was asked for
	Reasons  []string  `json:"reasons"`         // why
	Notes    []string  `json:"notes,omitempty"` // what was taken otherwise than it was given, with nothing left out
	TookMS   int64     `json:"took_ms"`
	Retry    Retry     `json:"retry,omitempty"`    // of a degraded answer
	Coverage *Coverage `json:"coverage,omitempty"` // of Recall
	Receipt  *Receipt  `json:"receipt,omitempty"`  // of Remember
}

// Coverage says what Recall has looked at.
type Coverage struct {
	Memories int `json:"memories"` // that there are, as far as that is known
	Searched int `json:"searched"` // looked through
	Found    int `json:"found"`    // among Searched: they have words of the query, or could be items without one
	NotText  int `json:"not_text"` // among Searched: they hold no text
	Damaged  int `json:"damaged"`  // among Searched: they cannot be read
}

// About describes a Provider.
type About struct {
	Name         string   `json:"name"`
	Version      string   `json:"version"`
	Kind         string   `json:"kind"` // "lexical": it finds words, not meanings
	Capabilities []string `json:"capabilities"`
}

// Health is how a Provider is.
type Health struct {
	OK          bool          `json:"ok"` // all stores answer
	Provider    About         `json:"provider"`
	Stores      []StoreHealth `json:"stores"`
	Diagnostics Diagnostics   `json:"diagnostics"`
}

// StoreHealth is how a store is.
type StoreHealth struct {
	Store    string `json:"store"`
	OK       bool   `json:"ok"`
	ReadOnly bool   `json:"read_only"`
	Takes    bool   `json:"takes"`    // what is remembered
	Seq      uint64 `json:"seq"`      // of the newest commit
	Memories int64  `json:"memories"` // by the history's own count
	Reason   string `json:"reason,omitempty"`
}

// turn returns the id of the turn; "" is that there is none.
func (r *Request) turn() string {
	if r.TurnID != "" {
		return r.TurnID
	}
	return r.RunID
}

// texts are the fields that are texts, by their names, in the order of front matter.
func (r *Request) texts() []field {
	return []field{
		{"agent_uri", &r.AgentURI}, {"agent_id", &r.AgentID}, {"thread_id", &r.ThreadID}, {"turn_id", &r.TurnID}, {"run_id", &r.RunID},
		{"origin", &r.Origin}, {"sender", &r.Sender}, {"query_text", &r.QueryText}, {"execution_strategy", &r.ExecutionStrategy},
	}
}

// field is a field of a request that is a text.
type field struct {
	name string
	text *string
}

// check returns the error of a request that a program has made. Its text names fields, not
// their values.
func (r *Request) check() error {
	for _, f := range r.texts() {
		if !utf8.ValidString(*f.text) {
			return fmt.Errorf("field %s: it is not Unicode", f.name)
		}
	}
	_, err := metaJSON(r.Meta)
	return err
}

// bound is a limit that is not as the request has it.
type bound struct {
	text    string // what it is
	isLower bool
}

// limits are those of the request, or others where they cannot be obeyed.
func (r *Request) limits() (l Limits, others []bound) {
	for _, f := range []struct {
		name             string
		given            int
		normally, atMost int
		to               *int
	}{
		{"max_items", r.Limits.MaxItems, DefaultItems, MostItems, &l.MaxItems}, {"max_chars", r.Limits.MaxChars, DefaultChars, MostChars, &l.MaxChars},
	} {
		switch {
		case f.given == 0:
			*f.to = f.normally
		case f.given < 0:
			*f.to = f.normally
			others = append(others, bound{text: fmt.Sprintf("limits: %s is less than 1; it was taken for %d", f.name, f.normally)})
		case f.given > f.atMost:
			*f.to = f.atMost
			others = append(others, bound{fmt.Sprintf("limits: %s is more than %d, for which it was taken", f.name, f.atMost), true})
		default:
			*f.to = f.given
		}
	}
	return l, others
}
