// Package access decides what a request may do: a caller is a key, or a session with a token,
// and reaches the stores that it was granted, each with a right. A store that it was not
// granted is one that is not there.
package access

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"mneme/errkind"
	"mneme/memory"
	"mneme/session"
	"mneme/versionlog"
)

var (
	// ErrDenied says that the caller sees the store and lacks the right.
	ErrDenied = errkind.New(errkind.Denied, "the credential does not allow that")
	// ErrUnauthenticated says that a request has no credential, or none that counts.
	ErrUnauthenticated = errkind.New(errkind.Unauthenticated, "there is no valid credential")
)

// Caller is the source of a request, once its credential was checked.
type Caller struct {
	Library *memory.Library
	Actor   versionlog.Actor // whose credential it is
	Session string           // of a token; "" for a key

	Everywhere Right            // in each store, also in those to come
	Grants     map[string]Right // by the id of a store, where it is more

	Key    *Key            // that the request has, or that its token was made with
	Token  string          // the id of the token; "": it came with the key itself
	Until  time.Time       // when the credential expires; zero: never
	Budget *session.Budget // of the token; nil: none

	Opens  func(storeID string) // called with each store that the caller reaches; nil: no call
	Erased func(storeID string) // called with each store in which the caller has erased versions; likewise
}

// hasReached tells that the caller has reached a store.
func (c *Caller) hasReached(storeID string) {
	if c.Opens != nil {
		c.Opens(storeID)
	}
}

// HasErased tells that the caller has erased versions.
func (c *Caller) HasErased(storeID string) {
	if c.Erased != nil {
		c.Erased(storeID)
	}
}

// IsAdmin reports whether the caller may manage keys: it has the right Admin in every store,
// and is no session.
func (c *Caller) IsAdmin() bool { return c.Token == "" && c.Everywhere >= Admin }

// Right returns what the caller may do in a store.
func (c *Caller) Right(storeID string) Right { return max(c.Everywhere, c.Grants[storeID]) }

// Allow returns versionlog.ErrNotFound where the caller does not see a store, and ErrDenied
// where it lacks a right there.
func (c *Caller) Allow(storeID string, r Right) error {
	has := c.Right(storeID)
	switch {
	case has == None:
		return noStore(storeID)
	case has < r:
		return fmt.Errorf("%w: it takes the right %v in the store, and this one has %v", ErrDenied, r, has)
	}
	return nil
}

// AllowNew returns ErrDenied where the caller may not make stores.
func (c *Caller) AllowNew() error {
	if c.Everywhere < Admin {
		return fmt.Errorf("%w: it takes the right %v in every store to make one", ErrDenied, Admin)
	}
	return nil
}

// Author is in whose name the caller writes: of a session's token that is the session, which is
// at work with the key that made the token.
func (c *Caller) Author() versionlog.Actor {
	if c.Session != "" {
		return versionlog.Actor{Kind: versionlog.ActorSession, ID: c.Session}
	}
	return c.Actor
}

// Open opens a store in which the caller has a right; what is written goes by the caller's
// name. Errors: those of Allow and of memory.Library.Open.
func (c *Caller) Open(ctx context.Context, storeID string, r Right) (*memory.Store, error) {
	if err := c.Allow(storeID, r); err != nil {
		return nil, err
	}
	var author *memory.Author
	if r >= Write {
		author = &memory.Author{Actor: c.Author(), Session: c.Session}
	}
	st, err := c.Library.Open(ctx, storeID, author)
	if errors.Is(err, versionlog.ErrNotFound) || err == nil && memory.IsHidden(st.Info()) {
		return nil, noStore(storeID)
	}
	if err == nil {
		c.hasReached(storeID)
	}
	return st, err
}

// idPrefix is that of the id of a store.
const idPrefix = "memstore_"

// noStore says that a caller sees no store of an id.
func noStore(id string) error {
	err := fmt.Errorf("store %.80q: %w", id, versionlog.ErrNotFound)
	if !strings.HasPrefix(id, idPrefix) {
		err = fmt.Errorf("%w; here a store is named by its id, %s…, which GET /v1/memory_stores lists", err, idPrefix)
	}
	return err
}

// Stores yields the stores that the caller sees, in byte order of their slugs, from behind a
// slug on.
func (c *Caller) Stores(ctx context.Context, after string) iter.Seq2[versionlog.Store, error] {
	return func(yield func(versionlog.Store, error) bool) {
		for s, err := range c.Library.StoresAfter(ctx, after) {
			if err == nil && c.Right(s.ID) < Read {
				continue
			}
			if !yield(s, err) {
				return
			}
		}
	}
}

// Find opens the store that a word means, its id, its slug or its name, in which the caller has a right.
// It knows the names only of those that the caller sees.
func (c *Caller) Find(ctx context.Context, ref string, r Right) (*memory.Store, error) {
	if strings.HasPrefix(ref, idPrefix) {
		return c.Open(ctx, ref, r)
	}
	named := ""
	for s, err := range c.Stores(ctx, "") {
		switch {
		case err != nil:
			return nil, err
		case s.Slug == ref:
			return c.Open(ctx, s.ID, r)
		case s.Name == ref && named != "":
			return nil, fmt.Errorf("%w: several stores have the name %.80q; use the slug of one", memory.ErrBadName, ref)
		case s.Name == ref:
			named = s.ID
		}
	}
	if named == "" {
		return nil, fmt.Errorf("store %.80q: %w", ref, versionlog.ErrNotFound)
	}
	return c.Open(ctx, named, r)
}
