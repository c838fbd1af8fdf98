package bench

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"mneme/cas"
	"mneme/cas/memcas"
	"mneme/memory"
	"mneme/tests/harness"
	"mneme/versionlog"
	"mneme/versionlog/memlog"
)

const (
	farWriters   = 16
	renamePeriod = 100 * time.Millisecond
)

// BenchmarkFarWriters has 16 writers save 16 files over and over on a store that is 20 ms
// away, and says how many saves a second they make: by themselves, and beside a process
// that renames another file of the store every 100 ms. Rounds of both take turns, and the
// ratio is that of each pair of rounds, so that it says something on a busy machine, too:
//
//	go test -run '^$' -bench FarWriters -benchtime 1x ./tests/bench
func BenchmarkFarWriters(b *testing.B) {
	for range b.N {
		r := newReport(b)
		r.rounds = r.either(7, 1)
		period := time.Duration(r.either(3000, 300)) * time.Millisecond
		r.onFar(b.TempDir(), farStore(b), func(at string) {
			r.farRound(at, period/3, true) // makes the files
			took := map[bool]series{}
			for range r.rounds {
				for _, renames := range []bool{false, true} {
					took[renames] = append(took[renames], r.farRound(at, period, renames))
				}
			}
			b.ReportMetric(took[false].median(), "commits/s")
			b.ReportMetric(took[true].median(), "commits/s-beside-renames")
			b.ReportMetric(took[true].over(took[false]).median(), "ratio")
			fmt.Printf("commits/s by themselves %s, beside renames %s, ratio %s\n",
				took[false].withSpread(), took[true].withSpread(), took[true].over(took[false]).withSpread())
		})
		b.ReportMetric(0, "ns/op")
	}
}

// farRound returns how many saves a second the writers make.
func (r *report) farRound(at string, period time.Duration, renames bool) float64 {
	var renamer sync.WaitGroup
	var result harness.Result
	if renames {
		renamer.Go(func() { result = tryBenchChild(r.B, r.env, "renames", at, period.String()) })
	}
	saves, err := strconv.Atoi(strings.TrimSpace(runBenchChild(r.B, r.env, "saves", at, period.String())))
	renamer.Wait()
	if err != nil || result.Code != 0 {
		r.Fatalf("%v, %v", err, result)
	}
	return float64(saves) / period.Seconds()
}

// benchSaves saves files at once for a while, and prints how often.
func benchSaves(dir, period string) error {
	d, err := time.ParseDuration(period)
	if err != nil {
		return err
	}
	var all sync.WaitGroup
	saves, failed := make(chan int, farWriters), make(chan error, farWriters)
	end := time.Now().Add(d)
	for writer := range farWriters {
		all.Go(func() {
			n := 0
			for ; time.Now().Before(end); n++ {
				text := fmt.Sprintln("save", n, "of", writer, time.Now())
				if err := os.WriteFile(filepath.Join(dir, fmt.Sprint("saved", writer)), []byte(text), 0o644); err != nil {
					failed <- err
					return
				}
			}
			saves <- n
		})
	}
	all.Wait()
	close(saves)
	close(failed)
	sum := 0
	for n := range saves {
		sum += n
	}
	fmt.Println(sum)
	return <-failed
}

// benchRenames renames a file to and fro for a while.
func benchRenames(dir, period string) error {
	d, err := time.ParseDuration(period)
	if err != nil {
		return err
	}
	from, to := filepath.Join(dir, "renamed"), filepath.Join(dir, "moved")
	if err := errors.Join(os.RemoveAll(to), os.WriteFile(from, []byte("text\n"), 0o644)); err != nil {
		return err
	}
	ticks := time.NewTicker(renamePeriod)
	defer ticks.Stop()
	for end := time.Now().Add(d); time.Now().Before(end); <-ticks.C {
		if err := os.Rename(from, to); err != nil {
			return err
		}
		from, to = to, from
	}
	return nil
}

// farStore makes a store of which every call to the log takes farDelay.
func farStore(b *testing.B) *memory.Store {
	b.Helper()
	ctx := context.Background()
	blobs := memcas.New()
	library := memory.NewLibrary(&farLog{memlog.New(nil)}, func(string) (cas.Store, error) { return blobs, nil })
	info, err := library.CreateStore(ctx, "notes", nil)
	if err != nil {
		b.Fatal(err)
	}
	st, err := library.Open(ctx, info.ID, &memory.Author{Actor: versionlog.Actor{Kind: versionlog.ActorUser, ID: "bench"}})
	if err != nil {
		b.Fatal(err)
	}
	return st
}

// farLog is a log that is far away: each request takes farDelay, and none waits for another.
type farLog struct{ versionlog.Log }

func farAway[T any](ctx context.Context, ask func() (T, error)) (T, error) {
	select {
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	case <-time.After(farDelay):
		return ask()
	}
}

func (l *farLog) Commit(ctx context.Context, storeID string, p *versionlog.Proposal) (*versionlog.Commit, error) {
	return farAway(ctx, func() (*versionlog.Commit, error) { return l.Log.Commit(ctx, storeID, p) })
}

func (l *farLog) Tip(ctx context.Context, storeID string) (versionlog.Tip, error) {
	return farAway(ctx, func() (versionlog.Tip, error) { return l.Log.Tip(ctx, storeID) })
}

func (l *farLog) Head(ctx context.Context, storeID, path string) (versionlog.Version, error) {
	return farAway(ctx, func() (versionlog.Version, error) { return l.Log.Head(ctx, storeID, path) })
}

func (l *farLog) Last(ctx context.Context, storeID, path string) (versionlog.Version, error) {
	return farAway(ctx, func() (versionlog.Version, error) { return l.Log.Last(ctx, storeID, path) })
}

func (l *farLog) Commits(ctx context.Context, storeID string, after uint64) iter.Seq2[*versionlog.Commit, error] {
	return func(yield func(*versionlog.Commit, error) bool) {
		_, err := farAway(ctx, func() (bool, error) { return true, nil })
		if err != nil {
			yield(nil, err)
			return
		}
		l.Log.Commits(ctx, storeID, after)(yield)
	}
}

// Capabilities are those that need no request.
func (l *farLog) Capabilities() versionlog.Capabilities {
	return versionlog.Capabilities{MaxContent: l.Log.Capabilities().MaxContent}
}
