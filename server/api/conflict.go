package api

import (
	"errors"

	"mneme/memory"
	"mneme/server/reply"
	"mneme/versionlog"
)

// asPathConflict makes a reply.PathConflict of the error of a commit which brings a memory to a path.
func asPathConflict(err error, path string) error {
	if overlap := reply.NewPathConflict(err); overlap != nil {
		return overlap
	}
	if head, ok := versionlog.ConflictAt(err, path); ok && head != nil {
		return &reply.PathConflict{Path: head.Path, MemoryID: memoryIn(head)}
	}
	return err
}

func memoryIn(v *versionlog.Version) string {
	if v.IsDir() {
		return ""
	}
	return v.MemoryID
}

// redactedBy is what the history says of the erasing of a version; nil: it does not say.
func redactedBy(err error) *memory.RedactedError {
	var e *memory.RedactedError
	if errors.As(err, &e) && e.Seq > 0 {
		return e
	}
	return nil
}
