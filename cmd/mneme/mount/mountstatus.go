package mount

import "mneme/daemon"

// mountJSON is a mount as `mneme status --json` writes it.
type mountJSON struct {
	Dir    string          `json:"dir"`
	PID    int             `json:"pid"`
	UID    int             `json:"uid"` // of the user who mounted it; -1 when the mount does not say
	Alive  bool            `json:"alive"`
	Stores []daemon.Status `json:"stores"` // none when it does not answer, or not this user

	closed bool // to this user
}

// newMountJSON asks a mount for its status.
func newMountJSON(m daemon.Mount) mountJSON {
	j := mountJSON{Dir: m.Dir, PID: m.PID, UID: m.UID, Alive: m.Alive(), Stores: []daemon.Status{}}
	if j.Alive {
		j.Stores = m.Ask()
		j.closed = len(j.Stores) == 0 && daemon.IsClosed(m.Dir)
	}
	return j
}
