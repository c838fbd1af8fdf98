package fusefs

import (
	"errors"
	"maps"

	"mneme/errkind"
	"mneme/memory"
	"mneme/session"
	"mneme/versionlog"
)

// A commit may be in the log though it ended with an error: its reply was lost.
// That of a file is a draft, which is tried again with its key when the file is
// synced or closed again, or when its name is to change; that of names is not.
// Either may turn up when the log is followed.

// isFinal reports whether a commit that ended with err is certainly not in the
// log.
func isFinal(err error) bool {
	return errkind.Of(err).Final() || errors.Is(err, memory.ErrUntried)
}

// forgetUnsureLocked drops drafts whose files have been given up, when there are many:
// should one turn out to be in the log, it is met as another session's.
func (s *store) forgetUnsureLocked() {
	const many = 64
	if len(s.unsure) < many {
		return
	}
	maps.DeleteFunc(s.unsure, func(_ string, d *draft) bool { return d.n.stage() != d.st })
}

// oweLocked notes that a commit may be in the log though its reply was lost: should the
// follower meet it, it is the session's own.
func (s *store) oweLocked(key string) {
	const many = 64
	if len(s.owed) >= many {
		clear(s.owed) // should one turn out to be in the log, it is met as another session's
	}
	s.owed[key] = true
}

// recogniseLocked notes what the session knows by a commit of its own that has been
// applied as if it were another's. Who merges does not know what came of it.
func (s *store) recogniseLocked(c *versionlog.Commit) {
	s.vacatedLocked(c)
	for _, v := range c.Versions {
		if v.Op != versionlog.OpCreated && v.Op != versionlog.OpModified || v.Message != "" {
			continue
		}
		if n := s.madeLocked(v.Path); n != nil && n.head.Seq() == v.Seq {
			n.learnLocked(func(known session.Knowledge) session.Knowledge { return known.Wrote(n.head) })
		} else {
			s.noteLocked(v.Path, session.Of(memory.NewHead(&v)))
		}
	}
}
