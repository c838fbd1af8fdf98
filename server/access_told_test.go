package server

import (
	"strings"
	"testing"

	"mneme/server/access"
)

// TestAccessIsTold: a caller without a credential, or one that names a store by anything
// but its id, gets an error that says how to correct that. A missing store looks the same
// as one that the caller does not see.
func TestAccessIsTold(t *testing.T) {
	r := newRig(t, Options{})
	admin, reader := r.key(access.Admin, nil), r.key(access.None, map[string]access.Right{r.store.ID: access.Read})
	for _, secret := range []string{"", "mneme_x"} {
		w := r.ask("GET", "/v1/memory_stores", "", secret)
		if w.Code != 401 || !strings.Contains(w.Body.String(), `send a key or a token as \"Authorization: Bearer …\" or as x-api-key`) {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	}
	if w := r.ask("DELETE", "/v1/mneme/keys/apikey_x", "", admin); w.Code != 404 || !strings.Contains(w.Body.String(), `"message":"key apikey_x: not found"`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	const gone = "memstore_0000000000000000000000000a"
	for _, path := range []string{"/v1/memory_stores/", "/v1/mneme/stores/"} {
		for ref, want := range map[string]string{
			"notes": `"message":"store \"notes\": not found; here a store is named by its id, memstore_…, which GET /v1/memory_stores lists"`,
			gone:    `"message":"store \"` + gone + `\": not found"`,
		} {
			if path == "/v1/mneme/stores/" {
				ref += "/diff"
			}
			for _, secret := range []string{admin, reader} {
				if w := r.ask("GET", path+ref, "", secret); w.Code != 404 || !strings.Contains(w.Body.String(), want) {
					t.Errorf("%s: %d %s; want %s", ref, w.Code, w.Body, want)
				}
			}
		}
	}
}
