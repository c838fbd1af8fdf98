package forget

import (
	"slices"
	"strings"
	"time"

	"mneme/memory"
	"mneme/versionlog"
)

// Receipt lists the erased versions, the places, and the traces that are left.
type Receipt struct {
	Type      string    `json:"type"` // "redaction", or "retention" for versions that expired by a rule
	Store     string    `json:"store"`
	Reason    string    `json:"reason"`
	Time      time.Time `json:"time"`
	Versions  []string  `json:"versions"` // those that it has erased
	Sequence  []uint64  `json:"seqs"`     // of the events
	Erased    int       `json:"contents_erased"`
	Kept      int       `json:"contents_kept"` // other versions have them
	Places    []Place   `json:"places"`
	PathsIn   []string  `json:"paths_left_in"` // versions that still say the path of an erased one
	Unreached []string  `json:"unreached"`

	Found int `json:"-"` // what was found beside the history
}

// Place says what has become of it in one place.
type Place struct {
	Place    string    `json:"place"`
	ErasedAt time.Time `json:"erased_at,omitzero"`
	Left     string    `json:"left,omitempty"` // why something is still there, and what to do
}

// Unreached are the places that no redaction reaches.
var Unreached = []string{
	"copies that were handed out: backups, exports, images, packs and what agents have read",
	"mounts: each empties its caches when it follows the event, at once if it runs on this machine, and one of another machine or one that is stopped when it goes on",
	"kept conflicts of other machines and users: a mount or a server erases there those of the versions when it follows the event, or begins later, and no others that have a text",
	"of a store on AWS: point-in-time recovery and backups of the table, replicas of the bucket, and caches of other machines on which mneme does not run now, until it does",
	"names that the sessions of mounts and agents know, and the memory of commands that run meanwhile, such as exports: end these processes where that matters",
	"memory of a server with TLS: what a connection has sent on which a request waits for news, until the connection ends",
	"messages, sessions, metadata and keys of commits: the chain needs them",
	"logs of mneme, which name paths and hashes, and what mounts note of directories that are private",
	"free blocks of the disk on which files were removed",
}

func newReceipt(st *memory.Store, kind, reason string) *Receipt {
	return &Receipt{
		Type: kind, Store: st.Info().Slug, Reason: reason, Time: time.Now().UTC(), Versions: []string{}, Sequence: []uint64{},
		Places: []Place{}, PathsIn: []string{}, Unreached: Unreached,
	}
}

// Left returns the places where something is left.
func (r *Receipt) Left() []Place {
	return slices.DeleteFunc(slices.Clone(r.Places), func(p Place) bool { return p.Left == "" })
}

func (r *Receipt) add(places []versionlog.Purged) {
	for _, p := range places {
		r.Places = append(r.Places, Place{p.Place, p.At, p.Why})
	}
}

// note notes a place, which is done if err is nil.
func (r *Receipt) note(place string, err error) { r.add([]versionlog.Purged{purged(place, err)}) }

func purged(place string, err error) versionlog.Purged {
	if err != nil {
		return versionlog.Purged{Place: place, Why: strings.ReplaceAll(err.Error(), "\n", "; ")}
	}
	return versionlog.Purged{Place: place, At: time.Now().UTC()}
}
