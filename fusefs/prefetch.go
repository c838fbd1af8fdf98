package fusefs

import (
	"context"
	"slices"

	"mneme/fusefs/kernelcache"
	"mneme/fusefs/tree"
	"mneme/memory"
)

// content returns the bytes of a head of n, which is read and which the kernel
// does not have: those that were fetched ahead, or from the store.
// Callers hold no lock.
func (fs *fileSystem) content(ctx context.Context, n *tree.Entry, head *memory.Head) ([]byte, error) {
	if data := fs.ahead.Read(ctx, cached{n}, head); data != nil {
		return data, nil
	}
	return storeOf(n).memory.ContentOf(ctx, head)
}

// source is a mount's tree as files are fetched ahead from it.
type source struct{ fs *fileSystem }

// List implements kernelcache.Source.
func (s source) List(dir, after kernelcache.Node) []kernelcache.Node {
	s.fs.mu.RLock()
	defer s.fs.mu.RUnlock()
	entries := s.fs.listLocked(dir.(cached).Entry)[2:]
	if after != nil {
		entries = entries[slices.IndexFunc(entries, func(e dirEntry) bool { return e.id == after.Number() })+1:]
	}
	nodes := make([]kernelcache.Node, 0, len(entries))
	for _, e := range entries {
		if n := s.fs.node(e.id); n != nil {
			nodes = append(nodes, cached{n})
		}
	}
	return nodes
}

// Each implements kernelcache.Source.
func (s source) Each(dir kernelcache.Node, do func(kernelcache.Node)) {
	s.fs.mu.RLock()
	defer s.fs.mu.RUnlock()
	for _, n := range dir.(cached).Entry.ChildrenLocked() {
		do(cached{n})
	}
}

// Parent implements kernelcache.Source.
func (s source) Parent(n kernelcache.Node) kernelcache.Node {
	s.fs.mu.RLock()
	defer s.fs.mu.RUnlock()
	if up := n.(cached).ParentLocked(); up != nil && storeOf(up) != nil {
		return cached{up}
	}
	return nil
}

// Head implements kernelcache.Source.
func (s source) Head(of kernelcache.Node) *memory.Head {
	s.fs.mu.RLock()
	defer s.fs.mu.RUnlock()
	n := of.(cached).Entry
	if stageOf(n) != nil {
		return nil
	}
	return n.HeadLocked()
}

// PushableLocked implements kernelcache.Source.
func (s source) PushableLocked(of kernelcache.Node, head *memory.Head) bool {
	n := of.(cached).Entry
	return n.HeadLocked() == head && !mustReadLocked(n)
}

// BatchSize implements kernelcache.Source.
func (s source) BatchSize(n kernelcache.Node) int {
	return storeOf(n.(cached).Entry).memory.BatchSize()
}

// Contents implements kernelcache.Source.
func (s source) Contents(ctx context.Context, n kernelcache.Node, heads []*memory.Head) [][]byte {
	return storeOf(n.(cached).Entry).memory.Contents(ctx, heads)
}
