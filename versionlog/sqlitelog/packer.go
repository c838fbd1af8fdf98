package sqlitelog

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"mneme/internal/sqlite"
	"mneme/versionlog"
)

// pace is when a log packs.
type pace struct {
	quiet    time.Duration // without a commit, after which it packs
	patience time.Duration // after which it packs a slice beside commits
	settled  time.Duration // without a commit, after which files are made smaller

	// atClose is how many commits a log leaves to the next process, that ends too early
	// to pack.
	atClose int64

	// retry is how soon it tries again what failed, such as on a full disk, and what other
	// processes were to do.
	retry time.Duration
}

// packPace is the pace of logs that are opened. Tests pack themselves.
var packPace = pace{quiet: 20 * time.Millisecond, patience: 5 * time.Second, settled: 200 * time.Millisecond, atClose: 4, retry: time.Minute}

const (
	// persistAfter is how many commits the cursor in the database may stay behind where
	// nothing had to be changed and nothing is left.
	persistAfter = 16

	// maxMoved is how many slices in a row it plans again at once.
	maxMoved = 10
)

// packer packs what commits leave, behind them: one goroutine of a log. A slice is
// planned while others write. It takes the writers' turn for a few milliseconds, and
// not while commits follow closely on one another, or only now and then.
type packer struct {
	log  *Log
	pace pace
	wake chan struct{}
	seen chan struct{} // another process has redacted, and maybe does not purge
	stop context.CancelFunc
	done sync.WaitGroup

	last  atomic.Int64 // when this log last began or made a commit, or was opened, in nanoseconds since 1970
	wrote atomic.Bool  // it has made one
	// The fields below are the goroutine's.
	moved   int                                                    // slices in a row that could not be applied
	ahead   map[int64]cursor                                       // of stores by number
	reading func(ctx context.Context, do func(source) error) error // calls do in a transaction that reads
}

func startPacker(l *Log) *packer {
	ctx, stop := context.WithCancel(context.Background())
	p := &packer{log: l, pace: packPace, wake: make(chan struct{}, 1), seen: make(chan struct{}, 1), stop: stop, ahead: map[int64]cursor{}, reading: l.reading}
	p.last.Store(time.Now().UnixNano())
	p.wake <- struct{}{}
	p.done.Go(func() { p.run(ctx) })
	return p
}

// committing says that this log is about to make a commit.
func (p *packer) committing() {
	if p != nil {
		p.last.Store(time.Now().UnixNano())
	}
}

// committed says that this log has made a commit.
func (p *packer) committed() {
	if p == nil {
		return
	}
	p.last.Store(time.Now().UnixNano())
	p.wrote.Store(true)
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// redacted says that another process has made a redaction. Should it not purge, this one
// does, after a while.
func (p *packer) redacted() {
	if p == nil {
		return
	}
	select {
	case p.seen <- struct{}{}:
	default:
	}
}

// close ends packing. A log that has committed and leaves much packs one slice.
func (p *packer) close() {
	if p == nil {
		return
	}
	p.stop()
	p.done.Wait()
	if !p.wrote.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	// On the connection that is there already: to open another one takes longer than this.
	w := p.log.writer
	p.reading = func(ctx context.Context, do func(source) error) error {
		if _, err := w.takeTurn(ctx); err != nil {
			return err
		}
		defer func() { <-w.turn }()
		return w.conn.Reading(func() error { return do(w) })
	}
	if worked, _ := p.step(ctx, p.pace.atClose); worked {
		_, _ = p.shrink(ctx)
	}
}

func (p *packer) run(ctx context.Context) {
	select { // most commands end before this, and have better things to do
	case <-ctx.Done():
		return
	case <-time.After(p.pace.settled):
	}
	p.loop(ctx)
}

func (p *packer) loop(ctx context.Context) {
	var again <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.seen:
			if again == nil {
				again = time.After(p.pace.retry)
			}
			continue
		case <-p.wake:
		case <-again:
		}
		again = nil
		for p.calm(ctx) {
			worked, err := p.step(ctx, 1)
			switch {
			case errors.Is(err, errLocked):
				again = time.After(p.pace.settled)
			case err != nil:
				again = time.After(p.pace.retry)
			}
			if !worked {
				break
			}
		}
		if left := p.settle(ctx); left && again == nil {
			again = time.After(p.pace.settled)
		}
		if again == nil && p.log.hasTraces() {
			again = time.After(p.pace.retry)
		}
	}
}

// calm waits for a pause between commits, with patience. False: ctx has ended.
func (p *packer) calm(ctx context.Context) bool {
	for began := time.Now(); ; {
		since := time.Since(time.Unix(0, p.last.Load()))
		isBusy := since < p.pace.quiet || len(p.log.writer.turn) > 0
		if !isBusy || time.Since(began) >= p.pace.patience {
			return ctx.Err() == nil
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(max(p.pace.quiet-since, time.Millisecond)):
		}
	}
}

// backlog is a store that has something to pack, maybe.
type backlog struct {
	num    int64
	id     string
	tip    int64
	from   cursor
	framed int64
}

const backlogs = `SELECT s.num, s.id, s.tip_seq, coalesce(p.seq, 0), coalesce(p.ord, 0),
		coalesce((SELECT r.last FROM packed_records r WHERE r.store = s.num ORDER BY r.seq DESC LIMIT 1), 0),
		EXISTS (SELECT 1 FROM files_left f WHERE f.store = s.num)
	FROM stores s LEFT JOIN packing p ON p.store = s.num`

// step packs one slice of a store that has at least so many commits to pack, and reports
// whether there was one. The error is that of stores before it.
func (p *packer) step(ctx context.Context, least int64) (bool, error) {
	type entry struct {
		backlog
		files bool
	}
	var all []entry
	err := p.reading(ctx, func(from source) (err error) {
		all, err = queryAll(ctx, from, backlogs, func(row *sqlite.Row) (entry, error) {
			return entry{backlog{row.ColumnInt64(0), row.ColumnText(1), row.ColumnInt64(2), cursor{row.ColumnInt64(3), row.ColumnInt64(4)}, row.ColumnInt64(5)}, row.ColumnInt(6) != 0}, nil
		})
		return err
	})
	if err != nil {
		return false, err
	}
	var errs []error
	for _, b := range all {
		if ahead := p.ahead[b.num]; b.from.before(ahead) {
			b.from = ahead
		}
		var worked bool
		var err error
		if b.files {
			err = p.removeFiles(ctx, b.num, b.id)
		}
		if err == nil && b.tip > 0 && (b.tip-b.from.seq+1 >= least || b.tip-b.framed >= int64(frameRecords)) {
			worked, err = p.slice(ctx, &b.backlog)
		}
		errs = append(errs, err)
		if worked || errors.Is(err, errLocked) || ctx.Err() != nil { // otherwise what is wrong with one store is no matter to others
			return worked, errors.Join(errs...)
		}
	}
	return false, errors.Join(errs...)
}

// slice packs one slice of a store.
func (p *packer) slice(ctx context.Context, b *backlog) (bool, error) {
	l := p.log
	files, err := l.filesOf(b.id)
	if err != nil {
		return false, err
	}
	var s *slice
	err = p.reading(ctx, func(from source) (err error) {
		s, err = plan(ctx, from, b.num, files, p.ahead[b.num])
		return err
	})
	if errors.Is(err, versionlog.ErrNotFound) { // the store
		return false, nil
	}
	if err != nil {
		return false, translate(err)
	}
	if !s.empty() || s.to.seq <= s.tip || s.to.seq-s.from.seq >= persistAfter {
		err = l.apply(ctx, s)
	}
	if errors.Is(err, errMoved) {
		if p.moved++; p.moved < maxMoved {
			return true, nil
		}
	}
	l.carrier.note(l.stores.moment().frames())
	if p.moved = 0; err == nil {
		p.ahead[b.num] = s.to
		if len(s.files) > 0 {
			err = p.removeFiles(ctx, b.num, b.id)
		}
	}
	return err == nil && (b.from.before(s.to) || !s.empty()), err
}

// settle makes the files smaller when no process has committed for a while. It reports whether
// that is left to do: because a process commits, or because another one reads from the
// write-ahead log, or carries it over.
func (p *packer) settle(ctx context.Context) (left bool) {
	for {
		last := p.last.Load()
		select {
		case <-ctx.Done():
			return false
		case <-time.After(p.pace.settled - time.Since(time.Unix(0, last))):
		}
		if p.last.Load() != last {
			return true // what was begun has maybe made no commit, which would wake this
		}
		if worked, err := p.shrink(ctx); err != nil || !worked {
			break
		}
	}
	p.log.purgeLeft(ctx)
	if info, err := os.Stat(p.log.path(DatabaseName + sqlite.WriteAheadSuffix)); err == nil && info.Size() > keptAhead {
		done, err := p.log.writer.cut(ctx)
		return !done && err == nil
	}
	return false
}
