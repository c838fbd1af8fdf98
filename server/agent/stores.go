package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"mneme/errkind"
	"mneme/server/access"
	"mneme/server/reply"
	"mneme/versionlog"
)

// maxStores is how many stores a desk has at most.
const maxStores = 100

var errNoStore = errkind.New(errkind.NotFound, "the credential reaches no store")

// storesOf returns the stores that refs mean, each once; without any all that the caller sees.
func storesOf(ctx context.Context, c *access.Caller, refs []string) (all []versionlog.Store, err error) {
	switch {
	case len(refs) > maxStores:
		return nil, reply.Invalidf("store: the parameter is there %d times; it may be there %d times", len(refs), maxStores)
	case refs != nil:
		return named(ctx, c, refs)
	case c.Everywhere < access.Read:
		all, err = granted(ctx, c)
	default:
		all, err = seen(ctx, c)
	}
	if err == nil && len(all) == 0 {
		err = errNoStore
	}
	return all, err
}

func errTooManyStores() error {
	return reply.Invalidf("store: the credential reaches more than %d stores; say which, by the parameter store", maxStores)
}

// named returns the stores that words mean.
func named(ctx context.Context, c *access.Caller, refs []string) (all []versionlog.Store, err error) {
	has := map[string]bool{}
	for _, ref := range refs {
		s, err := c.Log().StoreNamed(ctx, ref) // at once, where a word that is a name takes a list
		if errors.Is(err, versionlog.ErrNotFound) {
			s, err = called(ctx, c, ref)
		}
		if err != nil {
			return nil, err
		}
		if !has[s.ID] {
			has[s.ID] = true
			all = append(all, s)
		}
	}
	return all, nil
}

// called returns the store that has an id or a name.
func called(ctx context.Context, c *access.Caller, ref string) (versionlog.Store, error) {
	st, err := c.Find(ctx, ref, access.Read)
	if err != nil {
		return versionlog.Store{}, err
	}
	return st.Info(), nil
}

// granted returns the stores that a caller was granted, in the order of their slugs, without a look
// at those of others.
func granted(ctx context.Context, c *access.Caller) (all []versionlog.Store, err error) {
	for _, id := range slices.Sorted(maps.Keys(c.Grants)) {
		if c.Right(id) < access.Read {
			continue
		}
		s, err := c.Library.FindStore(ctx, id)
		switch {
		case errors.Is(err, versionlog.ErrNotFound):
			continue // it was deleted
		case err != nil:
			return nil, fmt.Errorf("look up the stores of the credential: %w", err)
		}
		if all = append(all, s); len(all) > maxStores {
			return nil, errTooManyStores()
		}
	}
	slices.SortFunc(all, func(a, b versionlog.Store) int { return strings.Compare(a.Slug, b.Slug) })
	return all, nil
}

// seen returns the stores that a caller sees.
func seen(ctx context.Context, c *access.Caller) (all []versionlog.Store, err error) {
	for s, err := range c.Stores(ctx, "") {
		if err != nil {
			return nil, err
		}
		if all = append(all, s); len(all) > maxStores {
			return nil, errTooManyStores()
		}
	}
	return all, nil
}
