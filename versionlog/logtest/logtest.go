// Package logtest is the conformance suite of versionlog.Log: it tests a backend against the
// promises in the comments of the contract. It also checks recorded concurrent histories for
// linearizability (History), for test suites of packages that are built on a log.
package logtest

import (
	"context"
	"errors"
	"hash/crc32"
	"iter"
	"sync"
	"testing"
	"time"

	"mneme/cas"
	"mneme/internal/testing/turn"
	"mneme/versionlog"

	"github.com/google/go-cmp/cmp"
)

// Config says how to get at a backend. The functions end the test when they fail, and ensure that
// everything they open is closed with the test.
type Config struct {
	// Open returns a log without stores that stamps commits with the given
	// clock.
	Open func(t testing.TB, now func() time.Time) versionlog.Log
	// Reopen closes a log and opens what it kept. Nil for a log that keeps
	// nothing.
	Reopen func(t testing.TB, l versionlog.Log) versionlog.Log
	// Share opens a second Log on what l keeps, as another process would. Nil
	// for a log that cannot be shared.
	Share func(t testing.TB, l versionlog.Log) versionlog.Log
	// Remote says that each call is requests to a server. The suite then repeats calls less often
	// where it repeats them so that they may meet in some way.
	Remote bool
	// Runs is how many histories the state machine draws at most; 0 is as many as rapid
	// wants.
	Runs int
	// Slow is set for a server that gets the requests that another got, and takes longer:
	// of the histories only the last is made, in which three logs share a store.
	Slow bool
	// Parts is for a suite that repeats another one's: in CI each run has one of so many parts of
	// the tests. 0 is one part.
	Parts int
}

// due reports whether this run has a test.
func (c *Config) due(test string) bool {
	return turn.Due(int(crc32.ChecksumIEEE([]byte(test))), max(1, c.Parts))
}

// repeats is how many commits are followed one by one.
func (c *Config) repeats() int {
	if c.Remote {
		return 50
	}
	return 200
}

// Run holds a backend against the contract.
func Run(t *testing.T, cfg Config) {
	for _, group := range []struct {
		name  string
		tests map[string]func(*suite)
	}{
		{"Stores", storeTests},
		{"Events", eventTests},
		{"Directories", directoryTests},
		{"Commit", commitTests},
		{"Conflict", conflictTests},
		{"Paths", pathTests},
		{"Read", readTests},
		{"Children", childrenTests},
		{"State", stateTests},
		{"Import", importTests},
		{"Wait", waitTests},
		{"Lifetime", lifetimeTests},
	} {
		t.Run(group.name, func(t *testing.T) {
			t.Parallel()
			for name, test := range group.tests {
				if !cfg.due(group.name + name) {
					continue
				}
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					test(newSuite(t, cfg))
				})
			}
		})
	}
	t.Run("Redact", func(t *testing.T) {
		t.Parallel()
		for name, test := range redactTests {
			if !cfg.due("Redact" + name) {
				continue
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				if s := newSuite(t, cfg); s.log.Capabilities().Purge != nil {
					test(s)
				}
			})
		}
	})
	if cfg.due("Histories") {
		t.Run("Histories", func(t *testing.T) { runHistories(t, cfg) })
	}
	t.Run("Machine", func(t *testing.T) {
		t.Parallel()
		runMachine(t, cfg)
	})
}

// suite is one test's log with one store.
type suite struct {
	*testing.T
	cfg   Config
	clock *clock
	log   versionlog.Log
	store versionlog.Store
}

func newSuite(t *testing.T, cfg Config) *suite {
	s := &suite{T: t, cfg: cfg, clock: newClock()}
	s.log = cfg.Open(t, s.clock.now)
	s.store = s.addStore("notes")
	return s
}

// clock is moved by hand. It starts between two microseconds, and far ahead:
// DynamoDB Local takes away at once the rows whose time is over, such as those
// by which a key is found.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func newClock() *clock {
	return &clock{at: time.Date(2100, 3, 1, 12, 0, 0, 123_456_789, time.FixedZone("", 3600))}
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

func (s *suite) addStore(slug string) versionlog.Store {
	s.Helper()
	store := versionlog.Store{
		ID: versionlog.NewStoreID(), Slug: slug, Name: "Näme of " + slug, Description: "what\nit is for",
		Limits:    versionlog.Limits{MaxMemoryBytes: 102_400, Content: versionlog.ContentText},
		CreatedAt: time.Date(2026, 2, 1, 0, 0, 0, 123_000, time.UTC), Epoch: 1,
	}
	s.must(s.log.CreateStore(s.Context(), store))
	return store
}

func (s *suite) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *suite) wantErr(err, want error) {
	s.Helper()
	if !errors.Is(err, want) {
		s.Fatalf("error is %v, want %v", err, want)
	}
}

func (s *suite) equal(got, want any) {
	s.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		s.Fatalf("want -, got +:\n%s", diff)
	}
}

func proposal(changes ...versionlog.Change) *versionlog.Proposal {
	return &versionlog.Proposal{
		Key: versionlog.NewKey(), Actor: versionlog.Actor{Kind: versionlog.ActorSession, ID: "agent"},
		Session: "session-1", Message: "why <it> changed", Changes: changes,
	}
}

// fresh is a proposal that is made once.
func fresh(changes ...versionlog.Change) *versionlog.Proposal {
	p := proposal(changes...)
	p.Fresh = true
	return p
}

func put(path, content string, expect versionlog.Expectation) versionlog.Change {
	return versionlog.Change{
		Action: versionlog.Put, Path: path, Digest: cas.Sum([]byte(content)), Size: int64(len(content)), Expect: expect,
	}
}

func remove(path string, expect versionlog.Expectation) versionlog.Change {
	return versionlog.Change{Action: versionlog.Remove, Path: path, Expect: expect}
}

func rename(path, to string, expect versionlog.Expectation) versionlog.Change {
	return versionlog.Change{Action: versionlog.Rename, Path: path, To: to, Expect: expect}
}

// renameAs is a rename that gives the memory another content.
func renameAs(path, to, content string, expect versionlog.Expectation) versionlog.Change {
	c := put(path, content, expect)
	c.Action, c.To = versionlog.Rename, to
	return c
}

func event(e *versionlog.Event) *versionlog.Proposal {
	p := fresh()
	p.Event = e
	return p
}

func eventError(_ *versionlog.Commit, err error) error { return err }

// event makes an event happen, which must be a commit of its own.
func (s *suite) event(e *versionlog.Event) *versionlog.Commit {
	s.Helper()
	before := s.tip()
	c, err := s.log.Commit(s.Context(), s.store.ID, event(e))
	s.must(err)
	if !c.Changes() || c.Seq != before.Seq+1 || c.Prev != before.Digest || len(c.Versions) > 0 {
		s.Fatalf("the event became %+v after %+v", c, before)
	}
	s.equal(c.Event, e)
	return c
}

func (s *suite) archive() *versionlog.Commit { return s.event(versionlog.StoreArchived()) }

// in does something with another store than that of the suite.
func (s *suite) in(store versionlog.Store, do func()) {
	mine := s.store
	s.store = store
	do()
	s.store = mine
}

var anything = versionlog.ExpectAny()

func (s *suite) try(changes ...versionlog.Change) (*versionlog.Commit, error) {
	return s.log.Commit(s.Context(), s.store.ID, fresh(changes...))
}

// commit makes the changes and returns their versions.
func (s *suite) commit(changes ...versionlog.Change) []versionlog.Version {
	s.Helper()
	c, err := s.try(changes...)
	s.must(err)
	return c.Versions
}

// put makes content the content of path and returns the version.
func (s *suite) put(path, content string) versionlog.Version {
	s.Helper()
	versions := s.commit(put(path, content, anything))
	if len(versions) != 1 {
		s.Fatalf("put %s made %d versions", path, len(versions))
	}
	return versions[0]
}

func (s *suite) tip() versionlog.Tip {
	s.Helper()
	tip, err := s.log.Tip(s.Context(), s.store.ID)
	s.must(err)
	return tip
}

func (s *suite) head(path string) versionlog.Version {
	s.Helper()
	v, err := s.log.Head(s.Context(), s.store.ID, path)
	s.must(err)
	return v
}

func (s *suite) heads(prefix string) []versionlog.Version {
	s.Helper()
	return collect(s.T, s.log.Heads(s.Context(), s.store.ID, prefix, ""))
}

func (s *suite) commits(after uint64) []*versionlog.Commit {
	s.Helper()
	return collect(s.T, s.log.Commits(s.Context(), s.store.ID, after))
}

func (s *suite) history(memoryID string) []versionlog.Version {
	s.Helper()
	return collect(s.T, s.log.History(s.Context(), s.store.ID, memoryID, 0))
}

// unchanged calls fn and makes sure that the history is what it was.
func (s *suite) unchanged(fn func()) {
	s.Helper()
	tip, heads := s.tip(), s.heads("/")
	fn()
	s.equal(s.tip(), tip)
	s.equal(s.heads("/"), heads)
}

type fataler interface {
	Helper()
	Fatal(args ...any)
}

func collect[T any](t fataler, seq iter.Seq2[T, error]) []T {
	t.Helper()
	var all []T
	for v, err := range seq {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, v)
	}
	return all
}

// firstError returns the error with which a walk ends.
func firstError[T any](seq iter.Seq2[T, error]) error {
	for _, err := range seq {
		if err != nil {
			return err
		}
	}
	return nil
}

func paths(versions []versionlog.Version) []string {
	var all []string
	for _, v := range versions {
		all = append(all, v.Path)
	}
	return all
}

func cancelled(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	return ctx
}
