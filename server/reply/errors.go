package reply

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"mneme/errkind"
	"mneme/internal/quote"
	"mneme/internal/strictjson"
	"mneme/memory"
	"mneme/server/access"
	"mneme/versionlog"
)

// Invalidf returns an error of kind errkind.Invalid, which says what is wrong with a request.
func Invalidf(format string, args ...any) error { return &invalidError{fmt.Sprintf(format, args...)} }

type invalidError struct{ text string }

func (e *invalidError) Error() string      { return e.text }
func (e *invalidError) Kind() errkind.Kind { return errkind.Invalid }

// ErrEncoded says that a body is compressed, which would evade the bounds of bodies.
var ErrEncoded = errkind.New(errkind.Unsupported, "the body is compressed or encoded (Content-Encoding); send it as it is")

// ErrNoRoute says that there is no such operation.
var ErrNoRoute = errkind.New(errkind.NotFound, "there is no such operation")

// NoMethod returns an error which says that a path has operations, but of other methods.
func NoMethod(allowed ...string) error { return &methodError{strings.Join(allowed, ", ")} }

type methodError struct{ allowed string }

func (e *methodError) Error() string {
	return fmt.Sprintf("there is no such operation: this path takes %s", e.allowed)
}

func (e *methodError) Kind() errkind.Kind { return errkind.Unsupported }

// Unavailable returns an error of kind errkind.Unavailable that is the server's own: clients read its
// text, which names nothing behind the server.
func Unavailable(text string) error { return &unavailableError{text} }

type unavailableError struct{ text string }

func (e *unavailableError) Error() string      { return e.text }
func (e *unavailableError) Kind() errkind.Kind { return errkind.Unavailable }

// Errors of the server itself that more than one face returns.
var (
	ErrEnding = Unavailable("the server ends; try again")
	ErrLate   = Unavailable("the request was not answered in time")
)

// errEnded says why a request was not done whose context has ended.
var errEnded = Unavailable("the request ended before it was done")

// errorJSON is the envelope of every error.
type errorJSON struct {
	Type      string     `json:"type"` // "error"
	Error     detailJSON `json:"error"`
	RequestID string     `json:"request_id"`
}

type detailJSON struct {
	Type    string `json:"type"`
	Message string `json:"message"`

	// Of memory_path_conflict_error.
	ConflictingPath     *string `json:"conflicting_path,omitempty"`
	ConflictingMemoryID *string `json:"conflicting_memory_id,omitempty"`
}

// The types of errors.
const (
	typeInvalid      = "invalid_request_error"
	typeAuth         = "authentication_error"
	typeDenied       = "permission_error"
	typeNotFound     = "not_found_error"
	typeRate         = "rate_limit_error"
	typeServer       = "api_error"
	typeOverloaded   = "overloaded_error"
	typePrecondition = "memory_precondition_failed_error"
	typePathConflict = "memory_path_conflict_error"
	typeConflict     = "conflict_error"
)

// answer is how an error is answered.
type answer struct {
	status int
	kind   string
	hidden bool
	text   string // which the client reads instead of one that is hidden
}

// answerTo is the answer to an error. A right that a backend denies to the server is not
// one that the client lacks, so the client is not told that it was denied.
func answerTo(err error) answer {
	kind := errkind.Of(err)
	if kind == errkind.Denied && !errors.Is(err, access.ErrDenied) && !errors.Is(err, memory.ErrSessionRedacts) {
		kind = errkind.Unavailable
	}
	return answers[kind]
}

// answers says how an error of a kind is answered. The text of one that is hidden goes to the
// log alone: it may name what is behind this server.
var answers = map[errkind.Kind]answer{
	errkind.Rewritten:       {http.StatusInternalServerError, typeServer, true, ""},
	errkind.Corrupt:         {http.StatusInternalServerError, typeServer, true, ""},
	errkind.Fenced:          {http.StatusInternalServerError, typeServer, true, ""},
	errkind.NoSpace:         {http.StatusInsufficientStorage, typeServer, true, "the server has no room left: its disk is full, and has to be given room by the operator"},
	errkind.OverQuota:       {http.StatusTooManyRequests, typeRate, false, ""},
	errkind.TooLarge:        {http.StatusBadRequest, typeInvalid, false, ""},
	errkind.TooMany:         {http.StatusBadRequest, typeInvalid, false, ""},
	errkind.NameTooLong:     {http.StatusBadRequest, typeInvalid, false, ""},
	errkind.NotText:         {http.StatusBadRequest, typeInvalid, false, ""},
	errkind.ReadOnly:        {http.StatusForbidden, typeDenied, false, ""},
	errkind.Archived:        {http.StatusBadRequest, typeInvalid, false, ""},
	errkind.Policy:          {http.StatusForbidden, typeDenied, false, ""},
	errkind.Unauthenticated: {http.StatusUnauthorized, typeAuth, false, ""},
	errkind.Denied:          {http.StatusForbidden, typeDenied, false, ""},
	errkind.Conflict:        {http.StatusConflict, typePrecondition, false, ""},
	errkind.Overlap:         {http.StatusConflict, typePathConflict, false, ""},
	errkind.Exists:          {http.StatusConflict, typeConflict, false, ""},
	errkind.InUse:           {http.StatusConflict, typeConflict, false, ""},
	errkind.NotFound:        {http.StatusNotFound, typeNotFound, false, ""},
	errkind.Missing:         {http.StatusServiceUnavailable, typeServer, true, ""},
	errkind.Newer:           {http.StatusInternalServerError, typeServer, true, ""},
	errkind.Unsupported:     {http.StatusBadRequest, typeInvalid, false, ""},
	errkind.PathEncoding:    {http.StatusBadRequest, typeInvalid, false, ""},
	errkind.Invalid:         {http.StatusBadRequest, typeInvalid, false, ""},
	errkind.Unavailable:     {http.StatusServiceUnavailable, typeOverloaded, true, ""},
	errkind.Unknown:         {http.StatusInternalServerError, typeServer, true, ""},
}

// PathConflict says that another memory has a path, or that its path is above or below.
type PathConflict struct {
	Path     string
	MemoryID string // "": no memory is there, but a directory that a mount has made
}

func (e *PathConflict) Error() string {
	return "the path is taken, or is above or below that of another memory; rename never overwrites: delete or rename that one first"
}

func (e *PathConflict) Kind() errkind.Kind { return errkind.Overlap }

// NewPathConflict returns the PathConflict that an error of kind errkind.Overlap is; nil: it is none.
func NewPathConflict(err error) *PathConflict {
	var overlap *versionlog.OverlapError
	if !errors.As(err, &overlap) {
		return nil
	}
	with := &overlap.With
	switch {
	case with.Path == "": // both are in the request
		return &PathConflict{Path: overlap.Path}
	case with.IsDir():
		return &PathConflict{Path: with.Path}
	}
	return &PathConflict{Path: with.Path, MemoryID: with.MemoryID}
}

// PreconditionError says in words for clients which preconditions do not hold. Err, which tells what is
// there, stays with the server.
type PreconditionError struct {
	Text string
	Err  error // of kind errkind.Conflict
}

func (e *PreconditionError) Error() string { return e.Text }

func (e *PreconditionError) Unwrap() error { return e.Err }

// BodyError is the error of a body that cannot be read to its end.
func BodyError(err error) error {
	var tooLong *http.MaxBytesError
	if errors.As(err, &tooLong) {
		return &strictjson.Error{Problem: strictjson.TooLong, Most: int(tooLong.Limit)}
	}
	if errkind.Of(err) != errkind.Unknown { // it is all there, and the server has no place for it
		return err
	}
	return Invalidf("the body breaks off")
}

// hiddenText is what a client reads of an error that is hidden.
const hiddenText = "something is wrong on this side; the log of the server says more of this request"

// Text is the text of an error for a client: it has no details of the backend of the
// server.
func Text(err error) string {
	text, hidden := Hidden(err)
	switch {
	case !hidden:
		return quote.Text(err.Error())
	case text == "":
		return hiddenText
	}
	return text
}

// Hidden reports whether the text of an error stays with the server, and what a client reads of the
// error instead; "": nothing in particular.
func Hidden(err error) (text string, hidden bool) {
	as := answerTo(err)
	var own *unavailableError
	if as.status == http.StatusServiceUnavailable && errors.As(err, &own) {
		return own.text, true
	}
	return as.text, as.hidden
}
