package memory_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"mneme/cas"
	"mneme/versionlog"
)

// TestHistoryCheckerCatches: each mistake that a program over a log could make
// must be seen before long (how soon, chance decides: calls have to meet), and
// there must be none without one. Both ways to check agree.
func TestHistoryCheckerCatches(t *testing.T) {
	type mistake struct {
		log   func(versionlog.Log) versionlog.Log
		blobs func(cas.Store) cas.Store
	}
	commits := func(change func(ctx context.Context, l versionlog.Log, id string, p *versionlog.Proposal) (*versionlog.Commit, error)) mistake {
		return mistake{log: func(l versionlog.Log) versionlog.Log { return &commitsOtherwise{l, change} }}
	}
	for name, mistake := range map[string]mistake{
		"none":                      {},
		"condition skipped":         commits(skipCondition),
		"base taken at the commit":  commits(newestBase),
		"key forgotten":             commits(freshKey),
		"batch in parts":            commits(inParts),
		"rename leaves a copy":      commits(copyInstead),
		"removal only acknowledged": commits(removeNothing),
		"conflict taken for done":   commits(ignoreConflict),
		"append to an old base":     {}, // in the caller, see historyClient.append
		"stale head": {log: func(l versionlog.Log) versionlog.Log {
			return &staleHeads{Log: l, seen: map[string]versionlog.Version{}}
		}},
		"commit before blob": {blobs: func(s cas.Store) cas.Store { return &lateBlobs{Store: s} }},
		"other bytes":        {blobs: func(s cas.Store) cas.Store { return &oneAnswer{Store: s} }},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(50) {
				libs := inMemory(mistake.log, mistake.blobs)
				work := historyWork{clients: 4, calls: 60, seed: 100 * seed, blindAppends: name == "append to an old base"}
				calls := work.run(t.Context(), 0, openTwice(t, libs, "s")...)
				err := linearizable(calls)
				if other := ordered(calls); (err == nil) != (other == nil) {
					t.Fatalf("history %d: porcupine says %v, the other check %v", seed+1, err, other)
				}
				if name == "none" && err != nil {
					t.Fatal(err)
				}
				if name == "none" && seed == 9 {
					return
				}
				if err != nil {
					t.Logf("found in history %d", seed+1)
					return
				}
			}
			t.Error("the checker found nothing")
		})
	}
}

// commitsOtherwise commits in its own way.
type commitsOtherwise struct {
	versionlog.Log
	how func(ctx context.Context, l versionlog.Log, id string, p *versionlog.Proposal) (*versionlog.Commit, error)
}

func (l *commitsOtherwise) Commit(ctx context.Context, id string, p *versionlog.Proposal) (*versionlog.Commit, error) {
	other := *p
	other.Changes = append([]versionlog.Change(nil), p.Changes...)
	return l.how(ctx, l.Log, id, &other)
}

func skipCondition(ctx context.Context, l versionlog.Log, id string, p *versionlog.Proposal) (*versionlog.Commit, error) {
	for i := range p.Changes {
		p.Changes[i].Expect = versionlog.ExpectAny()
	}
	return l.Commit(ctx, id, p)
}

// newestBase replaces what the caller last saw by what is there.
func newestBase(ctx context.Context, l versionlog.Log, id string, p *versionlog.Proposal) (*versionlog.Commit, error) {
	for i := range p.Changes {
		if strings.HasPrefix(p.Changes[i].Expect.String(), "version ") {
			p.Changes[i].Expect = versionlog.ExpectExists()
		}
	}
	return l.Commit(ctx, id, p)
}

// freshKey makes a commit whose reply was lost once more.
func freshKey(ctx context.Context, l versionlog.Log, id string, p *versionlog.Proposal) (*versionlog.Commit, error) {
	p.Key = versionlog.NewKey()
	return l.Commit(ctx, id, p)
}

// inParts commits the changes of a batch one by one.
func inParts(ctx context.Context, l versionlog.Log, id string, p *versionlog.Proposal) (*versionlog.Commit, error) {
	var all *versionlog.Commit
	for i, change := range p.Changes {
		one := *p
		one.Changes = []versionlog.Change{change}
		if i > 0 {
			one.Key = versionlog.NewKey()
		}
		c, err := l.Commit(ctx, id, &one)
		if err != nil {
			return nil, err
		}
		if all == nil {
			all = c
			continue
		}
		joined := *all
		joined.Versions = append(append([]versionlog.Version(nil), all.Versions...), c.Versions...)
		all = &joined
	}
	return all, nil
}

// copyInstead leaves what is renamed where it was.
func copyInstead(ctx context.Context, l versionlog.Log, id string, p *versionlog.Proposal) (*versionlog.Commit, error) {
	for i, c := range p.Changes {
		if c.Action != versionlog.Rename {
			continue
		}
		if v, err := l.Head(ctx, id, c.Path); err == nil {
			p.Changes[i] = versionlog.Change{Action: versionlog.Put, Path: c.To, Digest: v.Digest, Size: v.Size, Expect: versionlog.ExpectAbsent()}
		}
	}
	return l.Commit(ctx, id, p)
}

// removeNothing says of a removal alone that it is done.
func removeNothing(ctx context.Context, l versionlog.Log, id string, p *versionlog.Proposal) (*versionlog.Commit, error) {
	v, err := l.Head(ctx, id, p.Changes[0].Path)
	if err != nil || len(p.Changes) > 1 || p.Changes[0].Action != versionlog.Remove {
		return l.Commit(ctx, id, p)
	}
	v.Op, v.Parent, v.Digest, v.Size = versionlog.OpDeleted, v.ID, versionlog.Digest{}, 0
	return &versionlog.Commit{Seq: v.Seq + 1, Versions: []versionlog.Version{v}}, nil
}

// ignoreConflict makes up the version that a lost race would have made.
func ignoreConflict(ctx context.Context, l versionlog.Log, id string, p *versionlog.Proposal) (*versionlog.Commit, error) {
	c, err := l.Commit(ctx, id, p)
	if !errors.Is(err, versionlog.ErrConflict) {
		return c, err
	}
	tip, err := l.Tip(ctx, id)
	if err != nil {
		return nil, err
	}
	return &versionlog.Commit{Seq: tip.Seq + 1, Versions: make([]versionlog.Version, len(p.Changes))}, nil
}

// staleHeads answers every other time with the head before.
type staleHeads struct {
	versionlog.Log
	mu   sync.Mutex // guards n and seen
	n    int
	seen map[string]versionlog.Version
}

func (l *staleHeads) Head(ctx context.Context, id, path string) (versionlog.Version, error) {
	v, err := l.Log.Head(ctx, id, path)
	if err != nil {
		return v, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	old, ok := l.seen[path]
	l.seen[path] = v
	if l.n++; ok && l.n%2 == 0 {
		return old, nil
	}
	return v, nil
}

// lateBlobs acknowledges a blob before it is there.
type lateBlobs struct {
	cas.Store
	mu   sync.Mutex // guards last
	last []byte
}

func (s *lateBlobs) Put(ctx context.Context, data []byte) (cas.Digest, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last != nil {
		if _, err := s.Store.Put(ctx, s.last); err != nil {
			return cas.Digest{}, err
		}
	}
	s.last = bytes.Clone(data)
	return cas.Sum(data), nil
}

// oneAnswer serves one blob for another, once in a while.
type oneAnswer struct {
	cas.Store
	mu   sync.Mutex // guards n and last
	n    int
	last []byte
}

func (s *oneAnswer) Get(ctx context.Context, d cas.Digest) ([]byte, error) {
	data, err := s.Store.Get(ctx, d)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n++; err == nil && s.n%10 == 0 && s.last != nil {
		return s.last, nil
	}
	s.last = data
	return data, err
}
