// Package memtest makes a library in memory with one store, for tests of packages that use
// package memory.
package memtest

import (
	"strings"
	"testing"

	"mneme/cas"
	"mneme/cas/memcas"
	"mneme/history"
	"mneme/memory"
	"mneme/versionlog"
	"mneme/versionlog/memlog"
)

// Author is the session in whose name the store is open.
var Author = memory.SessionAuthor("sesn_1")

// Person may erase versions, as a session may not.
var Person = &memory.Author{Actor: versionlog.Actor{Kind: versionlog.ActorUser, ID: "alice"}}

// Fixture is a library in memory with one store. Its methods end the test, or fail it, where the
// store says an error.
type Fixture struct {
	*memory.Store
	T     *testing.T
	Log   *memlog.Log
	Lib   *memory.Library
	Blobs map[string]*memcas.Store // by the id of their store
}

// New makes a library with the store "notes"; nil options are the default.
func New(t *testing.T, opts *memory.StoreOptions) *Fixture {
	t.Helper()
	f := &Fixture{T: t, Log: memlog.New(nil), Blobs: map[string]*memcas.Store{}}
	return f.open(f.Log, opts)
}

// open makes the library of a log, with the store "notes".
func (f *Fixture) open(log versionlog.Log, opts *memory.StoreOptions) *Fixture {
	f.T.Helper()
	f.Lib = memory.NewLibrary(log, func(id string) (cas.Store, error) {
		if f.Blobs[id] == nil {
			f.Blobs[id] = memcas.New()
		}
		return f.Blobs[id], nil
	})
	info, err := f.Lib.CreateStore(f.T.Context(), "notes", opts)
	if err != nil {
		f.T.Fatal(err)
	}
	if f.Store, err = f.Lib.Open(f.T.Context(), info.ID, Author); err != nil {
		f.T.Fatal(err)
	}
	return f
}

// Put writes a memory.
func (f *Fixture) Put(path, text string, expect versionlog.Expectation) versionlog.Version {
	f.T.Helper()
	v, err := f.Write(f.T.Context(), path, []byte(text), expect)
	if err != nil {
		f.T.Fatalf("write %s: %v", path, err)
	}
	return v
}

// Move renames a memory.
func (f *Fixture) Move(from, to string) {
	f.T.Helper()
	if _, err := f.Rename(f.T.Context(), from, to, nil); err != nil {
		f.T.Fatal(err)
	}
}

// Delete removes a memory.
func (f *Fixture) Delete(path string) {
	f.T.Helper()
	if _, err := f.Remove(f.T.Context(), path, versionlog.ExpectAny()); err != nil {
		f.T.Fatal(err)
	}
}

// WantContent says what a memory must have, and returns its version.
func (f *Fixture) WantContent(path, want string) versionlog.Version {
	f.T.Helper()
	v, data, err := f.Read(f.T.Context(), path)
	if err != nil || string(data) != want {
		f.T.Errorf("read %s: %q, %v; want %q", path, data, err, want)
	}
	return v
}

// WantHistory says which operations a memory must have seen, newest first.
func (f *Fixture) WantHistory(path, want string) {
	f.T.Helper()
	var ops []string
	for v, err := range history.Versions(f.T.Context(), f.Store, path) {
		if err != nil {
			f.T.Fatalf("history of %s: %v", path, err)
		}
		ops = append(ops, string(v.Op))
	}
	if got := strings.Join(ops, " "); got != want {
		f.T.Errorf("history of %s, newest first: %s; want %s", path, got, want)
	}
}
