package serving

import (
	"context"
	"time"

	"mneme/backend"
	"mneme/cmd/mneme/app"
	"mneme/server/access"
	"mneme/server/manage"
)

// ownKeys are the keys of a library whose credentials this process has.
type ownKeys struct {
	lib      *backend.Library
	registry *access.Registry
}

func (o *ownKeys) keys(ctx context.Context) (all []manage.KeyJSON, err error) {
	keys, err := o.registry.Keys(ctx)
	for _, k := range keys {
		all = append(all, manage.NewKeyJSON(k, ""))
	}
	return all, err
}

func (o *ownKeys) create(ctx context.Context, wanted *wantedKey) (manage.KeyJSON, error) {
	k := access.Key{Label: wanted.label, Everywhere: wanted.everywhere, Grants: map[string]access.Right{}}
	if wanted.expires > 0 {
		k.Expires = time.Now().Add(wanted.expires).UTC().Truncate(time.Second)
	}
	for _, grant := range wanted.grants {
		st, err := o.lib.FindStore(ctx, grant.store)
		if err != nil {
			return manage.KeyJSON{}, err
		}
		k.Grants[st.ID] = grant.right
	}
	key, secret, err := o.registry.CreateKey(ctx, k)
	return manage.NewKeyJSON(key, secret), err
}

func (o *ownKeys) change(ctx context.Context, id string, how keyChange) (manage.KeyJSON, error) {
	var k access.Key
	var secret string
	var err error
	switch how {
	case rotateKey:
		k, secret, err = o.registry.Rotate(ctx, id)
	case deleteKey:
		if k, err = o.registry.Key(ctx, id); err == nil {
			err = o.registry.DeleteKey(ctx, id)
		}
	default:
		k, err = o.registry.SetDisabled(ctx, id, how == disableKey)
	}
	return manage.NewKeyJSON(k, secret), err
}

func (o *ownKeys) session(ctx context.Context, ref *keyRef, wanted access.Session, stores []manage.Wanted) (*manage.SessionJSON, error) {
	if ref == nil {
		return nil, app.Usagef("name the key with which the token is to be made")
	}
	found, err := ref.find(ctx, o)
	if err != nil {
		return nil, err
	}
	k, err := o.registry.Key(ctx, found.ID)
	if err != nil {
		return nil, err
	}
	caller, err := o.registry.InTheNameOf(&k)
	if err != nil {
		return nil, err
	}
	return manage.NewSession(ctx, o.registry, caller, wanted, stores)
}
