// Package app holds the context of a command. All commands share it: the console and the
// URL, opening the library and stores, places such as STORE:/path, exit codes, and advice
// that names a command. It may use everything below the command line, and knows no single
// command. Read app.go first, then place.go.
package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"

	"mneme/backend"
	"mneme/cmd/mneme/term"
	"mneme/internal/quote"
	"mneme/memory"
	"mneme/session"
	"mneme/versionlog"
)

// App is the context of a command: the URL of the stores, and the console.
type App struct {
	*term.Console
	URL  *string  // nil is the default
	Args []string // of the command line
}

// New returns the context of a command with three streams.
func New(stdin, stdout, stderr *os.File) *App {
	return &App{Console: term.NewConsole(stdin, stdout, stderr)}
}

// Exit ends the program early, as --help does.
func (a *App) Exit(code int) {
	if err := a.Out.Flush(); err != nil && code == 0 {
		code = failure.Code
	}
	os.Exit(code)
}

// Report prints an error. It ignores a failure to print.
func (a *App) Report(err error) {
	if a.JSON {
		_ = term.WriteJSON(a.Err, NewErrorReply(err))
		return
	}
	var listed *term.ListedError
	if errors.As(err, &listed) {
		listed.Print(a.Err)
		return
	}
	_, _ = fmt.Fprintf(a.Err, "mneme: %s\n", quote.Line(WithAdvice(err)))
}

// WithLibrary opens the library, and closes it after do.
func (a *App) WithLibrary(ctx context.Context, opts backend.Options, do func(*backend.Library) error) (err error) {
	lib, err := OpenLibrary(ctx, a.URL, opts)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lib.Close()) }()
	return do(lib)
}

// AllowNothing ignores backend.ErrNoStores if no URL was given: before the first store is
// created, the default place does not exist. A given URL that does not exist is a mistake.
func (a *App) AllowNothing(err error) error {
	if a.URL == nil && errors.Is(err, backend.ErrNoStores) {
		return nil
	}
	return err
}

// WithStore opens the store that ref names, and closes it after do.
func (a *App) WithStore(ctx context.Context, ref string, opts backend.Options, do func(*memory.Store) error) error {
	return a.WithLibrary(ctx, opts, func(lib *backend.Library) error {
		st, err := OpenStore(ctx, lib, ref, opts)
		if err != nil {
			return err
		}
		return do(st)
	})
}

// WithSession opens the store that ref names for writing, with a new session, and closes it
// after do.
func (a *App) WithSession(ctx context.Context, ref string, do func(*memory.Store, *session.Session) error) error {
	return a.WithLibrary(ctx, Writing, func(lib *backend.Library) error {
		st, err := OpenStore(ctx, lib, ref, Writing)
		if err != nil {
			return err
		}
		s := a.NewSession(lib, st)
		defer s.Close()
		return do(st, s)
	})
}

// NewSession returns a session of a store for one command.
func (a *App) NewSession(lib *backend.Library, st *memory.Store) *session.Session {
	return session.New(st, &session.Options{Conflicts: lib.Conflicts(st.Info().ID), Warn: a.Warn})
}

// OpenStore opens the store that ref names, in the user's name unless opts say read-only.
func OpenStore(ctx context.Context, lib *backend.Library, ref string, opts backend.Options) (*memory.Store, error) {
	info, err := lib.FindStore(ctx, ref)
	if err != nil {
		return nil, err
	}
	return OpenInfo(ctx, lib, info, opts)
}

// OpenInfo opens a found store in the name of the person at the command line.
func OpenInfo(ctx context.Context, lib *backend.Library, s versionlog.Store, opts backend.Options) (*memory.Store, error) {
	var author *memory.Author
	if !opts.ReadOnly {
		author = &memory.Author{Actor: UserActor()}
	}
	return lib.Open(ctx, s.ID, author)
}

// UserActor is the person at the command line.
func UserActor() versionlog.Actor {
	return versionlog.Actor{Kind: versionlog.ActorUser, ID: loginName()}
}

func loginName() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return strconv.Itoa(os.Getuid())
}
