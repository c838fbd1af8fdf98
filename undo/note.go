package undo

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strconv"
	"strings"
	"time"

	"mneme/memory"
	"mneme/versionlog"
)

// The metadata of commits that take back earlier ones. Each says which versions it takes
// back: of the memories that the commit has a version of, those of a session, or of all
// sessions, above a sequence number and not above another one.
const (
	noteSession = "undo_session"
	noteSince   = "undo_since"
	noteUntil   = "undo_until"
	noteRestore = "restored_to" // all versions above it that are before the commit

	// For a restore of several commits they also say which one it is, and whether more follow.
	notePart = "restore_part"
	noteMore = "restore_more"
)

// RestoreNote returns the metadata of a commit that restores memories to their state after
// the commit of a sequence number.
func RestoreNote(seq uint64) map[string]string {
	return map[string]string{noteRestore: strconv.FormatUint(seq, 10)}
}

// PartNote returns the metadata of one commit of a restore of a path to its state after the
// commit seq. began is the number of the store's newest commit when the restore began; more
// says that the restore will make further commits.
func PartNote(path string, seq, began uint64, more bool) map[string]string {
	note := RestoreNote(seq)
	if note[notePart] = partName(path, began); more {
		note[noteMore] = "1"
	}
	return note
}

func partName(path string, began uint64) string {
	sum := sha256.Sum256([]byte(path))
	return fmt.Sprintf("%x %d", sum[:8], began)
}

// restoreLife is for how long a restore that was cut may be gone on with.
const restoreLife = 7 * 24 * time.Hour

// CutRestore finds an interrupted restore of a path to its state after the commit seq. It
// returns the number of the store's newest commit when that restore began, and the commits
// that it made. No commits: none was interrupted, or a later restore to another point has
// ended it. CutRestore reads the commits of the last week, and does not trust the notes of
// sessions.
func CutRestore(ctx context.Context, s *memory.Store, path string, seq uint64) (began uint64, made []uint64, err error) {
	var newest time.Time
	for c, err := range s.CommitsBefore(ctx, 0, versionlog.Filter{}) {
		if err != nil {
			return 0, nil, err
		}
		if newest.IsZero() {
			newest = c.Time
		}
		if c.Seq <= max(seq, began) || newest.Sub(c.Time) > restoreLife {
			break
		}
		note := noteOf(c)
		if note == nil || note.session != "" {
			continue
		}
		if note.since != seq {
			break
		}
		_, count, _ := strings.Cut(c.Meta[notePart], " ")
		from, err := strconv.ParseUint(count, 10, 64)
		if err != nil || c.Meta[notePart] != partName(path, from) || from >= c.Seq {
			continue
		}
		if len(made) == 0 {
			if c.Meta[noteMore] == "" {
				break
			}
			began = from
		}
		if from == began {
			made = append(made, c.Seq)
		}
	}
	return began, made, nil
}

// UndoNote returns the metadata of a commit that takes back the changes of a session above
// a sequence number up to another one.
func UndoNote(session string, since, until uint64) map[string]string {
	return map[string]string{
		noteSession: session, noteSince: strconv.FormatUint(since, 10), noteUntil: strconv.FormatUint(until, 10),
	}
}

// undoNote is the changes that a commit has taken back by its metadata.
type undoNote struct {
	session      string // "": of all
	by           string // the session that did it, "": none
	since, until uint64
}

// noteOf returns the changes that a commit has taken back; nil: it names none. A note that
// an agent has written itself is not trusted: otherwise the agent's changes could not be
// taken back.
func noteOf(c *versionlog.Commit) *undoNote {
	if memory.IsAgent(c.Actor, c.Session) {
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
