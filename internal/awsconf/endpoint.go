package awsconf

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
)

// ErrPlainHTTP says that an endpoint is reached over plain HTTP and is not on
// this machine.
var ErrPlainHTTP = errors.New("anyone on the network between can read the memories, change them and use the session token: use an https:// endpoint")

// refusePlainHTTP returns ErrPlainHTTP for an endpoint of that kind. Nil is the
// service's own endpoint, which has TLS.
func refusePlainHTTP(service string, endpoint *string) error {
	if endpoint == nil {
		return nil
	}
	u, err := url.Parse(*endpoint)
	if err != nil {
		return fmt.Errorf("the %s endpoint is no URL: want https://HOST[:PORT]", service)
	}
	if !strings.EqualFold(u.Scheme, "http") || isLoopback(u.Hostname()) {
		return nil
	}
	return fmt.Errorf("the %s endpoint http://%s is plain HTTP: %w", service, u.Host, ErrPlainHTTP)
}

// isLoopback reports whether a host is this machine by its name (RFC 6761) or
// address.
func isLoopback(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || net.ParseIP(host).IsLoopback()
}

// followNone hands every redirect to the SDK. A signature is for one host and
// path, so a request that is sent elsewhere cannot succeed; and net/http would
// take the session token along, in a header that it does not know as secret.
func followNone(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// redirectError is a reply that points to another place.
type redirectError struct {
	from, to string // hosts
	err      error  // what the SDK made of the reply
}

func (e *redirectError) Error() string {
	return fmt.Sprintf("%s redirects to %s", e.from, e.to)
}

func (e *redirectError) Unwrap() error { return e.err }

// redirected returns the redirectError of a reply that is a redirect, else err.
// The reply of S3 that only says that the bucket has another region has no
// Location.
func redirected(from string, resp *http.Response, err error) error {
	if err == nil || resp == nil || resp.StatusCode < http.StatusMultipleChoices || resp.StatusCode >= http.StatusBadRequest {
		return err
	}
	location := resp.Header.Get("Location")
	if location == "" {
		return err
	}
	const longest = 100
	u, parseErr := url.Parse(location)
	if parseErr != nil {
		return err
	}
	to := fmt.Sprintf("%.*q", longest, u.Host)
	if u.Host == "" || u.Host == from {
		to = "another path of its own"
	}
	return &redirectError{from, to, err}
}
