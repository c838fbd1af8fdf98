package main

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

// app is the context of a command: where the stores are, and the console.
type app struct {
	*term.Console
	url  *string  // nil is the default
	args []string // of the command line
}

func newApp(stdin, stdout, stderr *os.File) *app {
	return &app{Console: term.NewConsole(stdin, stdout, stderr)}
}

// exit ends the program early; --help does that.
func (a *app) exit(code int) {
	if err := a.Out.Flush(); err != nil && code == 0 {
		code = failure.code
	}
	os.Exit(code)
}

// errorReply is an error as --json writes it, and as a daemon sends it to the
// process that started it.
type errorReply struct {
	Error *errorJSON `json:"error"`
}

// errorJSON is the error of this or of another mneme process.
type errorJSON struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
}

func (e *errorJSON) Error() string { return e.Message }

func newErrorReply(err error) errorReply {
	return errorReply{&errorJSON{Kind: classify(err).name, Message: withAdvice(err)}}
}

// report tells the user of an error. There is nobody left to tell when that
// fails.
func (a *app) report(err error) {
	if a.JSON {
		_ = term.WriteJSON(a.Err, newErrorReply(err))
		return
	}
	var listed *term.ListedError
	if errors.As(err, &listed) {
		listed.Print(a.Err)
		return
	}
	_, _ = fmt.Fprintf(a.Err, "mneme: %s\n", quote.Line(withAdvice(err)))
}

// withLibrary opens the library for the time of do.
func (a *app) withLibrary(ctx context.Context, opts backend.Options, do func(*backend.Library) error) (err error) {
	lib, err := openLibrary(ctx, a.url, opts)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lib.Close()) }()
	return do(lib)
}

// allowNothing passes over backend.ErrNoStores where no URL was given: before the first
// store is made, there is nothing at the default place. A URL that points nowhere is a
// mistake.
func (a *app) allowNothing(err error) error {
	if a.url == nil && errors.Is(err, backend.ErrNoStores) {
		return nil
	}
	return err
}

// withStore opens the store that ref means for the time of do.
func (a *app) withStore(ctx context.Context, ref string, opts backend.Options, do func(*memory.Store) error) error {
	return a.withLibrary(ctx, opts, func(lib *backend.Library) error {
		st, err := openStore(ctx, lib, ref, opts)
		if err != nil {
			return err
		}
		return do(st)
	})
}

// withSession opens the store that ref means for writing, with a session that knows
// nothing of it yet, for the time of do.
func (a *app) withSession(ctx context.Context, ref string, do func(*memory.Store, *session.Session) error) error {
	return a.withLibrary(ctx, writing, func(lib *backend.Library) error {
		st, err := openStore(ctx, lib, ref, writing)
		if err != nil {
			return err
		}
		s := a.newSession(lib, st)
		defer s.Close()
		return do(st, s)
	})
}

// newSession returns a session of a store for the time of one command.
func (a *app) newSession(lib *backend.Library, st *memory.Store) *session.Session {
	return session.New(st, &session.Options{Conflicts: lib.Conflicts(st.Info().ID), Warn: a.Warn})
}

// openStore opens the store that ref means in the user's name, unless opts say
// read-only.
func openStore(ctx context.Context, lib *backend.Library, ref string, opts backend.Options) (*memory.Store, error) {
	info, err := lib.FindStore(ctx, ref)
	if err != nil {
		return nil, err
	}
	return openInfo(ctx, lib, info, opts)
}

// openInfo opens a store that was found, in the name of the person at the command line.
func openInfo(ctx context.Context, lib *backend.Library, s versionlog.Store, opts backend.Options) (*memory.Store, error) {
	var author *memory.Author
	if !opts.ReadOnly {
		author = &memory.Author{Actor: userActor()}
	}
	return lib.Open(ctx, s.ID, author)
}

// userActor is the person at the command line.
func userActor() versionlog.Actor {
	return versionlog.Actor{Kind: versionlog.ActorUser, ID: loginName()}
}

func loginName() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return strconv.Itoa(os.Getuid())
}
