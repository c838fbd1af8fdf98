package listen

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"mneme/cmd/mneme/app"
)

// TestMetricsAreGuarded: metrics that other machines reach require the key, and those of this
// machine are for a caller that asks for it by name.
func TestMetricsAreGuarded(t *testing.T) {
	for _, test := range []struct {
		key, host, authorization string
		want                     int
	}{
		{"", "127.0.0.1:9100", "", http.StatusOK},
		{"", "localhost:9100", "", http.StatusOK},
		{"", "[::1]:9100", "", http.StatusOK},
		{"", "rebound.example:9100", "", http.StatusMisdirectedRequest},
		{"", "", "", http.StatusMisdirectedRequest},
		{"secret", "metrics.example:9100", "Bearer secret", http.StatusOK},
		{"secret", "metrics.example:9100", "Bearer Secret", http.StatusUnauthorized},
		{"secret", "metrics.example:9100", "secret", http.StatusUnauthorized},
		{"secret", "127.0.0.1:9100", "", http.StatusUnauthorized},
	} {
		r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
		r.Host = test.host
		r.Header.Set("Authorization", test.authorization)
		w := httptest.NewRecorder()
		guarded(test.key, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).ServeHTTP(w, r)
		if w.Code != test.want {
			t.Errorf("with key %q, asked of %q with %q: %d, want %d", test.key, test.host, test.authorization, w.Code, test.want)
		}
	}
	t.Setenv(metricsKeyVariable, "short")
	if _, err := ServeMetrics("0.0.0.0:0", nil); app.Classify(err) != app.Usage {
		t.Errorf("serving with a short key: %v, want a usage error", err)
	}
	t.Setenv(metricsKeyVariable, "")
	for _, addr := range []string{"0.0.0.0:0", "192.0.2.1:9100", "[::]:0", "myhost:9100"} {
		if _, err := ServeMetrics(addr, nil); app.Classify(err) != app.Usage {
			t.Errorf("serving at %s without a key: %v, want a usage error", addr, err)
		}
	}
}
