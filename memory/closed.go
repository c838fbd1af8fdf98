package memory

import "mneme/versionlog"

// Closed returns why no session may write to a store: it is archived, or a replica. It
// returns nil if sessions may.
func Closed(s versionlog.Store) error {
	switch {
	case !s.ArchivedAt.IsZero():
		return versionlog.ErrArchived
	case s.Replica:
		return versionlog.ErrReplica
	}
	return nil
}
