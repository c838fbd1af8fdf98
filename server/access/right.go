package access

import (
	"fmt"
	"slices"
)

// Right is what a caller may do in a store. Each includes those before it.
type Right int

// The rights.
const (
	None  Right = iota
	Read        // memories, versions and the store's description
	Write       // memories
	Admin       // describe, archive and delete the store, and erase versions
)

var rights = [...]string{None: "none", Read: "read", Write: "write", Admin: "admin"}

// String returns its name.
func (r Right) String() string { return rights[r] }

// MarshalText returns its name.
func (r Right) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads a name.
func (r *Right) UnmarshalText(text []byte) error {
	i := slices.Index(rights[:], string(text))
	if i < 0 {
		return fmt.Errorf("%.40q is no right: want none, read, write or admin", text)
	}
	*r = Right(i)
	return nil
}
