package verify

import (
	"fmt"

	"mneme/versionlog"
)

// epochs says what is wrong with the epoch of a commit that follows another one, or ""; the
// commits between them could not be read.
func epochs(before, c *versionlog.Commit) string {
	switch {
	case before == nil || c.Epoch == before.Epoch:
	case c.Epoch < before.Epoch:
		return fmt.Sprintf("it is of epoch %d, and the one before it of epoch %d", c.Epoch, before.Epoch)
	case c.Seq == before.Seq+1 && !c.IsEvent(versionlog.EventPromoted):
		return fmt.Sprintf("it is of epoch %d, which no promotion begins", c.Epoch)
	}
	return ""
}

// erasures are the ids of versions that were erased, by no event so far.
type erasures map[string]struct{}

func (e erasures) add(c *versionlog.Commit) {
	for _, id := range c.Event.ErasedVersions() {
		delete(e, id)
	}
	for i := range c.Versions {
		if v := &c.Versions[i]; v.Redacted() {
			e[v.ID] = struct{}{}
		}
	}
}
