package dircas_test

import (
	"fmt"
	"testing"

	"mneme/cas/dircas"
	"mneme/internal/durable"
)

// BenchmarkPut puts new blobs of 4 KiB and reports the fsyncs of each.
func BenchmarkPut(b *testing.B) {
	s, err := dircas.Open(b.TempDir(), nil)
	if err != nil {
		b.Fatal(err)
	}
	data := make([]byte, 4096)
	before, n := durable.Fsyncs(), 0
	for b.Loop() {
		copy(data, fmt.Appendf(nil, "%010d", n))
		n++
		if _, err := s.Put(b.Context(), data); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(durable.Fsyncs()-before)/float64(n), "fsyncs/op")
}

// BenchmarkGet reads blobs of 128 KiB.
func BenchmarkGet(b *testing.B) {
	s, err := dircas.Open(b.TempDir(), nil)
	if err != nil {
		b.Fatal(err)
	}
	data := make([]byte, 128<<10)
	d, err := s.Put(b.Context(), data)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := s.Get(b.Context(), d); err != nil {
			b.Fatal(err)
		}
	}
}
