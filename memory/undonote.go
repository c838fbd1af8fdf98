package memory

import (
	"strconv"

	"mneme/versionlog"
)

// The metadata of commits that take back earlier ones, each of which says what: of the memories
// that the commit has a version of, the versions of a session, or of all sessions, above a sequence
// number and not above another one.
const (
	noteSession = "undo_session"
	noteSince   = "undo_since"
	noteUntil   = "undo_until"
	noteRestore = "restored_to" // all versions above it that are before the commit
)

// RestoreNote returns the metadata of a commit that makes memories what they were after the commit of
// a sequence number.
func RestoreNote(seq uint64) map[string]string {
	return map[string]string{noteRestore: strconv.FormatUint(seq, 10)}
}

// UndoNote returns the metadata of a commit that takes back what a session did above a sequence number
// up to another one.
func UndoNote(session string, since, until uint64) map[string]string {
	return map[string]string{
		noteSession: session, noteSince: strconv.FormatUint(since, 10), noteUntil: strconv.FormatUint(until, 10),
	}
}

// undoNote is what the metadata of a commit says that it has taken back.
type undoNote struct {
	session      string // "": of all
	by           string // the session that did it, "": none
	since, until uint64
}

// noteOf returns what a commit has taken back; nil: nothing that it says. An agent that writes such
// a note by itself is not believed: what it has done could not be taken back then.
func noteOf(c *versionlog.Commit) *undoNote {
	if c.Actor.Kind == versionlog.ActorSession {
		return nil
	}
	if since, err := strconv.ParseUint(c.Meta[noteRestore], 10, 64); err == nil {
		return &undoNote{since: since, until: c.Seq - 1}
	}
	since, err := strconv.ParseUint(c.Meta[noteSince], 10, 64)
	until, untilErr := strconv.ParseUint(c.Meta[noteUntil], 10, 64)
	if session := c.Meta[noteSession]; session != "" && err == nil && untilErr == nil {
		return &undoNote{session: session, by: c.Session, since: since, until: until}
	}
	return nil
}

// covers reports whether a version is one that was taken back.
func (n *undoNote) covers(v *versionlog.Version) bool {
	return (n.session == "" || n.session == v.Session) && v.Seq > n.since && v.Seq <= n.until
}
