package fusefs

import (
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// The bytes of a stage beyond mapFrom, which is a scratch file's as a rule, are in a mapping of
// their own: it grows without being copied, pages that no program has written take no memory, and
// the system has all of it back at once when it is dropped. On the heap each of these would wait
// for a garbage collection.
const mapFrom = 1 << 20

// mapStep is what the size of a mapping is a multiple of.
const mapStep = 1 << 20

// setLenLocked makes the stage's data size bytes long, with zeros where it grows. ENOMEM.
// The caller calls accountStageLocked next.
func (st *stage) setLenLocked(size int) error {
	was := len(st.data)
	switch {
	case size <= mapFrom && st.mapping != nil:
		st.data = slices.Clone(st.data[:size]) // reckon drops the mapping
	case size <= mapFrom:
		st.data = slices.Grow(st.data, max(0, size-was))[:size]
		clear(st.data[min(was, size):])
	default:
		if err := st.remap(size); err != nil {
			return err
		}
		st.data = st.mapping[:size]
	}
	return nil
}

// remap gives the stage a mapping for size bytes, which begins with its data.
func (st *stage) remap(size int) error {
	length := (size + mapStep - 1) / mapStep * mapStep
	was := len(st.data)
	if st.mapping == nil {
		mapping, err := unix.Mmap(-1, 0, length, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
		if err != nil {
			return fmt.Errorf("map %d bytes: %w", length, err)
		}
		copy(mapping, st.data)
		st.mapping = mapping
		return nil
	}
	if length != len(st.mapping) {
		mapping, err := unix.Mremap(st.mapping, length, unix.MREMAP_MAYMOVE)
		if err != nil {
			return fmt.Errorf("map %d bytes: %w", length, err)
		}
		st.mapping = mapping
	}
	if size < was { // what follows in the mapping may be read again
		clear(st.mapping[size:min(was, length)])
	}
	return nil
}

// unmapUnused drops the mapping if the data is no longer in it.
func (st *stage) unmapUnused() {
	if st.mapping == nil || len(st.data) > 0 && &st.data[0] == &st.mapping[0] {
		return
	}
	_ = unix.Munmap(st.mapping) // of mapped memory, which cannot fail
	st.mapping = nil
}
