package view

import (
	"strings"

	"mneme/versionlog"
)

// SessionPrefix begins the ids of sessions that mneme has named.
const SessionPrefix = "sesn_"

// ActorName is a short name of an actor. An id that begins with SessionPrefix is enough.
func ActorName(a versionlog.Actor) string {
	if a.Kind == versionlog.ActorSession && strings.HasPrefix(a.ID, SessionPrefix) {
		return a.ID
	}
	return a.String()
}
