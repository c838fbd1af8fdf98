package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"mneme/errkind"
	"mneme/gateway/wire"
	"mneme/internal/quote"
)

// Published calls the routes of docs/API.md, for objects that the gateway protocol does not
// carry: keys and session tokens. Its methods may be called at once from many goroutines.
type Published struct{ client *client }

// NewPublished returns the published routes of the server at a URL, which Parse takes. It
// sends nothing.
func NewPublished(rawURL string, opts *Options) (*Published, error) {
	if opts == nil {
		opts = &Options{}
	}
	c, err := newClient(rawURL, opts)
	return &Published{c}, err
}

// Close ends idle connections.
func (p *Published) Close() { p.client.close() }

// callTime is how long an answer may take. A request is sent once: whether the server
// received one that makes something is not known.
const callTime = 30 * time.Second

// Call sends a request with the JSON of body, nil for none, and decodes the JSON of the answer
// into what into points to. Errors: ErrUnavailable, ErrCredential, ErrProtocol, *PublishedError.
func (p *Published) Call(ctx context.Context, method, path string, body, into any) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	var data []byte
	var err error
	if body != nil {
		if data, err = json.Marshal(body); err != nil {
			return err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, p.client.address.base+path, bytes.NewReader(data))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	if _, err := p.client.sign(req); err != nil {
		return err
	}
	answer, err := p.client.over.RoundTrip(req)
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrUnavailable, p.client.address.URL, err)
	}
	defer answer.Body.Close()
	data, err = io.ReadAll(io.LimitReader(answer.Body, wire.MaxAnswer))
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrUnavailable, p.client.address.URL, err)
	}
	if answer.StatusCode != http.StatusOK {
		return publishedError(answer.StatusCode, data)
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("%w: its answer is no JSON of that route: %w", ErrProtocol, err)
	}
	return nil
}

// PublishedError is an error of a published route.
type PublishedError struct {
	Status int
	text   string
}

// Error says what the server says, of which nothing is believed to be fit for a terminal.
func (e *PublishedError) Error() string { return e.text }

// Kind is that of the status.
func (e *PublishedError) Kind() errkind.Kind {
	switch e.Status {
	case http.StatusBadRequest:
		return errkind.Invalid
	case http.StatusForbidden:
		return errkind.Denied
	case http.StatusNotFound:
		return errkind.NotFound
	case http.StatusConflict:
		return errkind.Conflict
	case http.StatusTooManyRequests:
		return errkind.OverQuota
	case http.StatusInsufficientStorage:
		return errkind.NoSpace
	}
	return errkind.Unavailable
}

// maxText is how many bytes of an error's text are told.
const maxText = 1000

func publishedError(status int, data []byte) error {
	var told struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	_ = json.Unmarshal(data, &told) // else of something in between
	text := quote.Text(told.Error.Message[:min(len(told.Error.Message), maxText)])
	switch {
	case status == http.StatusUnauthorized:
		return fmt.Errorf("%w: %s", ErrCredential, text)
	case text == "":
		return fmt.Errorf("%w: status %d", ErrProtocol, status)
	}
	return &PublishedError{status, "the server says: " + text}
}
