package serving

import (
	"context"
	"fmt"
	"strings"
	"time"

	"mneme/cmd/mneme/app"
	"mneme/server/access"
	"mneme/server/manage"
	"mneme/versionlog"
)

// keyring creates and changes keys and tokens, of a library or of a server.
type keyring interface {
	// keys returns all keys, the oldest first.
	keys(ctx context.Context) ([]manage.KeyJSON, error)
	// create creates a key, and returns it with its secret.
	create(ctx context.Context, k *wantedKey) (manage.KeyJSON, error)
	// change changes a key, and returns it, with its secret if that is new.
	change(ctx context.Context, id string, how keyChange) (manage.KeyJSON, error)
	// session creates the token of a session with a key. A library needs the key. A server
	// uses the caller's key, and needs nil.
	session(ctx context.Context, ref *keyRef, wanted access.Session, stores []manage.Wanted) (*manage.SessionJSON, error)
}

// wantedKey is a key to create.
type wantedKey struct {
	label      string
	everywhere access.Right
	grants     []wantedGrant
	expires    time.Duration // from now on; 0: never
}

type wantedGrant struct {
	store string // its id or its name
	right access.Right
}

// keyChange is a change of a key, by the name of its route.
type keyChange string

const (
	disableKey keyChange = "disable"
	enableKey  keyChange = "enable"
	rotateKey  keyChange = "rotate"
	deleteKey  keyChange = "delete"
)

// keyRef names one key.
type keyRef struct {
	Key string `arg:"" help:"Its id, such as apikey_…, or its label where only one key has it."`
}

// find returns the key.
func (r *keyRef) find(ctx context.Context, keys keyring) (found manage.KeyJSON, err error) {
	all, err := keys.keys(ctx)
	if err != nil {
		return found, err
	}
	var ids []string
	for _, k := range all {
		switch {
		case k.ID == r.Key:
			return k, nil
		case k.Label == r.Key:
			found, ids = k, append(ids, k.ID)
		}
	}
	if len(ids) > 1 {
		return found, app.Usagef("several keys have the label %q; name one by its id: %s", r.Key, strings.Join(ids, ", "))
	}
	if found.ID == "" {
		return found, fmt.Errorf("key %q: %w", r.Key, versionlog.ErrNotFound)
	}
	return found, nil
}
