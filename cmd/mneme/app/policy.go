package app

import (
	"errors"
	"fmt"

	"mneme/memory"
	"mneme/session"
	"mneme/versionlog"
)

// NewStorePolicy is the default policy of a new store.
func NewStorePolicy() versionlog.Policy { return versionlog.Policy{Secrets: versionlog.SecretsWarn} }

// ConfirmFlag confirms changes that the store's policy would hold back.
type ConfirmFlag struct {
	Confirm bool `help:"Do it also where the store's policy would hold it back: its guard, or its rule for secrets."`
}

// advisePolicy says how to confirm a change that a store's policy holds back; "" for
// another error.
func advisePolicy(err error) string {
	var held *versionlog.GuardError
	var kept *session.HeldError
	isGuard, isSecret := errors.As(err, &held), errors.Is(err, memory.ErrSecrets)
	switch {
	case !isGuard && !isSecret:
		return ""
	case errors.As(err, &kept) && kept.Conflict > 0:
		return fmt.Sprintf("if it is meant, `mneme conflicts resolve %s %d --take yours` confirms it", kept.Store, kept.Conflict)
	case isSecret:
		return "take it out, or, if it is meant, confirm it with --confirm"
	case held.Path != "":
		return "if it is meant, `mneme write --confirm` or `mneme apply --confirm` confirms it"
	}
	return "if it is meant, `mneme rm --confirm` or `mneme apply --confirm` confirms it; else wait a minute"
}
