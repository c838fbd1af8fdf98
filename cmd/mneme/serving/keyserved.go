package serving

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"mneme/backend"
	"mneme/cmd/mneme/app"
	"mneme/server/access"
	"mneme/server/manage"
)

// servedKeys are the keys of the library of a server. The credential is that of an admin.
type servedKeys struct{ server *backend.Server }

const keysPath = "/v1/mneme/keys"

func (s servedKeys) keys(ctx context.Context) ([]manage.KeyJSON, error) {
	var list struct {
		Data []manage.KeyJSON `json:"data"`
	}
	err := s.server.Call(ctx, http.MethodGet, keysPath, nil, &list)
	return list.Data, err
}

func (s servedKeys) create(ctx context.Context, wanted *wantedKey) (k manage.KeyJSON, err error) {
	body := struct {
		Label      string             `json:"label"`
		Everywhere string             `json:"everywhere"`
		Grants     []manage.GrantJSON `json:"grants"`
		ExpiresIn  int64              `json:"expires_in,omitempty"`
	}{wanted.label, wanted.everywhere.String(), []manage.GrantJSON{}, int64(wanted.expires / time.Second)}
	for _, grant := range wanted.grants {
		body.Grants = append(body.Grants, manage.GrantJSON{StoreID: grant.store, Right: grant.right.String()})
	}
	err = s.server.Call(ctx, http.MethodPost, keysPath, body, &k)
	return k, err
}

func (s servedKeys) change(ctx context.Context, id string, how keyChange) (k manage.KeyJSON, err error) {
	path := keysPath + "/" + url.PathEscape(id)
	if how != deleteKey {
		err = s.server.Call(ctx, http.MethodPost, path+"/"+string(how), nil, &k)
		return k, err
	}
	if err := s.server.Call(ctx, http.MethodGet, path, nil, &k); err != nil {
		return k, err
	}
	var deleted struct{}
	return k, s.server.Call(ctx, http.MethodDelete, path, nil, &deleted)
}

func (s servedKeys) session(ctx context.Context, ref *keyRef, wanted access.Session, stores []manage.Wanted) (*manage.SessionJSON, error) {
	if ref != nil {
		return nil, app.Usagef("a server makes tokens with the key of whoever asks it; leave out %q", ref.Key)
	}
	type resource struct {
		Name   string `json:"name"`
		Access string `json:"access"`
	}
	body := struct {
		SessionID string     `json:"session_id,omitempty"`
		ExpiresIn int64      `json:"expires_in,omitempty"`
		MaxCalls  int        `json:"max_calls,omitempty"`
		MaxBytes  int64      `json:"max_bytes,omitempty"`
		Resources []resource `json:"resources"`
	}{wanted.ID, 0, wanted.MaxCalls, wanted.MaxBytes, nil}
	if !wanted.Expires.IsZero() {
		body.ExpiresIn = max(1, int64(time.Until(wanted.Expires).Round(time.Second)/time.Second))
	}
	for _, st := range stores {
		body.Resources = append(body.Resources, resource{st.Store, st.Access})
	}
	made := &manage.SessionJSON{}
	return made, s.server.Call(ctx, http.MethodPost, "/v1/mneme/sessions", body, made)
}
