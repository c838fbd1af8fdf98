package server

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics are the counters of a server.
type metrics struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	underWay prometheus.Gauge
}

func newMetrics() *metrics {
	return &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "mneme_server_requests_total", Help: "Requests, by operation and status."}, []string{"op", "status"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "mneme_server_request_seconds", Help: "How long requests took.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, []string{"op"}),
		underWay: prometheus.NewGauge(prometheus.GaugeOpts{Name: "mneme_server_requests_under_way", Help: "Requests that are not answered yet."}),
	}
}

// Describe is that of prometheus.Collector.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(m, ch) }

// Collect is that of prometheus.Collector.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	m.requests.Collect(ch)
	m.seconds.Collect(ch)
	m.underWay.Collect(ch)
}

// ServeHTTP answers an operator in the text form of Prometheus.
func (m *metrics) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(m, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, r)
}
