package app

import (
	"errors"
	"strings"

	"mneme/versionlog"
)

// adviseStoreQuota says what a person can do about an error of a store's quota; "" for
// another error.
func adviseStoreQuota(err error) string {
	var passed *versionlog.QuotaError
	if !errors.As(err, &passed) || passed.Whose != versionlog.WhoseStore {
		return ""
	}
	_, option := quotaOption(passed)
	return "`mneme store update STORE " + option + "` allows more"
}

// adviseQuota says what can be done about an error of a quota; "" for another error.
func adviseQuota(err error) string {
	var passed *versionlog.QuotaError
	if !errors.As(err, &passed) {
		return ""
	}
	first, option := quotaOption(passed)
	if passed.Whose == versionlog.WhoseStore {
		return first + "ask the person who keeps the store to allow more: `mneme store update " + option + "`"
	}
	return first + "ask the person who mounted the store to allow more: `mneme mount " + option + "`"
}

// quotaOption returns the option that sets a quota, and what else helps.
func quotaOption(passed *versionlog.QuotaError) (first, option string) {
	switch {
	case strings.HasPrefix(passed.What, "memories"):
		return "remove some, or ", "--quota-memories"
	case strings.HasPrefix(passed.What, "versions"):
		return "wait, or ", "--quota-versions"
	}
	return "", "--quota-bytes"
}
