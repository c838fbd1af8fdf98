package main

import (
	"errors"
	"fmt"

	"mneme/backend"
	"mneme/internal/safepath"
	"mneme/versionlog"
	"mneme/witness"
)

// advised is an error about which nothing is to be added.
type advised struct{ error }

func (a advised) Unwrap() error { return a.error }

// advice says what a person can do about an error, as the end of its text; "" where
// nothing is to be said. What is below the command line knows no commands.
func advice(err error) string {
	var missing *witness.MissingError
	switch {
	case errors.As(err, &advised{}):
		return ""
	case errors.Is(err, backend.ErrNoStores):
		return "; `mneme store create NAME` makes the first"
	case errors.Is(err, backend.ErrOtherOwner):
		return ": correct the URL, or, if you mean it, say whose it is: `mneme setup --bucket-owner ACCOUNT`"
	case errors.Is(err, backend.ErrPlainHTTP):
		return " or --insecure"
	case errors.Is(err, safepath.ErrUntrusted):
		return "; run mneme as that user, or use a directory that is root's alone, as all above it are"
	case errors.As(err, &missing):
		return fmt.Sprintf("; it can be read by commands, and is neither written nor mounted; "+
			"after going back to a backup, `mneme fsck %s --accept-loss` takes it as it is; docs/BACKUP.md says more", missing.Store)
	case errors.Is(err, versionlog.ErrRewritten):
		return "; `mneme fsck` says more, docs/BACKUP.md what to do"
	}
	return adviseStoreQuota(err)
}
