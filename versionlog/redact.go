package versionlog

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"mneme/errkind"
)

// ErrLiveHead says that a redaction, or an erasure by a rule, names the head of a live
// memory or directory. It must be replaced or removed first.
var ErrLiveHead = errkind.New(errkind.Invalid, "it is the current version; write or remove it first")

// ErrNoRedaction says that a log erases no versions.
var ErrNoRedaction = errkind.New(errkind.Unsupported, "versions of this kind of store cannot be erased yet")

// ErrErasedHistory says that a log imports no history of which versions were erased.
var ErrErasedHistory = errkind.New(errkind.Unsupported, "this kind of store takes no history of which versions were erased")

// MaxRedacted is how many versions one event may name.
const MaxRedacted = 500

// StoreRedacted is the event that versions are erased, which are named by their ids. A
// proposal of it needs a message, which says why.
func StoreRedacted(ids ...string) *Event {
	return &Event{Kind: EventRedacted, Fields: map[string]string{fieldVersions: strings.Join(ids, " ")}}
}

// VersionView is a View that finds versions, which judging a redaction takes. A log whose
// views are none takes no redactions.
type VersionView interface {
	View
	// Version returns a version by its id, or nil.
	Version(id string) (*Version, error)
}

// Purged is one place that a redaction concerns, and the outcome there.
type Purged struct {
	Place string    // for people: "log.db", "the file of a content"
	At    time.Time // when nothing of it was there any more; zero while something is
	Why   string    // something is still there; "" when nothing is
}

// mayErase reports why a redaction that another log has made cannot be one of this
// history. It may name versions that are erased already.
func (e *Event) mayErase(view View) error {
	found, ok := view.(VersionView)
	if ids := e.ErasedVersions(); len(ids) > 0 && !ok {
		return ErrNoRedaction
	}
	for _, id := range e.ErasedVersions() {
		if _, err := erasable(found, id); err != nil {
			return err
		}
	}
	return nil
}

// erasable returns a version that may be erased, or is.
func erasable(view VersionView, id string) (*Version, error) {
	v, err := view.Version(id)
	switch {
	case err != nil:
		return nil, err
	case v == nil:
		return nil, fmt.Errorf("version %.80q: %w", id, ErrNotFound)
	case v.Redacted():
		return v, nil
	}
	newest, err := view.Newest(v.MemoryID)
	if err == nil && newest != nil && newest.ID == v.ID && v.Live() {
		err = fmt.Errorf("version %s of %s: %w", v.ID, v.Path, ErrLiveHead)
	}
	return v, err
}

// redact judges a redaction, or what a rule lets go of: c, without its versions, is the commit
// that it becomes. Versions that are erased already are left out of it, and nil is returned
// where none is left.
func redact(view View, store *Store, c *Commit) (*Commit, error) {
	ids := c.Event.ErasedVersions()
	rule := c.Event.Rule()
	switch {
	case c.IsEvent(EventRedacted) && strings.TrimSpace(c.Message) == "":
		return nil, fmt.Errorf("%w: a redaction says why, in its message", ErrInvalid)
	case c.IsEvent(EventRetention) && (rule != store.Policy.Retention || rule == Retention{}):
		return nil, fmt.Errorf("%w: the store keeps versions by another rule by now", ErrInvalid)
	case len(ids) == 0:
		return nil, fmt.Errorf("%w: the event %q names versions to erase", ErrInvalid, c.Event.Kind)
	case len(ids) > MaxRedacted:
		return nil, fmt.Errorf("%d versions, at most %d: %w", len(ids), MaxRedacted, ErrTooLarge)
	}
	found, ok := view.(VersionView)
	if !ok {
		return nil, ErrNoRedaction
	}
	var left []string
	directories := 0
	for _, id := range ids {
		v, err := erasable(found, id)
		if err != nil {
			return nil, err
		}
		if v.Redacted() || slices.Contains(left, id) {
			continue
		}
		if v.IsDir() {
			directories += memoriesOf(v.Op)
		}
		left = append(left, id)
	}
	if left == nil {
		return nil, nil
	}
	c.Event.Fields = map[string]string{fieldVersions: strings.Join(left, " ")}
	if c.IsEvent(EventRetention) {
		c.Event = RetentionApplied(rule, left...)
	}
	if directories != 0 {
		c.Event.Fields[fieldDirectories] = strconv.Itoa(directories)
	}
	return c, nil
}

// memoriesOf is how many memories more there are after a version of one.
func memoriesOf(op Op) int {
	switch op {
	case OpCreated:
		return 1
	case OpDeleted:
		return -1
	}
	return 0
}

// miscounted is by how many memories the versions that the event has erased are
// overcounted: it is no longer known which of them were directories.
func (e *Event) miscounted() int64 {
	if !e.erases() {
		return 0
	}
	n, _ := strconv.ParseInt(e.Fields[fieldDirectories], 10, 32)
	return n
}

// Erased returns the totals once versions are erased, which are given as they were.
func (t Totals) Erased(versions []Version) Totals {
	for i := range versions {
		v := versions[i]
		before := UsageOf(versions[i : i+1])
		v.Erase()
		after := UsageOf([]Version{v})
		t.Bytes += after.Bytes - before.Bytes
		t.Memories += after.Memories - before.Memories
	}
	return t
}
