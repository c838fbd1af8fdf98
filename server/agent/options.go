package agent

import (
	"context"
	"log/slog"
	"net/http"
	"time"
)

// maxBody is how many bytes a request has at most.
const maxBody = 1 << 20

// Options are the settings of New; nil and a zero field are the default.
type Options struct {
	Version string           // of the program, for clients
	Logger  *slog.Logger     // for errors of the server; nil: none
	Now     func() time.Time // nil: time.Now
	// Linger has a request wait for changes, see mcp.HandlerOptions.
	Linger func(http.ResponseWriter, *http.Request) (context.Context, context.CancelFunc)
}
