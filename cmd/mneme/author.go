package main

import (
	"strings"

	"mneme/versionlog"
)

// sessionPrefix begins the ids of sessions that mneme has named.
const sessionPrefix = "sesn_"

// actorName is a short name of an actor. An id that begins with sessionPrefix is enough.
func actorName(a versionlog.Actor) string {
	if a.Kind == versionlog.ActorSession && strings.HasPrefix(a.ID, sessionPrefix) {
		return a.ID
	}
	return a.String()
}
