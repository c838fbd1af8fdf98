package server

import (
	"errors"
	"log/slog"
	"net/http"
	"strings"

	"mneme/errkind"
	"mneme/gateway/wire"
	"mneme/server/access"
	"mneme/server/agent"
	"mneme/server/gate"
	"mneme/server/reply"
	"mneme/session"
	"mneme/tools"
)

// An error has one form in the gateway protocol and another one in the API.
var (
	errOverloaded = reply.Unavailable("too many requests are under way; try again")
	errTooMany    = errkind.New(errkind.OverQuota, "too many requests of this credential are under way; wait for some of them")
	errGuessing   = errkind.New(errkind.OverQuota, "too many requests of this address had no valid credential; try again later")
)

// refuse answers with an error in the form that the client of the path understands.
func refuse(w http.ResponseWriter, r *http.Request, log *slog.Logger, err error) {
	var over *session.BudgetError
	if errors.As(err, &over) && r.URL.Path == agent.ToolPath { // for the model
		w.Header().Set("X-Should-Retry", "false")
		reply.JSON(w, r, http.StatusOK, tools.UsedUp(over).Answer())
		return
	}
	if !strings.HasPrefix(r.URL.Path, wire.Prefix) || errors.Is(err, reply.ErrNoRoute) { // which its client would take for a store that is not there
		reply.Error(w, r, log, err)
		return
	}
	gate.Refuse(w, r, log, inFormOf(r, err))
}

// inFormOf is what an error is for the client of the path. For the gateway, whose client goes by the
// kind, too many requests at once are a reason to send one again, which a budget that is used up is
// not; and a guess is a credential that does not count.
func inFormOf(r *http.Request, err error) error {
	switch ofGateway := strings.HasPrefix(r.URL.Path, wire.Prefix); {
	case ofGateway && errors.Is(err, errTooMany):
		return errOverloaded
	case ofGateway && errors.Is(err, errGuessing):
		return access.ErrUnauthenticated
	}
	return err
}
