package versionlog

import (
	"fmt"
	"maps"
	"reflect"
	"strconv"
	"time"
)

// Store describes a memory store.
type Store struct {
	ID          string // "memstore_…", see NewStoreID
	Slug        string // unique in its log; the name of its directory in a mount
	Name        string // for people, free text, not unique
	Description string
	Metadata    map[string]string // what programs note of it, see MaxMetaPairs; nil: nothing
	Limits      Limits
	Quota       Quota // bounds what its whole history adds up to; an hour is one of the clock, in UTC
	Policy      Policy
	CreatedAt   time.Time
	UpdatedAt   time.Time // of its last update, or when it was archived; zero: never
	ArchivedAt  time.Time // zero while the store is in use

	// Epoch counts, from 1, how often a copy of the store was promoted. It only grows,
	// and each commit carries it; a log refuses commits of an older one (ErrFenced).
	Epoch uint64
	// Replica says that this copy takes commits by Import only, until it is promoted
	// (ErrReplica). It is no part of the history.
	Replica bool
}

// Clone returns a store that shares nothing with s.
func (s Store) Clone() Store {
	s.Metadata = maps.Clone(s.Metadata)
	return s
}

// Disputed is a store as the proposal of a writer is judged against it, see Quota.Disputed.
func (s Store) Disputed(log, own time.Time) Store {
	s.Quota = s.Quota.Disputed(log, own)
	return s
}

// equal reports whether two stores are described alike.
func (s *Store) equal(other *Store) bool {
	a, b := *s, *other
	if !maps.Equal(a.Metadata, b.Metadata) {
		return false
	}
	a.Metadata, b.Metadata = nil, nil
	return reflect.DeepEqual(a, b)
}

// Limits bound what a store's memories may hold. The log keeps them; package
// memory enforces them.
type Limits struct {
	MaxMemoryBytes int64       // size of one memory in bytes
	Content        ContentRule // what the bytes must be
}

// StoreUpdate is the changed settings of a store. A field that is nil stays.
type StoreUpdate struct {
	Name           *string
	Description    *string
	Metadata       map[string]*string // pairs to set, and with nil to remove
	MaxMemoryBytes *int64

	QuotaBytes, QuotaMemories, QuotaPerHour *int64

	GuardShrinkPercent, GuardDeletesPerMinute *int64
	Secrets                                   *string // a SecretsRule
	KeepDays, KeepVersions                    *int64
}

// Empty reports whether nothing becomes something else.
func (u *StoreUpdate) Empty() bool {
	return len(u.Metadata) == 0 && reflect.DeepEqual(StoreUpdate{Metadata: u.Metadata}, *u)
}

// Apply makes the update to s, whose Metadata becomes another map.
func (u *StoreUpdate) Apply(s *Store) {
	for _, f := range settings {
		f.apply(s, u)
	}
	if len(u.Metadata) > 0 {
		s.Metadata = maps.Clone(s.Metadata)
	}
	for key, value := range u.Metadata {
		if value == nil {
			delete(s.Metadata, key)
			continue
		}
		if s.Metadata == nil {
			s.Metadata = map[string]string{}
		}
		s.Metadata[key] = *value
	}
	if len(s.Metadata) == 0 {
		s.Metadata = nil
	}
}

// ContentRule says which bytes a memory may consist of.
type ContentRule string

// The content rules.
const (
	ContentText ContentRule = "text" // valid UTF-8
	ContentAny  ContentRule = "any"  // any bytes
)

// The names of settings that other events have, too.
const (
	fieldKeepDays     = "keep_days"
	fieldKeepVersions = "keep_versions"
)

// settings are the fields of a store that an update may change, but for its metadata. A new one is
// a line here, and a field of Store, of StoreUpdate and of StoreJSON; inside Policy, the last
// is not needed.
var settings = []setting{
	&field[string]{name: "name", of: func(s *Store) *string { return &s.Name }, in: func(u *StoreUpdate) **string { return &u.Name }},
	&field[string]{name: "description", of: func(s *Store) *string { return &s.Description }, in: func(u *StoreUpdate) **string { return &u.Description }},
	&field[int64]{name: "max_memory_bytes", of: func(s *Store) *int64 { return &s.Limits.MaxMemoryBytes }, in: func(u *StoreUpdate) **int64 { return &u.MaxMemoryBytes }},
	&field[int64]{name: "quota_bytes", of: func(s *Store) *int64 { return &s.Quota.Bytes }, in: func(u *StoreUpdate) **int64 { return &u.QuotaBytes }},
	&field[int64]{name: "quota_memories", of: func(s *Store) *int64 { return &s.Quota.Memories }, in: func(u *StoreUpdate) **int64 { return &u.QuotaMemories }},
	&field[int64]{name: "quota_per_hour", of: func(s *Store) *int64 { return &s.Quota.PerHour }, in: func(u *StoreUpdate) **int64 { return &u.QuotaPerHour }},
	&field[int64]{name: "guard_shrink_percent", optional: true, of: func(s *Store) *int64 { return &s.Policy.Guard.ShrinkPercent }, in: func(u *StoreUpdate) **int64 { return &u.GuardShrinkPercent }},
	&field[int64]{name: "guard_deletes_per_minute", optional: true, of: func(s *Store) *int64 { return &s.Policy.Guard.DeletesPerMinute }, in: func(u *StoreUpdate) **int64 { return &u.GuardDeletesPerMinute }},
	&field[string]{name: "secrets", optional: true, of: func(s *Store) *string { return (*string)(&s.Policy.Secrets) }, in: func(u *StoreUpdate) **string { return &u.Secrets }},
	&field[int64]{name: fieldKeepDays, optional: true, of: func(s *Store) *int64 { return &s.Policy.Retention.KeepDays }, in: func(u *StoreUpdate) **int64 { return &u.KeepDays }},
	&field[int64]{name: fieldKeepVersions, optional: true, of: func(s *Store) *int64 { return &s.Policy.Retention.KeepVersions }, in: func(u *StoreUpdate) **int64 { return &u.KeepVersions }},
}

// setting is a field of a store that an update may change.
type setting interface {
	key() string                                     // its name in events
	apply(s *Store, u *StoreUpdate)                  // sets what the update has
	whole(u *StoreUpdate, s *Store)                  // makes the update set what the store has
	encode(u *StoreUpdate) (text string, given bool) // as an event has it
	decode(u *StoreUpdate, text string) (err error)  // what encode returns
	same(a, b *Store) bool
}

// field is a setting that is a text, or a number from 0 on.
type field[T string | int64] struct {
	name     string
	optional bool // an event that creates a store leaves it out if it is zero
	of       func(*Store) *T
	in       func(*StoreUpdate) **T
}

func (f *field[T]) key() string           { return f.name }
func (f *field[T]) same(a, b *Store) bool { return *f.of(a) == *f.of(b) }

func (f *field[T]) apply(s *Store, u *StoreUpdate) {
	if to := *f.in(u); to != nil {
		*f.of(s) = *to
	}
}

func (f *field[T]) whole(u *StoreUpdate, s *Store) {
	var zero T
	if value := *f.of(s); value != zero || !f.optional {
		*f.in(u) = &value
	}
}

func (f *field[T]) encode(u *StoreUpdate) (text string, given bool) {
	value := *f.in(u)
	if value == nil {
		return "", false
	}
	return fmt.Sprint(*value), true
}

func (f *field[T]) decode(u *StoreUpdate, text string) error {
	value := new(T)
	switch to := any(value).(type) {
	case *string:
		*to = text
	case *int64:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 {
			return fmt.Errorf("field %s is %.40q", f.name, text)
		}
		*to = n
	}
	*f.in(u) = value
	return nil
}

// StoreJSON is the JSON form of a store, in protocols, archives and the notes of a witness. It is
// stable: a member may be added, none changes its meaning. Times are in UTC.
type StoreJSON struct {
	ID             string            `json:"id"`
	Slug           string            `json:"slug"`
	Name           string            `json:"name"`
	Description    string            `json:"description,omitempty"`
	Metadata       map[string]string `json:"metadata,omitempty"`
	MaxMemoryBytes int64             `json:"max_memory_bytes"`
	Content        ContentRule       `json:"content"`
	QuotaBytes     int64             `json:"quota_bytes,omitempty"`
	QuotaMemories  int64             `json:"quota_memories,omitempty"`
	QuotaPerHour   int64             `json:"quota_per_hour,omitempty"`
	Policy         Policy            `json:"policy,omitzero"`
	CreatedAt      time.Time         `json:"created_at"`
	UpdatedAt      time.Time         `json:"updated_at,omitzero"`
	ArchivedAt     time.Time         `json:"archived_at,omitzero"`
	Epoch          uint64            `json:"epoch"` // 0 is 1, as of a store that was described before there were epochs
	Replica        bool              `json:"replica,omitempty"`
}

// NewStoreJSON returns the JSON form of a store.
func NewStoreJSON(s Store) *StoreJSON {
	return &StoreJSON{
		ID: s.ID, Slug: s.Slug, Name: s.Name, Description: s.Description, Metadata: s.Metadata,
		MaxMemoryBytes: s.Limits.MaxMemoryBytes, Content: s.Limits.Content,
		QuotaBytes: s.Quota.Bytes, QuotaMemories: s.Quota.Memories, QuotaPerHour: s.Quota.PerHour, Policy: s.Policy,
		CreatedAt: s.CreatedAt.UTC(), UpdatedAt: s.UpdatedAt.UTC(), ArchivedAt: s.ArchivedAt.UTC(), Epoch: s.Epoch, Replica: s.Replica,
	}
}

// Store returns the store.
func (j *StoreJSON) Store() Store {
	s := Store{
		ID: j.ID, Slug: j.Slug, Name: j.Name, Description: j.Description,
		Limits: Limits{MaxMemoryBytes: j.MaxMemoryBytes, Content: j.Content},
		Quota:  Quota{Bytes: j.QuotaBytes, Memories: j.QuotaMemories, PerHour: j.QuotaPerHour}, Policy: j.Policy,
		CreatedAt: j.CreatedAt.UTC(), UpdatedAt: j.UpdatedAt.UTC(), ArchivedAt: j.ArchivedAt.UTC(), Epoch: j.Epoch, Replica: j.Replica,
	}
	if len(j.Metadata) > 0 {
		s.Metadata = j.Metadata
	}
	return s
}
