package daemon

import (
	"path/filepath"

	"mneme/memory"
)

// Mounted describes a mount that is ready. Its JSON is printed by --json, and sent by a
// daemon in the background to its parent.
type Mounted struct {
	Dir       string         `json:"mounted"`
	PID       int            `json:"pid"`
	SessionID string         `json:"session_id"`
	Stores    []MountedStore `json:"stores"`
	Metrics   string         `json:"metrics,omitempty"`   // their URL, with --metrics-addr
	Recovered []LeftFile     `json:"recovered,omitempty"` // of mounts that were killed
}

// MountedStore is a store of a mount.
type MountedStore struct {
	ID       string  `json:"id"`
	Slug     string  `json:"slug"`
	Path     string  `json:"mount_path"`
	ReadOnly bool    `json:"read_only"`
	AsOf     *uint64 `json:"as_of_seq,omitempty"` // the commit after which the mount shows the store; nil: the newest
}

// NewMounted describes a mount of stores at dir.
func NewMounted(dir string, flat bool, pid int, session string, stores []*memory.Store) Mounted {
	m := Mounted{Dir: dir, PID: pid, SessionID: session}
	for _, st := range stores {
		s := st.Info()
		shown := MountedStore{ID: s.ID, Slug: s.Slug, Path: StoreDir(dir, flat, s.Slug), ReadOnly: st.ReadOnly()}
		if seq, past := st.EndsAt(); past {
			shown.AsOf = &seq
		}
		m.Stores = append(m.Stores, shown)
	}
	return m
}

// StoreDir is the directory of a store in a mount at dir.
func StoreDir(dir string, flat bool, slug string) string {
	if flat {
		return dir
	}
	return filepath.Join(dir, slug)
}
