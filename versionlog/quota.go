package versionlog

import (
	"errors"
	"fmt"
)

// ErrQuota is what every *QuotaError is, under errors.Is.
var ErrQuota = errors.New("quota is used up")

// Quota bounds what a session adds to the history of a store. A field that is 0 bounds
// nothing.
type Quota struct {
	Bytes    int64 // of contents; each version that has a new one counts as a whole
	Memories int64 // that it makes, less those that it deletes
	PerHour  int64 // versions within one hour
}

// Usage is how much of a Quota a session has used.
type Usage struct {
	Bytes    int64
	Memories int64 // below 0 when it has deleted more than it has made
	LastHour int64
}

// add counts a version.
func (u *Usage) add(v *Version) {
	u.LastHour++
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

// QuotaError says which bound of a quota a commit would pass.
type QuotaError struct {
	What              string // the plural of what is bounded
	Used, More, Limit int64
}

// Error gives the figures.
func (e *QuotaError) Error() string {
	return fmt.Sprintf("%v: the session has used %d of %d %s, and this takes %d more", ErrQuota, e.Used, e.Limit, e.What, e.More)
}

// Is makes every *QuotaError an ErrQuota.
func (e *QuotaError) Is(target error) bool { return target == ErrQuota }

// Check says which bound a session passes that has used some and uses more; nil: none.
// A session that uses no more of a bound does not pass it.
func (q *Quota) Check(used, more Usage) error {
	for _, bound := range []QuotaError{
		{"bytes of history", used.Bytes, more.Bytes, q.Bytes},
		{"memories", used.Memories, more.Memories, q.Memories},
		{"versions an hour", used.LastHour, more.LastHour, q.PerHour},
	} {
		if bound.Limit > 0 && bound.More > 0 && bound.Used+bound.More > bound.Limit {
			return &bound
		}
	}
	return nil
}
