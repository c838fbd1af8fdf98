package versionlog

import (
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// The names of fields of events. Those of the settings that an update changes are in
// settings.
const (
	fieldContent     = "content"
	fieldCreatedAt   = "created_at"
	fieldVersions    = "versions"
	fieldDirectories = "directories"

	metadataPrefix        = "metadata."
	metadataRemovedPrefix = "metadata_removed."
)

// StoreCreated is the event that begins the history of s.
func StoreCreated(s Store) *Event {
	var u StoreUpdate
	for _, f := range settings {
		f.whole(&u, &s)
	}
	e := StoreUpdated(u)
	e.Kind = EventCreated
	e.Fields[fieldContent] = string(s.Limits.Content)
	e.Fields[fieldCreatedAt] = strconv.FormatInt(s.CreatedAt.UnixMicro(), 10)
	for key, value := range s.Metadata {
		e.Fields[metadataPrefix+key] = value
	}
	return e
}

// StoreUpdated is the event of an update.
func StoreUpdated(u StoreUpdate) *Event {
	e := &Event{Kind: EventUpdated, Fields: map[string]string{}}
	for _, f := range settings {
		if text, given := f.encode(&u); given {
			e.Fields[f.key()] = text
		}
	}
	for key, value := range u.Metadata {
		if value == nil {
			e.Fields[metadataRemovedPrefix+key] = ""
		} else {
			e.Fields[metadataPrefix+key] = *value
		}
	}
	return e
}

// StoreArchived is the event that makes a store refuse commits other than removals.
func StoreArchived() *Event { return &Event{Kind: EventArchived} }

// StorePromoted is the event that begins a new epoch of a store, and makes a replica
// active.
func StorePromoted() *Event { return &Event{Kind: EventPromoted} }

// RetentionApplied is the event that versions are erased, which are named by their ids, by
// the rule that the store has.
func RetentionApplied(rule Retention, ids ...string) *Event {
	e := &Event{Kind: EventRetention, Fields: map[string]string{fieldVersions: strings.Join(ids, " ")}}
	for name, n := range map[string]int64{fieldKeepDays: rule.KeepDays, fieldKeepVersions: rule.KeepVersions} {
		if n != 0 {
			e.Fields[name] = strconv.FormatInt(n, 10)
		}
	}
	return e
}

// Rule returns the rule by which the event erased versions; the zero Retention of a
// redaction, which a person has asked for.
func (e *Event) Rule() Retention {
	if e == nil || e.Kind != EventRetention {
		return Retention{}
	}
	rule, _ := e.rule() // validate has seen it
	return rule
}

func (e *Event) rule() (rule Retention, err error) {
	for name, to := range map[string]*int64{fieldKeepDays: &rule.KeepDays, fieldKeepVersions: &rule.KeepVersions} {
		value, given := e.Fields[name]
		if !given {
			continue
		}
		if *to, err = strconv.ParseInt(value, 10, 64); err != nil || *to < 1 {
			return Retention{}, fmt.Errorf("field %s is %.40q; want a number from 1 on", name, value)
		}
	}
	return rule, nil
}

// ErasedVersions returns the ids of the versions that the event erased, as a redaction or by
// a rule.
func (e *Event) ErasedVersions() []string {
	if !e.erases() {
		return nil
	}
	return strings.Fields(e.Fields[fieldVersions])
}

// Erases reports whether the commit is an event that erased versions.
func (c *Commit) Erases() bool { return c.Event.erases() }

func (e *Event) erases() bool {
	return e != nil && (e.Kind == EventRedacted || e.Kind == EventRetention)
}

// update reads the fields of a creation or an update. Names that it does not know are
// passed over.
func (e *Event) update() (u StoreUpdate, err error) {
	for _, f := range settings {
		if text, given := e.Fields[f.key()]; given {
			if err := f.decode(&u, text); err != nil {
				return u, err
			}
		}
	}
	for name, value := range e.Fields {
		if key, removed := strings.CutPrefix(name, metadataRemovedPrefix); removed {
			u.patch(key, nil)
		} else if key, is := strings.CutPrefix(name, metadataPrefix); is {
			u.patch(key, &value)
		}
	}
	return u, nil
}

// createdAt reads the time of a creation, which JSON must be able to tell; where it has
// none, it is the zero time.
func (e *Event) createdAt() (at time.Time, err error) {
	text := e.Fields[fieldCreatedAt]
	if text == "" {
		return at, nil
	}
	micros, err := strconv.ParseInt(text, 10, 64)
	if at = time.UnixMicro(micros).UTC(); err != nil || at.Year() < 1 || at.Year() > 9999 {
		return at, fmt.Errorf("field %s is %.40q; want microseconds since 1970, in the years 1 to 9999", fieldCreatedAt, text)
	}
	return at, nil
}

func (u *StoreUpdate) patch(key string, value *string) {
	if u.Metadata == nil {
		u.Metadata = map[string]*string{}
	}
	u.Metadata[key] = value
}

// validate reports what of a record's event cannot be.
func (e *Event) validate() error {
	switch e.Kind {
	case EventCreated, EventUpdated:
		u, err := e.update()
		if err != nil {
			return err
		}
		var set Store
		if u.Apply(&set); e.Kind == EventCreated {
			if _, err = e.createdAt(); err != nil {
				return err
			}
			if c := ContentRule(e.Fields[fieldContent]); c != "" && c != ContentText && c != ContentAny {
				return fmt.Errorf("field %s is %.40q; want %q or %q", fieldContent, c, ContentText, ContentAny)
			}
		}
		if err := set.Policy.Check(); err != nil {
			return err
		}
		return CheckMeta(set.Metadata)
	case EventRedacted, EventRetention:
		if n := e.Fields[fieldDirectories]; n != "" {
			if _, err := strconv.ParseInt(n, 10, 32); err != nil {
				return fmt.Errorf("field %s is %.40q", fieldDirectories, n)
			}
		}
		if e.Kind == EventRetention {
			_, err := e.rule()
			return err
		}
		return nil
	case EventArchived, EventPromoted:
		return nil
	}
	return fmt.Errorf("%w: it has the event %.40q; use a newer mneme", ErrFormat, e.Kind)
}

// check reports what is wrong with an event that is proposed, as ErrInvalid.
func (e *Event) check() error {
	for name, value := range e.Fields {
		if !utf8.ValidString(name) || !utf8.ValidString(value) {
			return fmt.Errorf("%w: %q is not UTF-8", ErrInvalid, name+"="+value)
		}
	}
	if err := e.validate(); err != nil {
		return fmt.Errorf("%w: %v", ErrInvalid, err) // that a later mneme may know it does not count
	}
	return nil
}

func (e *Event) equal(other *Event) bool {
	if e == nil || other == nil {
		return e == other
	}
	return e.Kind == other.Kind && maps.Equal(e.Fields, other.Fields)
}

// clone returns an event that shares nothing with e.
func (e *Event) clone() *Event {
	if e == nil {
		return nil
	}
	return &Event{Kind: e.Kind, Fields: maps.Clone(e.Fields)}
}

// After returns the store as it is once c is in the history. Imported says that another log
// made c: if c promoted a copy, it was not this copy of the store.
func (s Store) After(c *Commit, imported bool) Store {
	if c.Event == nil {
		return s
	}
	switch c.Event.Kind {
	case EventCreated, EventUpdated:
		u, err := c.Event.update()
		if err != nil { // which validate has refused
			return s
		}
		if c.Event.Kind == EventCreated { // nothing was before it
			s.Metadata, s.UpdatedAt, s.ArchivedAt, s.Epoch = nil, time.Time{}, time.Time{}, c.Epoch
		}
		u.Apply(&s)
		if c.Event.Kind == EventUpdated {
			s.UpdatedAt = c.Time
			return s
		}
		if content := c.Event.Fields[fieldContent]; content != "" {
			s.Limits.Content = ContentRule(content)
		}
		if at, err := c.Event.createdAt(); err == nil && c.Event.Fields[fieldCreatedAt] != "" {
			s.CreatedAt = at
		}
	case EventArchived:
		s.ArchivedAt, s.UpdatedAt = c.Time, c.Time
	case EventPromoted:
		s.Epoch, s.Replica = c.Epoch, imported
	}
	return s
}

// Told is the state of a store as the commits of its history record it; zero before the
// first.
type Told struct {
	store   Store
	commits uint64
	begins  bool // with the creation of the store, so that all follows
}

// Add takes in the next commit.
func (t *Told) Add(c *Commit) {
	if c.Seq == 1 {
		t.begins = c.IsEvent(EventCreated)
	}
	t.store = t.store.After(c, false)
	t.store.Epoch = c.Epoch
	t.commits++
}

// Commits is how many commits have told.
func (t *Told) Commits() uint64 { return t.commits }

// Store returns what the commits say of the store, without its id and slug, and whether
// they tell all of it: whether they begin with its creation.
func (t *Told) Store() (s Store, whole bool) { return t.store.Clone(), t.begins }

// Contradicts names the fields of s that are not what the commits say. No commit tells
// of its id and its slug, nor whether it is a replica; and a history that does not begin
// with the creation of the store tells of nothing.
func (t *Told) Contradicts(s *Store) (fields []string) {
	if !t.begins {
		return nil
	}
	told := &t.store
	for _, f := range settings {
		if !f.same(s, told) {
			fields = append(fields, f.key())
		}
	}
	for _, field := range []struct {
		name string
		same bool
	}{
		{"metadata", maps.Equal(s.Metadata, told.Metadata)}, {fieldContent, s.Limits.Content == told.Limits.Content},
		{fieldCreatedAt, s.CreatedAt.Equal(told.CreatedAt)}, {"updated_at", s.UpdatedAt.Equal(told.UpdatedAt)},
		{"archived_at", s.ArchivedAt.Equal(told.ArchivedAt)}, {"epoch", s.Epoch == told.Epoch},
	} {
		if !field.same {
			fields = append(fields, field.name)
		}
	}
	return fields
}

// The limits of metadata, of stores and of commits alike.
const (
	MaxMetaPairs = 16
	MaxMetaKey   = 64  // characters, at least 1
	MaxMetaValue = 512 // characters
)

// CheckMeta reports what is wrong with pairs of metadata.
func CheckMeta(meta map[string]string) error {
	if len(meta) > MaxMetaPairs {
		return fmt.Errorf("%d pairs of metadata, at most %d", len(meta), MaxMetaPairs)
	}
	for key, value := range meta {
		if n := utf8.RuneCountInString(key); n < 1 || n > MaxMetaKey || !utf8.ValidString(key) {
			return fmt.Errorf("the metadata key %.80q has %d characters; want UTF-8 of 1 to %d", key, n, MaxMetaKey)
		}
		if n := utf8.RuneCountInString(value); n > MaxMetaValue || !utf8.ValidString(value) {
			return fmt.Errorf("the value of the metadata %q has %d characters; want UTF-8 of at most %d", key, n, MaxMetaValue)
		}
	}
	return nil
}

var errTwoKinds = errors.New("it has both versions and an event")
