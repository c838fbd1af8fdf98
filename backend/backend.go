// Package backend makes a memory.Library from a URL: it opens the stores of a URL, with
// their caches, and sets them up, copies and recovers them.
//
// A backend is one file of this package and one line in schemes. Its other settings come
// from the environment:
//
//   - $XDG_DATA_HOME, $XDG_STATE_HOME and $XDG_CACHE_HOME are the directories for the
//     user's own stores, for this machine's notes about stores, and for caches;
//   - $MNEME_CONFLICTS is a directory that keeps conflicts instead of the usual one;
//   - region, credentials, profiles and endpoints are those of the AWS SDK
//     (AWS_REGION, AWS_PROFILE, AWS_ENDPOINT_URL_S3 …), and $MNEME_INSECURE, a boolean,
//     allows endpoints of other machines in plain HTTP;
//   - $MNEME_TOKEN is the credential for a server, and $MNEME_TOKEN_FILE a file with it;
//   - $MNEME_SERVER_USER is the user whose process may be a server on this machine.
package backend

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	"mneme/errkind"
	"mneme/internal/xdg"
)

// scheme is a backend.
type scheme struct {
	name   string // of its URLs
	form   string // of its URLs, for a person
	locate func(*url.URL) (*Location, error)
}

// schemes are the backends that there are.
var schemes = []scheme{
	{"file", "file:///absolute/path", locateEmbedded},
	{"aws", "aws://BUCKET?table=TABLE", locateAWS},
	{"https", "https://HOST[:PORT]", locateGateway},
	{"http", "http://HOST[:PORT]", locateGateway},
	{"http+unix", "http+unix:///absolute/path", locateGateway},
}

// errInvalid gives an error the kind errkind.Invalid, without a text of its own.
type errInvalid struct{ error }

func (errInvalid) Kind() errkind.Kind { return errkind.Invalid }
func (e errInvalid) Unwrap() error    { return e.error }

func invalidf(format string, args ...any) error { return errInvalid{fmt.Errorf(format, args...)} }

// Progress is called now and then with how much of a step is done, never twice at once.
// Neither the step nor the numbers promise anything but that a person can read them.
type Progress func(step string, done, total int)

// Location is where a URL points. It may be used from many goroutines. The parts that
// are nil are those that its backend has no need of, or cannot do.
type Location struct {
	// URL is that of the location, in its usual form. It has no credentials.
	URL string
	// Dir is the directory of this machine that has all of the location; "" where it is
	// elsewhere, and looking at it takes requests.
	Dir string

	Setup    *Setup
	Recovery Recovery

	// Probe tries what the backend needs of its servers, and reports each thing when it was
	// tried. It leaves nothing behind. Its error is that nothing could be tried, such as for
	// want of credentials. Nil: there are no servers.
	Probe func(ctx context.Context, report func(Probed)) error

	// Server returns the published routes of the server. Nil: it is no server.
	Server func(opts *Options) (*Server, error)

	open  func(ctx context.Context, opts *Options) (*Library, error)
	check func() error // nil: nothing can be seen without a request
}

// String returns the URL.
func (l *Location) String() string { return l.URL }

// Check returns why nothing can be opened at the location, such as ErrNoStores, as far
// as that can be seen without a request to another machine. It changes nothing.
func (l *Location) Check() error {
	if l.check == nil {
		return nil
	}
	return l.check()
}

// DefaultURL returns the URL of the user's own stores, an embedded one in the user's data
// directory, whether or not it is there. An error says that there is no such directory.
func DefaultURL() (string, error) {
	dir, err := xdg.Data()
	return fileURL(dir), err
}

// Locate reads a URL. It looks at nothing, so that there may be nothing where the URL
// points. An error is of kind errkind.Invalid, says which URL would be right, and
// repeats no credentials.
func Locate(rawURL string) (*Location, error) {
	if rawURL == "" {
		return nil, wrongURL(rawURL, "it is empty")
	}
	u, err := url.Parse(rawURL)
	switch {
	case err != nil:
		return nil, wrongURL(rawURL, "it is no URL")
	case u.User != nil: // it may hold a password, so it is not repeated
		return nil, wrongURL(u.Scheme+"://…@"+u.Host, "it has a user name or credentials in it, which come from elsewhere")
	case u.Scheme == "" && filepath.IsAbs(rawURL):
		return nil, wrongURL(rawURL, "it has no scheme", fileURL(rawURL))
	case u.Scheme == "":
		return nil, wrongURL(rawURL, "it has no scheme")
	}
	for _, s := range schemes {
		if s.name != u.Scheme {
			continue
		}
		l, err := s.locate(u)
		if err != nil {
			return nil, wrongURL(rawURL, err.Error(), s.form)
		}
		return l, nil
	}
	return nil, wrongURL(rawURL, fmt.Sprintf("there is no backend %q", u.Scheme))
}

// wrongURL says what is wrong with a URL, and which forms are right: by default those of
// all backends.
func wrongURL(rawURL, why string, forms ...string) error {
	if forms == nil {
		for _, s := range schemes {
			forms = append(forms, s.form)
		}
	}
	return invalidf("store URL %q: %s; want %s", rawURL, why, strings.Join(forms, " or "))
}

// Open opens the library of a URL: Locate and Location.Open in one.
func Open(ctx context.Context, rawURL string, opts *Options) (*Library, error) {
	at, err := Locate(rawURL)
	if err != nil {
		return nil, err
	}
	return at.Open(ctx, opts)
}

// Open opens the stores at the location. The caller closes the library. Nil opts are the
// defaults. Errors name the location: ErrNoStores, versionlog.ErrFormat if a newer mneme
// has made the stores, versionlog.ErrRewritten of a history that has lost acknowledged
// commits, and those of the backend, by their kinds.
func (l *Location) Open(ctx context.Context, opts *Options) (*Library, error) {
	if opts == nil {
		opts = &Options{}
	}
	conflicts, err := l.ConflictsDir()
	if err != nil && !opts.Direct {
		return nil, err
	}
	lib, err := l.open(ctx, opts)
	if err != nil {
		return nil, err
	}
	lib.Location, lib.conflictsDir = l, conflicts
	if !opts.ReadOnly && !opts.Direct {
		if err := checkConflictsDir(conflicts); err != nil {
			return nil, errors.Join(err, lib.Close())
		}
	}
	lib.watch(l)
	return lib, nil
}
