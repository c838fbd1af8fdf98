package main

import (
	"fmt"
	"strings"

	"mneme/history"
)

// unreadJSON counts versions whose content could not be searched.
type unreadJSON struct {
	Redacted int `json:"redacted"`
	Lost     int `json:"lost"`
}

// warnUnread says on standard error what a search could not look at.
func (a *app) warnUnread(u history.Unread) error {
	if u == (history.Unread{}) {
		return nil
	}
	if a.json {
		return writeJSON(a.err, struct {
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
	_, err := fmt.Fprintf(a.err, "mneme: contents that could not be searched: %s\n", strings.Join(parts, ", "))
	return err
}
