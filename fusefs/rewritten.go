package fusefs

import (
	"errors"
	"fmt"

	"mneme/versionlog"
)

// noteRewritten ends the writing of a store, and the following of its log, if err
// says that the history is not the one that the tree shows: what this mount would
// append belongs to another. It stays so until the store is mounted again.
func (s *store) noteRewritten(err error) {
	if !errors.Is(err, versionlog.ErrRewritten) {
		return
	}
	if why := err; !s.rewritten.CompareAndSwap(nil, &why) {
		return
	}
	s.setDegraded(err)
	s.tellGuide()
	s.errors.Add("/", fmt.Sprintf("the store takes no more writes, mount it again when its history is as it was: %s (%v)", s.withAdvice(s.located("/", err), err), errnoOf(err)))
	s.fs.log.Error("the history is another than the mount's, nothing more is written", "store", s.slug(), "err", err)
}

// rewrittenBy returns why the store takes no writes, nil while it does.
func (s *store) rewrittenBy() error {
	if err := s.rewritten.Load(); err != nil {
		return *err
	}
	return nil
}

// checkTip compares a tip that the log gave with the commit that the tree had got to
// before the log was asked.
func checkTip(shown, tip versionlog.Tip) error {
	if tip.Seq > shown.Seq || tip.Seq == shown.Seq && tip.Digest == shown.Digest {
		return nil
	}
	return fmt.Errorf("%w: this mount shows commit %d, %.12s, and the history ends with commit %d, %.12s",
		versionlog.ErrRewritten, shown.Seq, shown.Digest, tip.Seq, tip.Digest)
}
