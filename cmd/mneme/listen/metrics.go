package listen

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"mneme/cmd/mneme/app"
)

// Loopback is the host for metrics if --metrics-addr names none.
const Loopback = "127.0.0.1"

// MetricsServer serves metrics over HTTP.
type MetricsServer struct {
	URL    string
	server *http.Server
	ended  chan error
}

// metricsKeyVariable names the environment variable with the key of the metrics.
const metricsKeyVariable = "MNEME_METRICS_KEY"

// minMetricsKey is the smallest length of the key in bytes.
const minMetricsKey = 16

// ServeMetrics serves the metrics of a mount or a server at addr, HOST:PORT. Without a host
// it listens on the loopback interface only. It serves other machines only with the key.
func ServeMetrics(addr string, of prometheus.Collector) (*MetricsServer, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, app.Usagef("--metrics-addr %q: want HOST:PORT or :PORT", addr)
	}
	if err := CheckAddress(host, port); err != nil {
		return nil, app.Usagef("--metrics-addr %q: %w", addr, err)
	}
	if host == "" {
		host = Loopback
	}
	key := os.Getenv(metricsKeyVariable)
	if key == "" && !IsLoopback(host) {
		return nil, app.Usagef("--metrics-addr %q can be reached by other machines; set $%s to a secret, which Prometheus is to send as its bearer token, or leave out the host", addr, metricsKeyVariable)
	}
	if key != "" && len(key) < minMetricsKey {
		return nil, app.Usagef("$%s has %d bytes; want a secret of at least %d, such as `openssl rand -hex 16` makes", metricsKeyVariable, len(key), minMetricsKey)
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, fmt.Errorf("serve metrics: %w", err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(of, collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), collectors.NewGoCollector())
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", guarded(key, promhttp.HandlerFor(registry, promhttp.HandlerOpts{})))
	m := &MetricsServer{
		URL:    "http://" + listener.Addr().String() + "/metrics",
		server: &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second},
		ended:  make(chan error, 1),
	}
	go func() { m.ended <- m.server.Serve(listener) }()
	return m, nil
}

// IsLoopback reports whether only this machine reaches a host.
func IsLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// guarded serves requests with the key. Without a key it serves requests that name this
// machine by a loopback name: a web page in a local browser could use another name for this
// address.
func guarded(key string, next http.Handler) http.Handler {
	want := sha256.Sum256([]byte("Bearer " + key))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if key != "" {
			got := sha256.Sum256([]byte(r.Header.Get("Authorization")))
			if subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
				w.Header().Set("WWW-Authenticate", "Bearer")
				http.Error(w, "the metrics take the key of $"+metricsKeyVariable+" as a bearer token", http.StatusUnauthorized)
				return
			}
		} else if host, _, err := net.SplitHostPort(r.Host); err != nil || !IsLoopback(host) {
			http.Error(w, "ask for these metrics at "+Loopback+" or localhost", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Close ends the server and waits for it. A nil *MetricsServer does nothing.
func (m *MetricsServer) Close() error {
	if m == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err := m.server.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = m.server.Close()
	}
	if ended := <-m.ended; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	return err
}
