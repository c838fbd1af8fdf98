package sqlitelog

import (
	"context"
	"maps"
	"sync"

	"mneme/internal/sqlite"
	"mneme/versionlog"
)

// knownStores are rows of the table stores as of the last look at the database, which saves
// asking it again as long as no process commits anything. Every call asks for a store's number
// and tip first, and a mount before every file it opens to write. The database itself judges
// commits.
type knownStores struct {
	db     *sqlite.DB
	format int // of the database, as far as its rows of stores are read

	mu   sync.Mutex // guards what follows
	as   moment
	rows map[string]storeRow // by id

	counted map[string]versionlog.Tip // by id: tips whose totals a caller has had to count
}

// moment is a state of the database, if it is known.
type moment struct {
	stamp sqlite.Stamp
	known bool
}

// frames is how many frames the write-ahead log has; 0 where that is not known.
func (m moment) frames() uint32 {
	if !m.known {
		return 0
	}
	return m.stamp.Frames()
}

func (k *knownStores) moment() (m moment) {
	m.stamp, m.known = k.db.Stamp()
	return m
}

// row returns a store's row as it is now.
func (k *knownStores) row(ctx context.Context, id string) (storeRow, error) {
	now := k.moment()
	if s, ok := k.get(&now, id); ok {
		return s, ctx.Err()
	}
	s, err := queryOne(ctx, k.db, readStores(k.format)+`WHERE id = ?`, scanStore, id)
	if err == nil && now.known {
		// Should something have been committed meanwhile, it is no longer the current state.
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.as != now {
			k.as, k.rows = now, map[string]storeRow{}
		}
		k.rows[id] = s
	}
	return s, err
}

// count counts the totals of a row, if need be; from where it did so last.
func (k *knownStores) count(ctx context.Context, s *storeRow) error {
	if s.isCounted() {
		return nil
	}
	k.mu.Lock()
	if last, ok := k.counted[s.ID]; ok && last.Seq > s.counted && last.Seq <= s.tip.Seq {
		s.counted, s.tip.Totals = last.Seq, last.Totals
	}
	k.mu.Unlock()
	if err := s.count(ctx, k.db); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.counted == nil {
		k.counted = map[string]versionlog.Tip{}
	}
	k.counted[s.ID] = s.tip
	return nil
}

func (k *knownStores) get(as *moment, id string) (storeRow, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s, ok := k.rows[id]
	return s, ok && as.known && k.as == *as
}

// advance notes the rows of stores as a transaction has left them that has seen the state before and
// committed, unless there has been another commit since. It returns the state after that.
func (k *knownStores) advance(before *moment, rows map[string]storeRow) (now moment) {
	now = k.moment()
	if !before.known || !now.known || !now.stamp.Follows(&before.stamp) {
		return now
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.as != *before || k.rows == nil {
		k.rows = map[string]storeRow{}
	}
	k.as = now
	maps.Copy(k.rows, rows)
	return now
}
