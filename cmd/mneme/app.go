package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"strconv"

	"golang.org/x/term"

	"mneme/backend"
	"mneme/internal/quote"
	"mneme/memory"
	"mneme/session"
	"mneme/versionlog"
)

// app is what every subcommand works with: where the stores are, and how to
// talk to whoever called.
type app struct {
	url  *string // nil is the default
	json bool
	args []string // of the command line

	in          *os.File
	out         *bufio.Writer
	err         io.Writer
	stdout      int  // its descriptor
	terminal    bool // out is one
	errTerminal bool // err is one
	color       bool
}

func newApp(stdin, stdout, stderr *os.File) *app {
	terminal := term.IsTerminal(int(stdout.Fd()))
	return &app{
		in: stdin, out: bufio.NewWriter(stdout), err: stderr,
		stdout: int(stdout.Fd()), terminal: terminal, errTerminal: term.IsTerminal(int(stderr.Fd())),
		color: terminal && os.Getenv("NO_COLOR") == "",
	}
}

// exit ends the program early; --help does that.
func (a *app) exit(code int) {
	if err := a.out.Flush(); err != nil && code == 0 {
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
	if a.json {
		_ = writeJSON(a.err, newErrorReply(err))
		return
	}
	var listed *listedError
	if errors.As(err, &listed) {
		listed.print(a.err)
		return
	}
	_, _ = fmt.Fprintf(a.err, "mneme: %s\n", quote.Line(withAdvice(err)))
}

func (a *app) printJSON(value any) error { return writeJSON(a.out, value) }

// writeJSON writes a value in one line. What a terminal, or a reader, could take for
// something else is escaped, wherever it goes.
func writeJSON(w io.Writer, value any) error {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return err
	}
	_, err := w.Write(quote.JSON(text.Bytes()))
	return err
}

// printf writes to standard output, whose errors show when it is flushed.
func (a *app) printf(format string, args ...any) { _, _ = fmt.Fprintf(a.out, format, args...) }

// outError is the error of what was printed so far: long work ends with it.
func (a *app) outError() error {
	_, err := a.out.Write(nil)
	return err
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
	return session.New(st, &session.Options{Conflicts: lib.Conflicts(st.Info().ID), Warn: a.warn})
}

// warn tells a person of something that was done all the same.
func (a *app) warn(line string) { _, _ = fmt.Fprintf(a.err, "mneme: warning: %s\n", line) }

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
