package versionlog

import (
	"fmt"
	"time"

	"mneme/errkind"
)

// ErrQuota matches every *QuotaError, under errors.Is.
var ErrQuota = errkind.New(errkind.OverQuota, "quota is used up")

// Quota bounds what a session adds to the history of a store, or all sessions
// together. A field that is 0 bounds nothing.
type Quota struct {
	Bytes    int64 `json:"bytes,omitempty"`    // of contents; each version that has a new one counts as a whole
	Memories int64 `json:"memories,omitempty"` // that are made, less those that are deleted; directories are none
	PerHour  int64 `json:"per_hour,omitempty"` // versions within one hour
}

// Usage is how much of a Quota has been used.
type Usage struct {
	Bytes    int64
	Memories int64 // below 0 for a session that has deleted more than it has made
	LastHour int64
}

// Totals is what the commits of a store add up to.
type Totals struct {
	Bytes    int64 // of the contents that versions brought
	Memories int64 // live ones
	InHour   int64 // versions since the hour of the newest commit began, in UTC
}

// add counts a version.
func (u *Usage) add(v *Version) {
	u.LastHour++
	if v.IsDir() {
		return
	}
	switch v.Op {
	case OpCreated:
		u.Bytes += v.Size
		u.Memories++
	case OpModified:
		u.Bytes += v.Size
	case OpDeleted:
		u.Memories--
	}
}

// UsageOf is what versions of one commit use of a quota.
func UsageOf(versions []Version) (u Usage) {
	for i := range versions {
		u.add(&versions[i])
	}
	return u
}

// Whose quota a QuotaError speaks of.
const (
	WhoseSession = "session"
	WhoseStore   = "store"
)

// QuotaError says which bound of a quota a commit would pass.
type QuotaError struct {
	Whose             string // WhoseSession or WhoseStore
	What              string // the bounded things, in the plural
	Used, More, Limit int64
}

// Error gives the figures.
func (e *QuotaError) Error() string {
	return fmt.Sprintf("%v: the %s has used %d of %d %s, and this takes %d more", ErrQuota, e.Whose, e.Used, e.Limit, e.What, e.More)
}

// Is makes every *QuotaError an ErrQuota.
func (e *QuotaError) Is(target error) bool { return target == ErrQuota }

// Kind is errkind.OverQuota.
func (e *QuotaError) Kind() errkind.Kind { return errkind.OverQuota }

// CheckSession says which bound a session would pass that has used some and uses
// more, as a *QuotaError; nil: none. A session that uses no more of a bound does not
// pass it.
func (q *Quota) CheckSession(used, more Usage) error { return q.check(WhoseSession, used, more) }

// CheckStore says the same of a store whose history ends at tip, at a time by the clock of
// its log.
func (q *Quota) CheckStore(tip Tip, now time.Time, more Usage) error {
	return q.check(WhoseStore, tip.UsedAt(now), more)
}

// Disputed is a quota for a writer whose own clock says another hour than that of the log.
// Neither is known to be right, so the writer may have one hour's versions more: a wrong
// clock neither keeps a writer from writing, nor lets one write without bound.
func (q Quota) Disputed(log, own time.Time) Quota {
	if hourOf(log) != hourOf(own) {
		q.PerHour *= 2
	}
	return q
}

func (q *Quota) check(whose string, used, more Usage) error {
	for _, bound := range []QuotaError{
		{whose, "bytes of history", used.Bytes, more.Bytes, q.Bytes},
		{whose, "memories", used.Memories, more.Memories, q.Memories},
		{whose, "versions an hour", used.LastHour, more.LastHour, q.PerHour},
	} {
		if bound.Limit > 0 && bound.More > 0 && bound.Used+bound.More > bound.Limit {
			return &bound
		}
	}
	return nil
}
