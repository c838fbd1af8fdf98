package virtual

import "sync"

// removals are what programs have removed of a store's conflicts: it stays on disk, and
// is out of sight.
type removals struct {
	mu        sync.Mutex
	dismissed map[int]bool
	files     map[int]map[string]bool // of a conflict that is not dismissed, on the way to that
}

func (r *removals) dismiss(id int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dismissed[id] = true
	delete(r.files, id)
}

func (r *removals) isDismissed(id int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.dismissed[id]
}

func (r *removals) remove(id int, file string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.files[id] == nil {
		r.files[id] = map[string]bool{}
	}
	r.files[id][file] = true
}

// isRemoved reports whether a file of a conflict is removed, or all of the conflict.
func (r *removals) isRemoved(id int, file string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.dismissed[id] || r.files[id][file]
}
