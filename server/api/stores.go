package api

import (
	"context"

	"mneme/internal/strictjson"
	"mneme/memory"
	"mneme/versionlog"
)

func createStore(ctx context.Context, c *call) (any, error) {
	if err := c.caller.AllowNew(); err != nil {
		return nil, err
	}
	o, err := c.object()
	if err != nil {
		return nil, err
	}
	name, err := o.String("name")
	if err != nil {
		return nil, err
	}
	opts := memory.StoreOptions{Actor: c.caller.Actor, AnySlug: true, Policy: versionlog.Policy{Secrets: versionlog.SecretsWarn}}
	if opts.Description, _, err = o.OptString("description"); err != nil {
		return nil, err
	}
	pairs, err := metadataOf(o)
	if err != nil {
		return nil, err
	}
	opts.Metadata = map[string]string{}
	for key, value := range pairs {
		if value == nil {
			return nil, &strictjson.Error{Problem: strictjson.WrongType, Field: key, Want: "a string", Got: "null"}
		}
		opts.Metadata[key] = *value
	}
	if err := o.Done(); err != nil {
		return nil, err
	}
	s, err := c.caller.Library.CreateStore(ctx, name, &opts)
	if err != nil {
		return nil, err
	}
	return newStore(s), nil
}

// metadataOf takes the pairs of metadata out of an object; nil removes one.
func metadataOf(o *strictjson.Object) (map[string]*string, error) {
	inner, given, err := o.OptObject("metadata")
	if err != nil || !given {
		return nil, err
	}
	pairs := map[string]*string{}
	for _, key := range inner.Names() {
		if string(inner.Peek(key)) == "null" {
			inner.Raw(key)
			pairs[key] = nil
			continue
		}
		value, err := inner.String(key)
		if err != nil {
			return nil, err
		}
		pairs[key] = &value
	}
	return pairs, nil
}

func listStores(ctx context.Context, c *call) (any, error) {
	from, to, err := c.times()
	if err != nil {
		return nil, err
	}
	archived, err := c.flag("include_archived")
	if err != nil {
		return nil, err
	}
	limit, err := c.limit(false)
	if err != nil {
		return nil, err
	}
	after, err := c.after()
	if err != nil {
		return nil, err
	}
	p := c.newPager(limit)
	for s, err := range c.caller.Stores(ctx, after) {
		if err != nil {
			return nil, err
		}
		if !archived && !s.ArchivedAt.IsZero() || !from.IsZero() && s.CreatedAt.Before(from) || !to.IsZero() && s.CreatedAt.After(to) {
			continue
		}
		if p.full() {
			break
		}
		p.add(s.Slug, newStore(s))
	}
	return p.page, nil
}

func getStore(ctx context.Context, c *call) (any, error) {
	st, err := c.open(ctx)
	if err != nil {
		return nil, err
	}
	return newStore(st.Info()), nil
}

func updateStore(ctx context.Context, c *call) (any, error) {
	st, err := c.open(ctx)
	if err != nil {
		return nil, err
	}
	o, err := c.object()
	if err != nil {
		return nil, err
	}
	var u versionlog.StoreUpdate
	for field, to := range map[string]**string{"name": &u.Name, "description": &u.Description} {
		text, given, err := o.OptString(field)
		if err != nil {
			return nil, err
		}
		if given {
			*to = &text
		}
	}
	if u.Metadata, err = metadataOf(o); err != nil {
		return nil, err
	}
	if err := o.Done(); err != nil {
		return nil, err
	}
	s := st.Info()
	if u.Empty() {
		return newStore(s), nil
	}
	if s, err = c.caller.Library.UpdateStore(ctx, s.ID, u, c.caller.Actor); err != nil {
		return nil, err
	}
	return newStore(s), nil
}

func deleteStore(ctx context.Context, c *call) (any, error) {
	st, err := c.open(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.caller.Library.DeleteStore(ctx, st.Info().ID); err != nil {
		return nil, err
	}
	return deletedJSON{st.Info().ID, "memory_store_deleted"}, nil
}

func archiveStore(ctx context.Context, c *call) (any, error) {
	if err := c.empty(); err != nil {
		return nil, err
	}
	st, err := c.open(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.caller.Library.ArchiveStore(ctx, st.Info().ID, c.caller.Actor); err != nil {
		return nil, err
	}
	if st, err = c.open(ctx); err != nil {
		return nil, err
	}
	return newStore(st.Info()), nil
}
