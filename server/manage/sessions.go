package manage

import (
	"context"
	"time"
	"unicode/utf8"

	"mneme/internal/strictjson"
	"mneme/note"
	"mneme/server/access"
	"mneme/server/reply"
)

// mountRoot is where a sandbox is told to mount its stores.
const mountRoot = "/mnt/memory/"

// maxInstructions is how many characters the instructions for one store have at most.
const maxInstructions = 4096

// SessionJSON is a session as it is told once.
type SessionJSON struct {
	Type      string         `json:"type"` // "session"
	ID        string         `json:"id"`
	Token     string         `json:"token"`
	TokenID   string         `json:"token_id"`
	ExpiresAt time.Time      `json:"expires_at"`
	MaxCalls  int            `json:"max_calls,omitempty"`
	MaxBytes  int64          `json:"max_bytes,omitempty"`
	Resources []ResourceJSON `json:"resources"`
	Note      string         `json:"note"` // for the system prompt
}

// ResourceJSON is a store as a session has it.
type ResourceJSON struct {
	Type         string  `json:"type"` // "memory_store"
	StoreID      string  `json:"memory_store_id"`
	Access       string  `json:"access"` // ReadWrite or ReadOnly
	Name         string  `json:"name"`
	Slug         string  `json:"slug"`
	MountPath    string  `json:"mount_path"`
	Description  string  `json:"description"`
	Instructions *string `json:"instructions"`
}

// Wanted is a store that a session is to have.
type Wanted struct {
	Store        string  // its id or its name
	Access       string  // ReadWrite or ReadOnly
	Instructions *string // of the operator, for the note; at most 4,096 characters
}

// The rights of a session in a store.
const (
	ReadWrite = "read_write"
	ReadOnly  = "read_only"
)

var accesses = map[string]access.Right{ReadWrite: access.Write, ReadOnly: access.Read}

// NewSession makes a session and its token, in the name of a caller with a key. Errors are those of
// access.Registry.NewToken.
func NewSession(ctx context.Context, registry *access.Registry, caller *access.Caller, session access.Session, wanted []Wanted) (*SessionJSON, error) {
	made := &SessionJSON{Type: "session", MaxCalls: session.MaxCalls, MaxBytes: session.MaxBytes, Resources: []ResourceJSON{}}
	session.Grants = map[string]access.Right{}
	var mounts []note.Mount
	for _, one := range wanted {
		right, known := accesses[one.Access]
		switch {
		case !known:
			return nil, reply.Invalidf("resources: access must be %s or %s", ReadWrite, ReadOnly)
		case one.Instructions != nil && utf8.RuneCountInString(*one.Instructions) > maxInstructions:
			return nil, reply.Invalidf("resources: instructions may have up to %d characters", maxInstructions)
		}
		opened, err := caller.Find(ctx, one.Store, right)
		if err != nil {
			return nil, err
		}
		st := opened.Info()
		if !st.ArchivedAt.IsZero() {
			return nil, reply.Invalidf("resources: the store %s is archived; a session has only stores that are not", st.ID)
		}
		if session.Grants[st.ID] != access.None {
			return nil, reply.Invalidf("resources: the store %s stands there twice", st.ID)
		}
		session.Grants[st.ID] = right
		made.Resources = append(made.Resources, ResourceJSON{
			"memory_store", st.ID, one.Access, st.Name, st.Slug, mountRoot + st.Slug, st.Description, one.Instructions,
		})
		m := note.Mount{Path: mountRoot + st.Slug, Store: st, ReadOnly: right == access.Read}
		if one.Instructions != nil {
			m.Instructions = *one.Instructions
		}
		mounts = append(mounts, m)
	}
	token, id, session, err := registry.NewToken(ctx, caller, session)
	if err != nil {
		return nil, err
	}
	made.ID, made.Token, made.TokenID, made.ExpiresAt = session.ID, token, id, session.Expires
	made.Note = note.Text(mounts, nil)
	return made, nil
}

// createSession makes the token of a session, narrower than the key that asks for it.
func createSession(ctx context.Context, c *call) (any, error) {
	o, err := c.object()
	if err != nil {
		return nil, err
	}
	var session access.Session
	if session.ID, _, err = o.OptString("session_id"); err != nil {
		return nil, err
	}
	seconds, given, err := o.OptInt("expires_in")
	if err != nil {
		return nil, err
	}
	if given {
		if most := int64(access.MaxTokenAge / time.Second); seconds < 1 || seconds > most {
			return nil, reply.Invalidf("expires_in: it must be from 1 to %d seconds", most)
		}
		session.Expires = c.now().Add(time.Duration(seconds) * time.Second)
	}
	calls, _, err := o.OptInt("max_calls")
	if err == nil {
		session.MaxBytes, _, err = o.OptInt("max_bytes")
	}
	if err != nil {
		return nil, err
	}
	session.MaxCalls = int(calls)
	objects, _, err := o.OptObjects("resources")
	if err == nil {
		err = o.Done()
	}
	if err != nil {
		return nil, err
	}
	var wanted []Wanted
	for _, one := range objects {
		w, err := wantedOf(one)
		if err != nil {
			return nil, err
		}
		wanted = append(wanted, w)
	}
	return NewSession(ctx, c.registry, c.caller, session, wanted)
}

// wantedOf reads what a session is to have of a store.
func wantedOf(o *strictjson.Object) (Wanted, error) {
	w := Wanted{Access: ReadWrite}
	kind, given, err := o.OptString("type")
	if err != nil {
		return w, err
	}
	if given && kind != "memory_store" {
		return w, reply.Invalidf("resources: the type must be memory_store")
	}
	id, byID, err := o.OptString("memory_store_id")
	if err != nil {
		return w, err
	}
	name, byName, err := o.OptString("name")
	if err != nil {
		return w, err
	}
	if byID == byName {
		return w, reply.Invalidf("resources: one of memory_store_id and name must be given")
	}
	w.Store = id + name
	if text, given, err := o.OptString("access"); err != nil {
		return w, err
	} else if given {
		w.Access = text
	}
	if text, given, err := o.OptString("instructions"); err != nil {
		return w, err
	} else if given {
		w.Instructions = &text
	}
	return w, o.Done()
}

// revokeSession has a token count no more.
func revokeSession(ctx context.Context, c *call) (any, error) {
	o, err := c.object()
	if err != nil {
		return nil, err
	}
	token, err := o.String("token")
	if err == nil {
		err = o.Done()
	}
	if err == nil {
		err = c.registry.Revoke(ctx, c.caller, token)
	}
	if err != nil {
		return nil, err
	}
	return struct {
		Type string `json:"type"`
	}{"session_revoked"}, nil
}
