package main

import (
	"errors"
	"fmt"
	"strings"

	"mneme/versionlog"
)

// quotaFlags bound what a session adds to each store.
type quotaFlags struct {
	QuotaBytes    byteSize `default:"4GiB" placeholder:"SIZE" help:"How many bytes of history the mount may add to a store, each version a whole copy; 0 is any number. Default: ${default}."`
	QuotaMemories bound    `default:"100000" placeholder:"N" help:"How many memories it may make there, less those it deletes; 0 is any number. Default: ${default}."`
	QuotaVersions bound    `default:"100000" placeholder:"N" help:"How many versions it may make there within an hour; 0 is any number. Default: ${default}."`
}

// storeQuotaFlags bound what all sessions together add to one store.
type storeQuotaFlags struct {
	QuotaBytes    *byteSize `placeholder:"SIZE" help:"How many bytes of history the store may have, each version a whole copy; 0 is any number. Then nothing but deletions is taken (EDQUOT). Default: any number."`
	QuotaMemories *bound    `placeholder:"N" help:"How many memories it may have; 0 is any number. Default: any number."`
	QuotaVersions *bound    `placeholder:"N" help:"How many versions may be made within an hour of the clock, by all sessions together; 0 is any number. Default: any number."`
}

// quota returns the quota that becomes of one.
func (f storeQuotaFlags) quota(of versionlog.Quota) versionlog.Quota {
	if f.QuotaBytes != nil {
		of.Bytes = int64(*f.QuotaBytes)
	}
	if f.QuotaMemories != nil {
		of.Memories = int64(*f.QuotaMemories)
	}
	if f.QuotaVersions != nil {
		of.PerHour = int64(*f.QuotaVersions)
	}
	return of
}

// given reports whether any of the flags is.
func (f storeQuotaFlags) given() bool {
	return f.QuotaBytes != nil || f.QuotaMemories != nil || f.QuotaVersions != nil
}

// quotaText says how much of a quota has been used; "" where it bounds nothing.
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

func (f quotaFlags) quota() versionlog.Quota {
	return versionlog.Quota{Bytes: int64(f.QuotaBytes), Memories: int64(f.QuotaMemories), PerHour: int64(f.QuotaVersions)}
}

// adviseQuota says what can be done about an error of a quota; "" of another one.
func adviseQuota(err error) string {
	var passed *versionlog.QuotaError
	if !errors.As(err, &passed) {
		return ""
	}
	first, option := "", "--quota-bytes"
	switch {
	case strings.HasPrefix(passed.What, "memories"):
		first, option = "remove some, or ", "--quota-memories"
	case strings.HasPrefix(passed.What, "versions"):
		first, option = "wait, or ", "--quota-versions"
	}
	if passed.Whose == versionlog.WhoseStore {
		return first + "ask the person who keeps the store to allow more: `mneme store update " + option + "`"
	}
	return first + "ask the person who mounted the store to allow more: `mneme mount " + option + "`"
}
