package dynamolog

import (
	"archive/zip"
	"context"
	"errors"
	"io/fs"
	"os"
	"strconv"

	"mneme/internal/durable"
	"mneme/versionlog/snapshot"
)

// Erased data is also in copies on this machine. A process that follows a store gets each
// redaction. A process that opens the store compares its redactions with the sequence
// number in a file next to the snapshot (forgottenPath): that up to which an earlier
// process here removed the copies.

func (s *store) forgottenPath() string { return s.snapshotPath() + ".erased" }

// sawRedactedLocked has the copies on this machine go that may have what a redaction erased.
func (s *store) sawRedactedLocked(seq uint64) {
	if seq <= s.redacted {
		return
	}
	s.redacted = seq
	s.log.work.Go(s.forgetErased)
}

// redactedSince reports whether versions are known to be erased by a commit behind one.
func (s *store) redactedSince(seq uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return seq < s.redacted
}

// forgetErased does the work that sawRedactedLocked describes, as far as it is not done.
func (s *store) forgetErased() {
	if s.log.snapshots == "" {
		return
	}
	s.saving.Lock()
	defer s.saving.Unlock()
	s.mu.Lock()
	redacted := s.redacted
	s.mu.Unlock()
	if !s.isSnapshotBehind(redacted) {
		_ = os.Remove(s.snapshotPath())
	}
	data, _ := os.ReadFile(s.forgottenPath())
	if upTo, err := strconv.ParseUint(string(data), 10, 64); err == nil && upTo >= redacted || s.log.forget == nil {
		return
	}
	err := s.log.forget(s.id)
	if err == nil {
		err = durable.MkdirAll(s.log.snapshots, 0o700)
	}
	if err == nil { // not synced: without it the copies go once more
		err = os.WriteFile(s.forgottenPath(), strconv.AppendUint(nil, redacted, 10), 0o600)
	}
	if err != nil {
		s.log.logger.Warn("copies on this machine may have what was erased, the next command tries again", "store", s.id, "op", "forget", "err", err)
	}
}

// isSnapshotBehind reports whether the snapshot, if there is one, is of a commit or a later one.
func (s *store) isSnapshotBehind(seq uint64) bool {
	files, err := zip.OpenReader(s.snapshotPath())
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	defer files.Close()
	saved, err := snapshot.Open(context.Background(), snapshot.FromFS(files))
	return err == nil && saved.Tip.Seq >= seq
}
