package mount

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mneme/backend"
	"mneme/fusefs"
)

// mountCollector reads the counters of a mount on request.
type mountCollector struct {
	mount *fusefs.Server
	lib   *backend.Library
}

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("mneme_"+name, help, labels, nil)
}

var (
	descRequests    = describe("fuse_request_seconds", "Requests of the kernel, and the time it took to answer them.", "kind")
	descApplied     = describe("store_applied_sequence", "Every commit up to this sequence number is in the mount.", "store")
	descMemories    = describe("store_memories", "Memories in the mount.", "store")
	descUncommitted = describe("store_uncommitted_files", "Files of the mount that differ from the log.", "store")
	descCommits     = describe("store_commits_total", "Commits made through the mount.", "store")
	descCommitTime  = describe("store_commit_seconds", "Tries to commit through the mount, and the time they took.", "store")
	descConflicts   = describe("store_conflicts_total", "Commits that lost their race.", "store")
	descUsed        = describe("store_used", "How much of what a quota bounds the store has used.", "store", "what")
	descQuota       = describe("store_quota", "How much of it the store may use; missing where it may use any.", "store", "what")
	descDegraded    = describe("store_degraded", "1 while the log cannot be followed.", "store")
	descHeld        = describe("mount_held_bytes", "Bytes of memory that the mount holds for the programs that use it.")
	descMaxMemory   = describe("mount_max_held_bytes", "How many of them it may hold.")
	descRefused     = describe("mount_refused_total", "Calls that were refused since the mount would have held more.")
	descBackend     = describe("backend_request_seconds", "Requests to S3 and DynamoDB, and the time until their replies began.", "kind")
	descSent        = describe("backend_sent_bytes_total", "Bytes of bodies sent to S3 and DynamoDB.", "kind")
	descReceived    = describe("backend_received_bytes_total", "Bytes of bodies received from S3 and DynamoDB.", "kind")
	descCacheHits   = describe("cache_hits_total", "Reads of blobs that a tier of the cache answered.", "tier")
	descCacheMisses = describe("cache_misses_total", "Reads of blobs that went to the store.")
	descFetched     = describe("cache_fetched_bytes_total", "Bytes read from the store.")
	descCacheBytes  = describe("cache_bytes", "Bytes that a tier of the cache holds.", "tier")
	descCacheFaults = describe("cache_faults_total", "Cached files that were damaged or could not be used.", "fault")
	descEvictions   = describe("cache_evictions_total", "Files removed from the disk tier to make room.")
)

// Describe implements prometheus.Collector.
func (c *mountCollector) Describe(out chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, out) }

// Collect implements prometheus.Collector.
func (c *mountCollector) Collect(out chan<- prometheus.Metric) {
	stats := c.mount.Stats()
	for _, r := range stats.Requests {
		summary(out, descRequests, r.Count, r.Took, r.Kind)
	}
	for _, s := range stats.Stores {
		gauge(out, descApplied, float64(s.Applied), s.Store)
		gauge(out, descMemories, float64(s.Memories), s.Store)
		gauge(out, descUncommitted, float64(s.Uncommitted), s.Store)
		counter(out, descCommits, s.Commits, s.Store)
		summary(out, descCommitTime, s.Tries, s.Took, s.Store)
		counter(out, descConflicts, s.Conflicts, s.Store)
		degraded := 0.0
		if s.Degraded {
			degraded = 1
		}
		gauge(out, descDegraded, degraded, s.Store)
		for _, q := range []struct {
			what        string
			used, bound int64
		}{{"bytes", s.Used.Bytes, s.Quota.Bytes}, {"memories", s.Used.Memories, s.Quota.Memories}, {"versions_per_hour", s.Used.LastHour, s.Quota.PerHour}} {
			gauge(out, descUsed, float64(q.used), s.Store, q.what)
			if q.bound > 0 {
				gauge(out, descQuota, float64(q.bound), s.Store, q.what)
			}
		}
	}
	gauge(out, descHeld, float64(stats.Held))
	gauge(out, descMaxMemory, float64(stats.MaxHeld))
	counter(out, descRefused, stats.Refused)
	for _, r := range c.lib.Requests() {
		summary(out, descBackend, r.Count, r.Took, r.Kind)
		counter(out, descSent, r.Sent, r.Kind)
		counter(out, descReceived, r.Received, r.Kind)
	}
	c.collectCaches(out)
}

func (c *mountCollector) collectCaches(out chan<- prometheus.Metric) {
	sum := c.lib.CacheStats()
	counter(out, descCacheHits, sum.MemoryHits, "memory")
	counter(out, descCacheHits, sum.DiskHits, "disk")
	counter(out, descCacheMisses, sum.Misses)
	counter(out, descFetched, sum.FetchedBytes)
	counter(out, descEvictions, sum.Evictions)
	counter(out, descCacheFaults, sum.Corrupt, "corrupt")
	counter(out, descCacheFaults, sum.DiskErrors, "disk")
	gauge(out, descCacheBytes, float64(sum.MemoryBytes), "memory")
	gauge(out, descCacheBytes, float64(sum.DiskBytes), "disk")
}

// summary is the number of events and their total time.
func summary(out chan<- prometheus.Metric, desc *prometheus.Desc, n uint64, took time.Duration, labels ...string) {
	out <- prometheus.MustNewConstSummary(desc, n, took.Seconds(), nil, labels...)
}

func gauge(out chan<- prometheus.Metric, desc *prometheus.Desc, value float64, labels ...string) {
	out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
}

func counter(out chan<- prometheus.Metric, desc *prometheus.Desc, value uint64, labels ...string) {
	out <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(value), labels...)
}
