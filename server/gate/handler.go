package gate

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"mneme/cas"
	"mneme/errkind"
	"mneme/forget"
	"mneme/server/access"
	"mneme/versionlog"
)

// Options are the settings of New; nil and a zero field are the default.
type Options struct {
	Logger *slog.Logger // for errors of the server; nil: none
	// MaxBuffered is how many bytes of bodies with contents are held at once, for all
	// requests together: 256 MiB.
	MaxBuffered int64
	// Linger has a request wait for commits: its context ends when its credential counts no
	// more, or the server ends. Nil: it waits as any request does.
	Linger func(http.ResponseWriter, *http.Request) (context.Context, context.CancelFunc)
	// Again returns the caller of a request again, with its current rights: while the request
	// lasts, and before it changes something. Nil: as at its beginning.
	Again func(*http.Request) (*access.Caller, error)
	// Machine is what the server's machine keeps of the stores; nil: nothing, and it forgets nothing.
	Machine *forget.Machine
	// Erased reports whether versions were erased a short time ago, so that answers that last must not keep
	// what others have left in their buffers. Nil: they may.
	Erased func() bool
	// Recheck is how often the caller of a request that lasts is looked at again: 5 s.
	Recheck time.Duration
}

// Handler answers the requests of the protocol.
type Handler struct {
	mux     *http.ServeMux
	open    func(*http.Request) (*view, error)
	again   func(*http.Request) (*view, error)
	log     *slog.Logger
	linger  func(http.ResponseWriter, *http.Request) (context.Context, context.CancelFunc)
	recheck time.Duration
	room    *room
	machine *forget.Machine
	erased  func() bool
	closing chan struct{}
	close   sync.Once
}

// view is what a caller reaches.
type view struct {
	log   versionlog.Log
	blobs func(ctx context.Context, storeID string, r access.Right) (cas.Store, error)

	caller     string         // the id of its key
	credential *access.Caller // nil: hello does not say
}

var errNoOperation = errkind.New(errkind.Unsupported, "there is no such operation of the gateway")
