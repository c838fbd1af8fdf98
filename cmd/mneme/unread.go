package main

import (
	"fmt"
	"strings"

	"mneme/cmd/mneme/term"
	"mneme/memory"
)

// unreadJSON counts versions whose content could not be searched.
type unreadJSON struct {
	Redacted int `json:"redacted"`
	Lost     int `json:"lost"`
}

// warnUnread says on standard error what a search could not look at.
func (a *app) warnUnread(u memory.Unread) error {
	if u == (memory.Unread{}) {
		return nil
	}
	if a.JSON {
		return term.WriteJSON(a.Err, struct {
			Unread unreadJSON `json:"unread"`
		}{unreadJSON(u)})
	}
	var parts []string
	if u.Redacted > 0 {
		parts = append(parts, fmt.Sprintf("%d redacted", u.Redacted))
	}
	if u.Lost > 0 {
		parts = append(parts, fmt.Sprintf("%d lost (`mneme fsck` says more)", u.Lost))
	}
	_, err := fmt.Fprintf(a.Err, "mneme: contents that could not be searched: %s\n", strings.Join(parts, ", "))
	return err
}
