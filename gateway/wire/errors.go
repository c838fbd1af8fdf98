package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"mneme/cas"
	"mneme/errkind"
	"mneme/internal/quote"
	"mneme/versionlog"
)

// Error is an error as it crosses the wire: its kind, what it is under errors.Is, and the data
// of the errors that have some.
type Error struct {
	Kind string   `json:"kind"` // the name of an errkind.Kind
	Text string   `json:"text,omitempty"`
	Is   []string `json:"is,omitempty"` // names of sentinels

	// NoRight says that the caller lacks the right: nothing was begun.
	NoRight bool `json:"no_right,omitempty"`
	// Untried says that the request was refused before anything that it changes was looked at.
	Untried bool `json:"untried,omitempty"`

	Conflict *versionlog.ConflictError `json:"conflict,omitempty"`
	Overlap  *overlap                  `json:"overlap,omitempty"`
	Quota    *versionlog.QuotaError    `json:"quota,omitempty"`
	Guard    *versionlog.GuardError    `json:"guard,omitempty"`
	Needs    *versionlog.Digest        `json:"needs,omitempty"` // of a cas.NeedsError
}

type overlap struct {
	Path string          `json:"path"`
	With json.RawMessage `json:"with,omitempty"` // a version
}

// sentinels are the errors that errors.Is knows on the other side, by their names.
var sentinels = []struct {
	name string
	err  error
}{
	{"not_found", versionlog.ErrNotFound}, {"exists", versionlog.ErrExists}, {"archived", versionlog.ErrArchived},
	{"conflict", versionlog.ErrConflict}, {"overlap", versionlog.ErrOverlap}, {"quota", versionlog.ErrQuota}, {"guarded", versionlog.ErrGuarded},
	{"read_only", versionlog.ErrReadOnly}, {"replica", versionlog.ErrReplica}, {"fenced", versionlog.ErrFenced},
	{"too_large", versionlog.ErrTooLarge}, {"invalid", versionlog.ErrInvalid}, {"format", versionlog.ErrFormat},
	{"rewritten", versionlog.ErrRewritten}, {"corrupt", versionlog.ErrCorrupt}, {"live_head", versionlog.ErrLiveHead},
	{"no_redaction", versionlog.ErrNoRedaction}, {"erased_history", versionlog.ErrErasedHistory},
	{"blob_not_found", cas.ErrNotFound}, {"blob_corrupt", cas.ErrCorrupt},
}

// kinds say how an error of a kind is answered, as a status of HTTP. The text of one that is
// hidden stays with the server: it may name what is behind it.
var kinds = map[errkind.Kind]struct {
	status int
	hidden bool
}{
	errkind.Unauthenticated: {http.StatusUnauthorized, false},
	errkind.Rewritten:       {http.StatusInternalServerError, true},
	errkind.Corrupt:         {http.StatusInternalServerError, true},
	errkind.Fenced:          {http.StatusConflict, false},
	errkind.NoSpace:         {http.StatusInsufficientStorage, true},
	errkind.OverQuota:       {http.StatusTooManyRequests, false},
	errkind.TooLarge:        {http.StatusRequestEntityTooLarge, false},
	errkind.TooMany:         {http.StatusRequestEntityTooLarge, false},
	errkind.NameTooLong:     {http.StatusBadRequest, false},
	errkind.NotText:         {http.StatusBadRequest, false},
	errkind.ReadOnly:        {http.StatusForbidden, false},
	errkind.Archived:        {http.StatusConflict, false},
	errkind.Policy:          {http.StatusForbidden, false},
	errkind.Denied:          {http.StatusForbidden, false},
	errkind.Conflict:        {http.StatusConflict, false},
	errkind.Overlap:         {http.StatusConflict, false},
	errkind.Exists:          {http.StatusConflict, false},
	errkind.InUse:           {http.StatusConflict, false},
	errkind.NotFound:        {http.StatusNotFound, false},
	errkind.Missing:         {http.StatusServiceUnavailable, true},
	errkind.Newer:           {http.StatusInternalServerError, true},
	errkind.Unsupported:     {http.StatusNotImplemented, false},
	errkind.PathEncoding:    {http.StatusBadRequest, false},
	errkind.Invalid:         {http.StatusBadRequest, false},
	errkind.Unavailable:     {http.StatusServiceUnavailable, true},
	errkind.Unknown:         {http.StatusInternalServerError, true},
}

const maxErrorText = 1000 // bytes

// ErrorOf returns the form of an error, and the status that goes with it. Hidden says that its
// text does not cross.
func ErrorOf(err error) (e *Error, status int, hidden bool) {
	kind := errkind.Of(err)
	as := kinds[kind]
	e = &Error{Kind: kind.String(), Text: err.Error()}
	for _, s := range sentinels {
		if errors.Is(err, s.err) {
			e.Is = append(e.Is, s.name)
		}
	}
	if hidden = as.hidden; hidden {
		e.Text = ""
	}
	var over *versionlog.OverlapError
	if errors.As(err, &over) {
		e.Overlap = &overlap{Path: over.Path}
		if over.With != (versionlog.Version{}) {
			e.Overlap.With, _ = versionlog.EncodeVersion(&over.With)
		}
	}
	var needs *cas.NeedsError
	if errors.As(err, &needs) {
		e.Needs = &needs.Blob
	}
	errors.As(err, &e.Conflict)
	errors.As(err, &e.Quota)
	errors.As(err, &e.Guard)
	if e.Conflict != nil || e.Overlap != nil || e.Quota != nil || e.Guard != nil {
		e.Text = "" // the data say it
	}
	e.Text = bounded(e.Text)
	return e, as.status, hidden
}

func bounded(text string) string {
	if len(text) > maxErrorText {
		text = strings.ToValidUTF8(text[:maxErrorText], "") + "…"
	}
	return text
}

// encode returns the JSON, without the data where it would have more bytes than most.
func (e *Error) encode(most int) []byte {
	text, err := json.Marshal(e)
	if err != nil || len(text) > most {
		text, _ = json.Marshal(&Error{Kind: e.Kind, Text: e.Text, Is: e.Is})
	}
	return text
}

// Encode returns the JSON of an error that is the answer to a request.
func (e *Error) Encode() []byte { return e.encode(MaxAnswer) }

// RemoteError is an error of the server.
type RemoteError struct {
	// NoRight says that the caller lacks the right: the server has begun nothing.
	NoRight bool
	// Untried says that the server has refused the request before it has looked at what it changes.
	Untried bool

	kind errkind.Kind
	text string
	is   []error
}

// Error says what the server says, of which nothing is believed to be fit for a terminal.
func (e *RemoteError) Error() string { return e.text }

// Kind is that of the error on the server.
func (e *RemoteError) Kind() errkind.Kind { return e.kind }

// Unwrap returns the sentinels that the error is, and the error with its data.
func (e *RemoteError) Unwrap() []error { return e.is }

// DecodeError returns the error that JSON encodes. If it is not an error of the protocol,
// the server cannot be understood: a *CutError.
func DecodeError(data []byte) error {
	var e Error
	if err := json.Unmarshal(data, &e); err != nil {
		return &CutError{fmt.Errorf("an error that cannot be read: %w", err)}
	}
	r := &RemoteError{kind: errkind.Unknown, NoRight: e.NoRight, Untried: e.Untried}
	for _, k := range errkind.All() {
		if k.String() == e.Kind {
			r.kind = k
		}
	}
	for _, data := range e.data() {
		r.is = append(r.is, data)
		r.text = data.Error()
	}
	for _, s := range sentinels {
		for _, name := range e.Is {
			if s.name == name {
				r.is = append(r.is, s.err)
				if e.Text == "" && r.text == "" {
					r.text = s.err.Error()
				}
			}
		}
	}
	switch {
	case r.text != "":
	case e.Text != "":
		r.text = quote.Text(bounded(e.Text))
	default:
		r.text = "something is wrong on the side of the server, whose log says more"
	}
	return r
}

// data are the errors with data.
func (e *Error) data() (all []error) {
	if e.Conflict != nil && len(e.Conflict.Conflicts) > 0 {
		all = append(all, e.Conflict)
	}
	if e.Overlap != nil {
		over := &versionlog.OverlapError{Path: e.Overlap.Path}
		if e.Overlap.With != nil {
			over.With, _ = versionlog.DecodeVersion(e.Overlap.With)
		}
		all = append(all, over)
	}
	if e.Quota != nil {
		all = append(all, e.Quota)
	}
	if e.Guard != nil {
		all = append(all, e.Guard)
	}
	if e.Needs != nil {
		all = append(all, &cas.NeedsError{Blob: *e.Needs, Err: cas.ErrCorrupt})
	}
	return all
}
