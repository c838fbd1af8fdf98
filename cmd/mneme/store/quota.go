package store

import (
	"fmt"
	"strings"

	"mneme/cmd/mneme/term"
	"mneme/versionlog"
)

// storeQuotaFlags limit the total of all sessions in one store.
type storeQuotaFlags struct {
	QuotaBytes    *term.ByteSize `placeholder:"SIZE" help:"How many bytes of history the store may have, each version a whole copy; 0 is any number. What would add more is refused (EDQUOT). Default: any number."`
	QuotaMemories *term.Bound    `placeholder:"N" help:"How many memories it may have; 0 is any number. Default: any number."`
	QuotaVersions *term.Bound    `placeholder:"N" help:"How many versions may be made within an hour of the clock, by all sessions together; 0 is any number. Default: any number."`
}

// update returns the update of the store for the flags.
func (f storeQuotaFlags) update() versionlog.StoreUpdate {
	return versionlog.StoreUpdate{
		QuotaBytes: (*int64)(f.QuotaBytes), QuotaMemories: (*int64)(f.QuotaMemories), QuotaPerHour: (*int64)(f.QuotaVersions),
	}
}

// quotaText is the used part of a quota in words; "" if nothing is limited.
func quotaText(q versionlog.Quota, used versionlog.Usage) string {
	var bounds []string
	if q.Bytes > 0 {
		bounds = append(bounds, fmt.Sprintf("%d of %d bytes of history", used.Bytes, q.Bytes))
	}
	if q.Memories > 0 {
		bounds = append(bounds, fmt.Sprintf("%d of %d memories", used.Memories, q.Memories))
	}
	if q.PerHour > 0 {
		bounds = append(bounds, fmt.Sprintf("%d of %d versions this hour", used.LastHour, q.PerHour))
	}
	return strings.Join(bounds, ", ")
}
