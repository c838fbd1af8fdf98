package gate

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"mneme/cas"
	"mneme/errkind"
	"mneme/gateway"
	"mneme/session/conflict"
	"mneme/versionlog"
)

// handled is a transport to a handler.
type handled struct{ http.Handler }

func (handled) CloseIdleConnections() {}

func (h handled) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result(), nil
}

// TestForget: a client has the server erase kept conflicts there, by version, content and text, which the server
// clears from its memory then, and an earlier server says that it does not.
func TestForget(t *testing.T) {
	r := newRig(t, nil)
	kept := conflict.New(r.kept + "/" + r.store.ID)
	for _, text := range []string{"of a digest", "a canary sings", "stays"} {
		if _, err := kept.Keep(conflict.About{Path: "/a"}, conflict.Texts{Yours: []byte(text)}); err != nil {
			t.Fatal(err)
		}
	}
	dial := func() *gateway.Log {
		t.Helper()
		l, err := gateway.Open(t.Context(), "http://localhost", &gateway.Options{Transport: handled{r.handler}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		return l
	}
	many := make([]string, 12_000) // which one request does not hold
	for i := range many {
		many[i] = versionlog.NewKey()
	}
	var clears []string
	r.caller.Erased = func(storeID string) { clears = append(clears, storeID) }
	places, err := dial().Forget(t.Context(), r.store.ID, many, []cas.Digest{cas.Sum([]byte("of a digest"))}, "canary")
	if err != nil || !slices.ContainsFunc(places, func(p versionlog.Purged) bool { return strings.HasPrefix(p.Place, "the server's kept conflicts (2)") }) {
		t.Errorf("the places are %+v, %v", places, err)
	}
	if ids, err := kept.IDs(); err != nil || !slices.Equal(ids, []int{3}) {
		t.Errorf("conflicts %v are kept, %v", ids, err)
	}
	if len(clears) == 0 || clears[0] != r.store.ID {
		t.Errorf("of stores %v the server clears what it was asked to look for", clears)
	}
	r.handler.machine = nil
	if _, err := dial().Forget(t.Context(), r.store.ID, nil, nil, "x"); errkind.Of(err) != errkind.Unsupported {
		t.Errorf("without a machine: %v", err)
	}
}
