package upkeep

import (
	"fmt"
	"strings"

	"mneme/cmd/mneme/app"
	"mneme/internal/quote"
)

// ailment is the result of one check.
type ailment struct {
	What  string `json:"check"`
	State string `json:"state"` // stateOK, stateWarning, stateFailure
	Note  string `json:"note,omitempty"`
}

const (
	stateOK      = "ok"
	stateWarning = "warning"
	stateFailure = "failure"
)

// examination prints results at once.
type examination struct {
	a      *app.App
	failed bool
}

func (e *examination) ok(what, note string) { e.tell(ailment{what, stateOK, note}) }
func (e *examination) warning(what string, w error) {
	e.tell(ailment{what, stateWarning, app.WithAdvice(w)})
}
func (e *examination) failure(what string, w error) {
	e.tell(ailment{what, stateFailure, app.WithAdvice(w)})
}

func (e *examination) tell(found ailment) {
	found.Note = quote.Line(found.Note)
	e.failed = e.failed || found.State == stateFailure
	if e.a.JSON {
		_ = e.a.PrintJSON(found)
	} else {
		e.a.Printf("%s\n", strings.TrimRight(fmt.Sprintf("%-8s %-28s %s", found.State, found.What, found.Note), " "))
	}
	_ = e.a.Out.Flush() // what follows may take a while
}
