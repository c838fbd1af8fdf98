// Package server joins the faces of one library behind one HTTP listener: the memory-stores API,
// keys and session tokens. It checks what every request has in common, whichever face it is for:
// its host and origin, its credential, its size and time, and how many there are.
package server

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mneme/forget"
	"mneme/gateway/wire"
	"mneme/memory"
	"mneme/server/access"
	"mneme/server/agent"
	"mneme/server/api"
	"mneme/server/events"
	"mneme/server/gate"
	"mneme/server/history"
	"mneme/server/manage"
	"mneme/server/reply"
)

// Options are the settings of New; nil and a zero field are the default.
type Options struct {
	Hosts    []string       // names that requests may be sent to; none: any
	Origins  []string       // origins of web pages that may use the server, such as https://console.example; none: no page
	Proxies  []netip.Prefix // reverse proxies whose X-Forwarded-For is believed; none
	BasePath string         // below which everything is, such as /memory; "": the root

	MaxRequests    int // requests under way at once, and as many whose bodies come; DefaultMaxRequests
	MaxPerCaller   int // of one session, and twice as many of one key; DefaultMaxPerCaller
	MaxWaiting     int // requests that wait for news at once, a quarter of them of one session, half of them of one key; DefaultMaxWaiting
	MaxConnections int // at once; DefaultMaxConnections

	HeaderTimeout  time.Duration // for the headers of a request; DefaultHeaderTimeout
	BodyTimeout    time.Duration // for the first bytes of its body, and a second more for each 128 KiB; DefaultBodyTimeout
	RequestTimeout time.Duration // for its answer, and ten times as long for one of the gateway; DefaultRequestTimeout

	Version string           // of the program, for clients
	Machine *forget.Machine  // what the machine keeps of the stores beside log and contents; nil: nothing
	Author  *memory.Author   // in whose name the server keeps its credentials
	Logger  *slog.Logger     // one line for each request, and what goes wrong; nil: nowhere
	Now     func() time.Time // nil: time.Now
}

// Defaults and limits.
const (
	DefaultMaxRequests    = 256
	DefaultMaxPerCaller   = 64
	DefaultMaxWaiting     = 10_000
	DefaultHeaderTimeout  = 10 * time.Second
	DefaultBodyTimeout    = 15 * time.Second
	DefaultRequestTimeout = time.Minute
	maxHeader             = 16 << 10 // bytes, with the line of the request
	headerSlop            = 4 << 10  // that net/http adds to MaxHeaderBytes (initialReadLimitSize, Go 1.26)
	idleTimeout           = 2 * time.Minute
	endTimeout            = 10 * time.Second // for requests under way when the server ends
)

// Server serves a library. Close it after Serve has returned.
type Server struct {
	opts       Options
	library    *memory.Library
	registry   *access.Registry
	identities *identifier
	handler    http.Handler
	metrics    *metrics
	ending     atomic.Bool

	crowd   *crowd
	eraser  *eraser
	agents  *agent.Handler
	lounge  lounge
	endNews context.CancelFunc // has those in it end
}

// New opens the credentials of a library and returns its server.
func New(ctx context.Context, library *memory.Library, opts *Options) (*Server, error) {
	s := &Server{library: library, metrics: newMetrics()}
	if opts != nil {
		s.opts = *opts
	}
	if s.opts.Logger == nil {
		s.opts.Logger = slog.New(slog.DiscardHandler)
	}
	if s.opts.Now == nil {
		s.opts.Now = time.Now
	}
	s.opts.setDefaults()
	s.crowd = newCrowd(s.opts.MaxConnections)
	var err error
	s.lounge.open, s.endNews = context.WithCancel(context.WithoutCancel(ctx))
	s.registry, err = access.OpenRegistry(ctx, library, &access.RegistryOptions{Author: s.opts.Author, Now: s.opts.Now, Logger: s.opts.Logger})
	if err != nil {
		return nil, err
	}
	s.lounge.registry, s.lounge.most, s.lounge.shares = s.registry, int64(s.opts.MaxWaiting), newShares(s.opts.MaxWaiting/4)
	s.eraser = newEraser(library, s.opts.Machine, s.opts.Logger)
	s.identities = &identifier{s.registry, &throttle{now: s.opts.Now}, s.crowd, s.eraser, s.opts.RequestTimeout, s.opts.Logger}
	mux := http.NewServeMux()
	api.Register(mux, callerOf, &api.Options{Logger: s.opts.Logger, Machine: s.opts.Machine})
	manage.Register(mux, s.registry, callerOf, s.opts.Logger, s.opts.Now)
	mux.Handle("GET "+events.Path, events.New(callerOf, s.lounge.linger, s.eraser.IsRecent, s.opts.Logger))
	mux.HandleFunc("HEAD "+events.Path, reply.NoRoute(mux, s.opts.Logger)) // which would wait for news, and not get them
	mux.Handle("POST "+wire.Prefix, gate.New(callerOf, &gate.Options{Logger: s.opts.Logger, Machine: s.opts.Machine, Erased: s.eraser.IsRecent, Again: s.identities.callerNow, Linger: s.lounge.linger}))
	s.agents = agent.New(callerOf, &agent.Options{Version: s.opts.Version, Logger: s.opts.Logger, Now: s.opts.Now, Linger: s.lounge.linger})
	s.agents.Register(mux)
	history.Register(mux, callerOf, s.opts.Logger, s.opts.Now)
	mux.Handle("GET /metrics", operators(s.metrics, s.opts.Logger))
	for _, pattern := range []string{"/", strings.TrimSuffix(wire.Prefix, "/")} { // to which the router would else add a slash
		mux.HandleFunc(pattern, reply.NoRoute(mux, s.opts.Logger))
	}
	s.handler = s.wrap(mux)
	return s, nil
}

// setDefaults sets the limits that are zero.
func (o *Options) setDefaults() {
	o.MaxRequests = cmp.Or(o.MaxRequests, DefaultMaxRequests)
	o.MaxPerCaller = cmp.Or(o.MaxPerCaller, DefaultMaxPerCaller)
	o.MaxWaiting = cmp.Or(o.MaxWaiting, DefaultMaxWaiting)
	o.HeaderTimeout = cmp.Or(o.HeaderTimeout, DefaultHeaderTimeout)
	o.BodyTimeout = cmp.Or(o.BodyTimeout, DefaultBodyTimeout)
	o.RequestTimeout = cmp.Or(o.RequestTimeout, DefaultRequestTimeout)
}

func (o *Options) times() times { return times{o.BodyTimeout, o.RequestTimeout} }

// wrap has the faces get only requests that were checked.
func (s *Server) wrap(faces http.Handler) http.Handler {
	log := s.opts.Logger
	bounds := newBounder(s.opts.MaxRequests, s.opts.MaxPerCaller, s.opts.times(), s.identities, s.opts.Now, log)
	checks := &checker{strings.TrimSuffix(s.opts.BasePath, "/"), s.opts.Hosts, s.opts.Origins, s.ready, log}
	observer := &observer{s.opts.Proxies, s.opts.times(), s.metrics, s.eraser.isOlder, log}
	return observer.wrap(checks.wrap(s.identities.wrap(bounds.wrap(faces))))
}

// ready returns why the server should be sent no requests.
func (s *Server) ready(ctx context.Context) error {
	if s.ending.Load() {
		return reply.ErrEnding
	}
	return s.registry.Ready(ctx)
}

// operators has a handler answer keys with the right admin in every store only.
func operators(next http.Handler, log *slog.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if caller, err := callerOf(r); err != nil || !caller.IsAdmin() {
			reply.Error(w, r, log, access.ErrDenied)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Handler returns what answers the requests, without the limits of time that Serve has.
func (s *Server) Handler() http.Handler { return s.handler }

// Metrics returns the server's counters.
func (s *Server) Metrics() prometheus.Collector { return s.metrics }

// Close ends following the credentials, and what agents have open.
func (s *Server) Close() {
	s.endNews()
	s.agents.Close()
	s.eraser.Close()
	s.registry.Close()
}

// Serve answers requests to listeners until ctx ends. Then it takes no more, has those that
// are under way finish for up to 10 s, and returns nil.
func (s *Server) Serve(ctx context.Context, listeners ...net.Listener) error {
	base, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	h := &http.Server{
		Handler: s.handler, BaseContext: func(net.Listener) context.Context { return base },
		ReadHeaderTimeout: s.opts.HeaderTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader - headerSlop,
		ConnState: s.crowd.note, ConnContext: s.crowd.remember, DisableGeneralOptionsHandler: true,
		// A connection of HTTP/2 on which no whole frame comes, such as headers that never end, has to
		// answer a ping, and ends where it does not, or takes nothing.
		HTTP2:    &http.HTTP2Config{SendPingTimeout: s.opts.HeaderTimeout, PingTimeout: s.opts.HeaderTimeout, WriteByteTimeout: answerTimeout},
		ErrorLog: slog.NewLogLogger(s.opts.Logger.Handler(), slog.LevelDebug),
	}
	s.eraser.listening.Store(h)
	failed := make(chan error, len(listeners))
	for _, l := range listeners {
		go func() { failed <- h.Serve(wipingListener{l}) }()
	}
	var err error
	running := len(listeners)
	select {
	case <-ctx.Done():
	case err = <-failed:
		running--
	}
	s.ending.Store(true)
	s.endNews()
	end, stop := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer stop()
	if shutdown := h.Shutdown(end); shutdown != nil {
		_ = h.Close()
	}
	for range running {
		<-failed
	}
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return err
}
