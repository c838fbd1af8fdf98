package gateway

import (
	"net/http"
	"time"

	"mneme/errkind"
	"mneme/versionlog"
)

// Options are the settings of Open; nil and a zero field are the default.
type Options struct {
	// Token returns the credential that goes with each request, "" for none. It is called
	// for each, also at once from many goroutines. Nil: there is none.
	Token func() (string, error)
	// ReadOnly has everything refused that changes something: versionlog.ErrReadOnly.
	ReadOnly bool
	// Limit bounds one call while the server does not answer: 25 s, so that a write
	// has failed within 30 s. The time in which it takes the body of a request is not included.
	Limit time.Duration
	// Attempt bounds how long one request waits for a part of it to be taken, for the head of
	// an answer, and for each part of one: 10 s.
	Attempt time.Duration
	// ServerUID is the user whose process may be the server where that is on this machine, besides
	// root and the user of this process. 0: no other.
	ServerUID uint32
	// AnyServer has any user's process be the server.
	AnyServer bool
	// Transport sends the requests. Default: one of its own.
	Transport Transport
	// CheckStore returns why a store of the server cannot be one. Nil: what package versionlog
	// takes.
	CheckStore func(versionlog.Store) error
}

var (
	// ErrUnavailable says that the server does not answer, or not in time.
	ErrUnavailable = errkind.New(errkind.Unavailable, "the server of the stores does not answer")
	// ErrCredential says that the server does not accept the credential, or that there is
	// none. Another one makes it go on.
	ErrCredential = errkind.New(errkind.Unauthenticated, "the server of the stores does not accept the credential")
	// ErrProtocol says that the answer is not from a server of this protocol.
	ErrProtocol = errkind.New(errkind.Unsupported, "what answers does not speak this gateway protocol")
)

// Transport sends requests. That of a test loses some.
type Transport interface {
	http.RoundTripper
	CloseIdleConnections()
}
