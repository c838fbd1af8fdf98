package spool

import (
	"bytes"
	"os"
	"testing"

	"mneme/internal/durable"
)

// BenchmarkWrite keeps 4 KB and drops them: as close does, as fsync does, and, to
// compare, as a durable file of its own for each.
func BenchmarkWrite(b *testing.B) {
	data := bytes.Repeat([]byte("x"), 4096)
	s := New(b.TempDir(), 1<<20)
	keep := func(b *testing.B, sync bool) {
		slot, err := s.Write(Entry{Key: "k", Path: "/x.tmp", Data: data})
		if err == nil && sync {
			err = slot.Sync()
		}
		if err == nil {
			err = slot.Drop()
		}
		must(b, err)
	}
	b.Run("closed", func(b *testing.B) {
		for b.Loop() {
			keep(b, false)
		}
	})
	b.Run("synced", func(b *testing.B) {
		for b.Loop() {
			keep(b, true)
		}
	})
	b.Run("file", func(b *testing.B) {
		root, err := os.OpenRoot(b.TempDir())
		must(b, err)
		defer root.Close()
		for b.Loop() {
			must(b, durable.WriteFile(root, "f", data, 0o600))
		}
	})
}
