package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"mneme/backend"
	"mneme/daemon"
)

// urlVariable names the environment variable that stands in for --url.
const urlVariable = "MNEME_URL"

// What most commands need of a library.
var (
	reading  = backend.Options{ReadOnly: true}
	writing  = backend.Options{}
	creating = backend.Options{Create: true}
	serving  = backend.Options{Create: true, Busy: true}
)

// locate reads a URL; nil is that of the user's own stores.
func locate(rawURL *string) (*backend.Location, error) {
	if rawURL != nil {
		return backend.Locate(*rawURL)
	}
	own, err := backend.DefaultURL()
	if err != nil {
		return nil, fmt.Errorf("%w, or give --url", err)
	}
	return backend.Locate(own)
}

// openLibrary opens the library of a URL; nil is the user's own.
func openLibrary(ctx context.Context, rawURL *string, opts backend.Options) (*backend.Library, error) {
	at, err := locate(rawURL)
	if err != nil {
		return nil, err
	}
	return openAt(ctx, at, opts)
}

// openURL is openLibrary for a URL.
func openURL(ctx context.Context, url string, opts backend.Options) (*backend.Library, error) {
	return openLibrary(ctx, &url, opts)
}

// openAt opens what is at a location. Warnings of the backend go to standard error.
func openAt(ctx context.Context, at *backend.Location, opts backend.Options) (*backend.Library, error) {
	opts.Logger = daemon.TextLogger(os.Stderr, slog.LevelWarn, withAdvice)
	return at.Open(ctx, &opts)
}

// statusLines are lines of .mneme/status: where the stores are, and what was asked of a
// backend that costs.
func statusLines(lib *backend.Library) []string {
	lines := []string{daemon.StatusURL + ": " + lib.Location.URL}
	if key := lib.Credential().Key; key != "" {
		lines = append(lines, daemon.StatusKey+": "+key)
	}
	if requests := lib.Requests(); requests != nil {
		lines = append(lines, usageLines(requests, lib.CacheStats())...)
	}
	return lines
}
