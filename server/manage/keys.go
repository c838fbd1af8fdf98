package manage

import (
	"context"
	"time"

	"mneme/internal/strictjson"
	"mneme/server/access"
	"mneme/server/reply"
)

// KeyJSON is a key as people and programs see it.
type KeyJSON struct {
	Type        string      `json:"type"` // "api_key"
	ID          string      `json:"id"`
	Label       string      `json:"label"`
	Fingerprint string      `json:"fingerprint"`
	Everywhere  string      `json:"everywhere"` // the right in each store
	Grants      []GrantJSON `json:"grants"`
	CreatedAt   time.Time   `json:"created_at"`
	ExpiresAt   *time.Time  `json:"expires_at"`
	LastUsedAt  *time.Time  `json:"last_used_at"` // to the hour
	IsDisabled  bool        `json:"disabled"`
	Secret      string      `json:"secret,omitempty"` // only in the answer that makes it
}

// GrantJSON is a right in one store.
type GrantJSON struct {
	StoreID string `json:"memory_store_id"`
	Right   string `json:"right"`
}

// NewKeyJSON returns the form of a key.
func NewKeyJSON(k access.Key, secret string) KeyJSON {
	j := KeyJSON{
		Type: "api_key", ID: k.ID, Label: k.Label, Fingerprint: k.Fingerprint, Everywhere: k.Everywhere.String(),
		Grants: []GrantJSON{}, CreatedAt: k.Created, IsDisabled: k.Disabled, Secret: secret,
	}
	for _, id := range k.Stores() {
		j.Grants = append(j.Grants, GrantJSON{id, k.Grants[id].String()})
	}
	if !k.Expires.IsZero() {
		j.ExpiresAt = &k.Expires
	}
	if !k.LastUsed.IsZero() {
		j.LastUsedAt = &k.LastUsed
	}
	return j
}

func createKey(ctx context.Context, c *call) (any, error) {
	o, err := c.object()
	if err != nil {
		return nil, err
	}
	var k access.Key
	if k.Label, err = o.String("label"); err != nil {
		return nil, err
	}
	if k.Everywhere, err = right(o, "everywhere", access.None); err != nil {
		return nil, err
	}
	seconds, given, err := o.OptInt("expires_in")
	switch {
	case err != nil:
		return nil, err
	case given && (seconds < 1 || seconds > 10*365*24*3600):
		return nil, reply.Invalidf("expires_in: it must be from 1 second to 10 years")
	case given:
		k.Expires = c.now().Add(time.Duration(seconds) * time.Second).UTC().Truncate(time.Second)
	}
	grants, _, err := o.OptObjects("grants")
	if err == nil {
		err = o.Done()
	}
	if err != nil {
		return nil, err
	}
	k.Grants = map[string]access.Right{}
	for _, g := range grants {
		id, err := g.String("memory_store_id")
		if err != nil {
			return nil, err
		}
		r, err := right(g, "right", access.Write)
		if err == nil {
			err = g.Done()
		}
		if err != nil {
			return nil, err
		}
		st, err := c.caller.Find(ctx, id, access.Read)
		if err != nil {
			return nil, err
		}
		k.Grants[st.Info().ID] = r
	}
	key, secret, err := c.registry.CreateKey(ctx, k)
	return NewKeyJSON(key, secret), err
}

func right(o *strictjson.Object, field string, r access.Right) (access.Right, error) {
	text, given, err := o.OptString(field)
	if err != nil || !given {
		return r, err
	}
	if err := r.UnmarshalText([]byte(text)); err != nil {
		return r, reply.Invalidf("%s: %v", field, err)
	}
	return r, nil
}

func listKeys(ctx context.Context, c *call) (any, error) {
	keys, err := c.registry.Keys(ctx)
	list := struct {
		Data []KeyJSON `json:"data"`
	}{[]KeyJSON{}}
	for _, k := range keys {
		list.Data = append(list.Data, NewKeyJSON(k, ""))
	}
	return list, err
}

func getKey(ctx context.Context, c *call) (any, error) {
	k, err := c.registry.Key(ctx, c.PathValue("key"))
	return NewKeyJSON(k, ""), err
}

func disableKey(ctx context.Context, c *call) (any, error) {
	k, err := c.registry.SetDisabled(ctx, c.PathValue("key"), true)
	return NewKeyJSON(k, ""), err
}

func enableKey(ctx context.Context, c *call) (any, error) {
	k, err := c.registry.SetDisabled(ctx, c.PathValue("key"), false)
	return NewKeyJSON(k, ""), err
}

func rotateKey(ctx context.Context, c *call) (any, error) {
	k, secret, err := c.registry.Rotate(ctx, c.PathValue("key"))
	return NewKeyJSON(k, secret), err
}

func deleteKey(ctx context.Context, c *call) (any, error) {
	id := c.PathValue("key")
	return struct {
		ID   string `json:"id"`
		Type string `json:"type"`
	}{id, "api_key_deleted"}, c.registry.DeleteKey(ctx, id)
}
