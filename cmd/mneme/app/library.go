package app

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"mneme/backend"
	"mneme/daemon"
)

// URLVariable names the environment variable for --url.
const URLVariable = "MNEME_URL"

// The options with which most commands open a library.
var (
	Reading  = backend.Options{ReadOnly: true}
	Writing  = backend.Options{}
	Creating = backend.Options{Create: true}
	Serving  = backend.Options{Create: true, Busy: true}
)

// Locate reads a URL; nil is the URL of the user's own stores.
func Locate(rawURL *string) (*backend.Location, error) {
	if rawURL != nil {
		return backend.Locate(*rawURL)
	}
	own, err := backend.DefaultURL()
	if err != nil {
		return nil, fmt.Errorf("%w, or give --url", err)
	}
	return backend.Locate(own)
}

// OpenLibrary opens the library at a URL; nil is the user's own.
func OpenLibrary(ctx context.Context, rawURL *string, opts backend.Options) (*backend.Library, error) {
	at, err := Locate(rawURL)
	if err != nil {
		return nil, err
	}
	return OpenAt(ctx, at, opts)
}

// OpenURL is OpenLibrary for a URL.
func OpenURL(ctx context.Context, url string, opts backend.Options) (*backend.Library, error) {
	return OpenLibrary(ctx, &url, opts)
}

// OpenAt opens the library at a location. Warnings of the backend go to standard error.
func OpenAt(ctx context.Context, at *backend.Location, opts backend.Options) (*backend.Library, error) {
	opts.Logger = daemon.TextLogger(os.Stderr, slog.LevelWarn, WithAdvice)
	return at.Open(ctx, &opts)
}
