package agents

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"mneme/cas"
	"mneme/cas/memcas"
	"mneme/memory"
	"mneme/server"
	"mneme/server/access"
	"mneme/versionlog"
	"mneme/versionlog/memlog"
)

// web is a server of a store notes.
type web struct {
	url   string
	token string // of the session s1, which may write to the store
}

// newWeb serves a store notes in memory, with a file. edit, unless it is nil, changes each request.
func newWeb(t *testing.T, edit func(r *http.Request, token string)) *web {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	blobs := map[string]cas.Store{}
	lib := memory.NewLibrary(memlog.New(nil), func(store string) (cas.Store, error) {
		if blobs[store] == nil {
			blobs[store] = memcas.New()
		}
		return blobs[store], nil
	})
	root := &memory.Author{Actor: versionlog.Actor{Kind: versionlog.ActorUser, ID: "root"}}
	info, err := lib.CreateStore(t.Context(), "notes", nil)
	must(err)
	notes, err := lib.Open(t.Context(), info.ID, root)
	must(err)
	for _, text := range []string{"none\n", "one\n"} { // as many commits as the command line makes for a store and a file
		_, err = notes.Write(t.Context(), "/a.md", []byte(text), versionlog.ExpectAny())
		must(err)
	}
	keys, err := access.OpenRegistry(t.Context(), lib, &access.RegistryOptions{Author: root})
	must(err)
	_, secret, err := keys.CreateKey(t.Context(), access.Key{Label: "agents", Grants: map[string]access.Right{info.ID: access.Write}})
	must(err)
	keys.Close()
	listener := httptest.NewUnstartedServer(nil)
	w := &web{url: "http://" + listener.Listener.Addr().String()}
	served, err := server.New(t.Context(), lib, &server.Options{Author: root, Hosts: []string{"127.0.0.1"}, Origins: []string{w.url}})
	must(err)
	listener.Config.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if edit != nil && w.token != "" {
			edit(r, w.token)
		}
		served.Handler().ServeHTTP(rw, r)
	})
	listener.Start()
	t.Cleanup(func() { listener.Close(); served.Close() })
	w.token = w.newSession(t, secret)
	return w
}

// newSession makes the token.
func (w *web) newSession(t *testing.T, secret string) string {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.url+"/v1/mneme/sessions", strings.NewReader(`{"session_id":"s1","resources":[{"name":"notes"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer "+secret)
	res, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	var made struct{ Token string }
	if err == nil {
		err = json.Unmarshal(data, &made)
	}
	if err != nil || made.Token == "" {
		t.Fatal(fmt.Errorf("%s %s: %w", res.Status, data, err))
	}
	return made.Token
}
