package mount

import (
	"mneme/cmd/mneme/term"
	"mneme/versionlog"
)

// quotaFlags limit the amount that a session adds to each store.
type quotaFlags struct {
	QuotaBytes    term.ByteSize `default:"4GiB" placeholder:"SIZE" help:"How many bytes of history the mount may add to a store, each version a whole copy; 0 is any number. Default: ${default}."`
	QuotaMemories term.Bound    `default:"100000" placeholder:"N" help:"How many memories it may make there, less those it deletes; 0 is any number. Default: ${default}."`
	QuotaVersions term.Bound    `default:"100000" placeholder:"N" help:"How many versions it may make there within an hour; 0 is any number. Default: ${default}."`
}

func (f quotaFlags) quota() versionlog.Quota {
	return versionlog.Quota{Bytes: int64(f.QuotaBytes), Memories: int64(f.QuotaMemories), PerHour: int64(f.QuotaVersions)}
}
