package fusefs

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/cas"
	"mneme/memory"
	"mneme/versionlog"
)

// TestUsage: a mount tells how much of its quota a store has used, as the log counts, also
// after versions were erased, and asks the log nothing for it.
func TestUsage(t *testing.T) {
	r := newRig(t, "/a")
	lib := memory.NewLibrary(r.log.Log, func(string) (cas.Store, error) { return r.blobs, nil })
	bytes, memories := int64(1000), int64(7)
	_, err := lib.UpdateStore(r.Context(), r.other.Info().ID, versionlog.StoreUpdate{QuotaBytes: &bytes, QuotaMemories: &memories},
		versionlog.Actor{Kind: versionlog.ActorUser, ID: "other"})
	r.must(err)
	check := func() {
		t.Helper()
		r.follow()
		tip, err := r.other.Tip(r.Context())
		r.must(err)
		status := r.wantLookup("/.mneme/status", fuse.OK)
		r.log.ResetReads()
		fh, code := r.open(status.NodeId, syscall.O_RDONLY)
		r.must(errOf(code))
		text := r.read(status.NodeId, fh)
		if n := r.log.Reads(); n > 0 {
			t.Errorf("the status has asked the log %d times", n)
		}
		for _, line := range []string{fmt.Sprint("history-bytes: ", tip.Totals.Bytes), "quota-bytes: 1000", "quota-memories: 7"} {
			if !strings.Contains(text, "\n"+line+"\n") {
				t.Errorf("the status has no line %q:\n%s", line, text)
			}
		}
	}
	check()
	r.write("/a", "more than before")
	r.write("/b", "b")
	check()
	r.redact()
	r.write("/b", "b, again")
	check()
	r.write("/b", "b, once more")
	check()
}
