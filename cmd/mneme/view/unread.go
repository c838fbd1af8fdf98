package view

import (
	"fmt"
	"strings"

	"mneme/cmd/mneme/app"
	"mneme/cmd/mneme/term"
	"mneme/history"
)

// UnreadJSON counts versions whose content could not be searched.
type UnreadJSON struct {
	Redacted int `json:"redacted"`
	Lost     int `json:"lost"`
}

// WarnUnread reports on standard error the contents that a search could not read.
func WarnUnread(a *app.App, u history.Unread) error {
	if u == (history.Unread{}) {
		return nil
	}
	if a.JSON {
		return term.WriteJSON(a.Err, struct {
			Unread UnreadJSON `json:"unread"`
		}{UnreadJSON(u)})
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
