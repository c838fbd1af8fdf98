package logtest

import (
	"context"
	"errors"
	"iter"
	"strings"
	"sync"
	"testing"
	"time"

	"mneme/versionlog"
	"mneme/versionlog/memlog"
)

// TestCheckerAcceptsSound: without it the tests below would prove nothing.
func TestCheckerAcceptsSound(t *testing.T) {
	for seed := range uint64(10) {
		if err := checkedWork(t, seed, func(l versionlog.Log) versionlog.Log { return l }); err != nil {
			t.Error(err)
		}
	}
}

// TestCheckerCatches: each way to break a log must be seen before long; how soon,
// chance decides, since calls have to meet.
func TestCheckerCatches(t *testing.T) {
	for name, breakIt := range map[string]func(versionlog.Log) versionlog.Log{
		"condition skipped":      func(l versionlog.Log) versionlog.Log { return &careless{Log: l} },
		"version ignored":        func(l versionlog.Log) versionlog.Log { return &careless{Log: l, versionsOnly: true} },
		"sequence reused":        func(l versionlog.Log) versionlog.Log { return &stutter{Log: l} },
		"sequence left out":      func(l versionlog.Log) versionlog.Log { return &stutter{Log: l, skip: true} },
		"lost commit":            func(l versionlog.Log) versionlog.Log { return &forgetful{Log: l} },
		"stale head":             func(l versionlog.Log) versionlog.Log { return &stale{Log: l, seen: map[string]versionlog.Version{}} },
		"stale tip":              func(l versionlog.Log) versionlog.Log { return &staleTip{Log: l} },
		"half a commit":          func(l versionlog.Log) versionlog.Log { return &halving{Log: l} },
		"conflict without heads": func(l versionlog.Log) versionlog.Log { return &headless{Log: l} },
		"directory made twice":   func(l versionlog.Log) versionlog.Log { return &generous{Log: l} },
		"full directory removed": func(l versionlog.Log) versionlog.Log { return &rough{Log: l} },
		"no fence":               func(l versionlog.Log) versionlog.Log { return &fenceless{Log: l} },
		"import anywhere":        func(l versionlog.Log) versionlog.Log { return &grafting{Log: l} },
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(50) {
				if err := checkedWork(t, seed, breakIt); err != nil {
					t.Logf("found in history %d: %v", seed+1, err)
					return
				}
			}
			t.Error("the checker found nothing")
		})
	}
}

func checkedWork(t *testing.T, seed uint64, wrap func(versionlog.Log) versionlog.Log) error {
	l := memlog.New(nil)
	store := versionlog.Store{ID: versionlog.NewStoreID(), Slug: "s"}
	if err := l.CreateStore(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	h := &History{}
	Workload{Clients: 4, Calls: 60, Seed: seed}.Run(t.Context(), h, store.ID, wrap(l))
	err := h.Check(10 * time.Second)
	if other := order(h.Calls); (err == nil) != (other == nil) {
		t.Errorf("without a search: %v; with one: %v", other, err)
	}
	return err
}

// careless replaces expectations by "anything".
type careless struct {
	versionlog.Log
	versionsOnly bool // only those of a version
}

func (l *careless) Commit(ctx context.Context, id string, p *versionlog.Proposal) (*versionlog.Commit, error) {
	for i := range p.Changes {
		e := p.Changes[i].Expect.String()
		if !l.versionsOnly || strings.HasPrefix(e, "version ") {
			p.Changes[i].Expect = versionlog.ExpectAny()
		}
	}
	return l.Log.Commit(ctx, id, p)
}

// stutter numbers one commit like the one before it, or like the one after.
type stutter struct {
	versionlog.Log
	skip bool
}

func (l *stutter) Commit(ctx context.Context, id string, p *versionlog.Proposal) (*versionlog.Commit, error) {
	c, err := l.Log.Commit(ctx, id, p)
	if err != nil || c.Seq != 10 {
		return c, err
	}
	wrong := *c
	if wrong.Seq--; l.skip {
		wrong.Seq += 2
	}
	return &wrong, nil
}

// forgetful acknowledges one commit without keeping it.
type forgetful struct {
	versionlog.Log
	mu   sync.Mutex
	done bool
}

func (l *forgetful) Commit(ctx context.Context, id string, p *versionlog.Proposal) (*versionlog.Commit, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	tip, err := l.Tip(ctx, id)
	if err != nil {
		return nil, err
	}
	if l.done || tip.Seq != 10 {
		return l.Log.Commit(ctx, id, p)
	}
	store, err := l.Store(ctx, id)
	if err != nil {
		return nil, err
	}
	c, err := versionlog.Build(&outsideView{ctx, l.Log, id}, store, tip, p, time.Now())
	l.done = err == nil && len(c.Versions) > 0
	return c, err
}

// outsideView is a View that reads from a log.
type outsideView struct {
	ctx context.Context
	log versionlog.Log
	id  string
}

func (v *outsideView) Head(path string) (*versionlog.Version, error) {
	head, err := v.log.Head(v.ctx, v.id, path)
	if err != nil {
		return nil, nil
	}
	return &head, nil
}

func (v *outsideView) Below(path string) iter.Seq2[versionlog.Version, error] {
	return func(yield func(versionlog.Version, error) bool) {
		for head, err := range v.log.Heads(v.ctx, v.id, path, "") {
			if head.Path != path && !yield(head, err) {
				return
			}
		}
	}
}

func (v *outsideView) Newest(string) (*versionlog.Version, error) { return nil, nil }

// stale goes on answering with the first head it saw of a path, while there is
// one.
type stale struct {
	versionlog.Log
	mu   sync.Mutex
	seen map[string]versionlog.Version
}

func (l *stale) Head(ctx context.Context, id, path string) (versionlog.Version, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	v, err := l.Log.Head(ctx, id, path)
	if err != nil {
		return v, err
	}
	if old, ok := l.seen[path]; ok {
		return old, nil
	}
	l.seen[path] = v
	return v, nil
}

// staleTip answers with the tip before the newest, once there are some.
type staleTip struct{ versionlog.Log }

func (l *staleTip) Tip(ctx context.Context, id string) (versionlog.Tip, error) {
	tip, err := l.Log.Tip(ctx, id)
	if tip.Seq < 5 {
		return tip, err
	}
	for c, err := range l.Commits(ctx, id, tip.Seq-5) {
		return versionlog.Tip{}.After(c), err
	}
	return tip, err
}

// halving makes only the first change of a proposal.
type halving struct{ versionlog.Log }

func (l *halving) Commit(ctx context.Context, id string, p *versionlog.Proposal) (*versionlog.Commit, error) {
	half := *p
	half.Changes = p.Changes[:min(1, len(p.Changes))]
	return l.Log.Commit(ctx, id, &half)
}

// generous lets the caller that makes a directory have it, though another has made it.
type generous struct{ versionlog.Log }

func (l *generous) Commit(ctx context.Context, id string, p *versionlog.Proposal) (*versionlog.Commit, error) {
	for i := range p.Changes {
		if p.Changes[i].Action == versionlog.MakeDir && p.Changes[i].Expect.Holds(nil) {
			p.Changes[i].Expect = versionlog.ExpectAny()
		}
	}
	return l.Log.Commit(ctx, id, p)
}

// rough says that a directory is removed, though something is in it.
type rough struct{ versionlog.Log }

func (l *rough) Commit(ctx context.Context, id string, p *versionlog.Proposal) (*versionlog.Commit, error) {
	c, err := l.Log.Commit(ctx, id, p)
	if errors.Is(err, versionlog.ErrOverlap) && len(p.Changes) == 1 && p.Changes[0].Action == versionlog.Remove {
		tip, err := l.Tip(ctx, id)
		return &versionlog.Commit{Seq: tip.Seq, Digest: tip.Digest}, err
	}
	return c, err
}

// fenceless takes commits of any epoch.
type fenceless struct{ versionlog.Log }

func (l *fenceless) Commit(ctx context.Context, id string, p *versionlog.Proposal) (*versionlog.Commit, error) {
	p.Epoch = 0
	return l.Log.Commit(ctx, id, p)
}

// grafting makes a commit of its own of one that does not follow.
type grafting struct{ versionlog.Log }

func (l *grafting) Commit(ctx context.Context, id string, p *versionlog.Proposal) (*versionlog.Commit, error) {
	c, err := l.Log.Commit(ctx, id, p)
	if p.Finished != nil && errors.Is(err, versionlog.ErrInvalid) {
		p.Finished = nil
		return l.Log.Commit(ctx, id, p)
	}
	return c, err
}

// headless leaves the heads out of its conflicts.
type headless struct{ versionlog.Log }

func (l *headless) Commit(ctx context.Context, id string, p *versionlog.Proposal) (*versionlog.Commit, error) {
	c, err := l.Log.Commit(ctx, id, p)
	var conflict *versionlog.ConflictError
	if errors.As(err, &conflict) {
		for i := range conflict.Conflicts {
			conflict.Conflicts[i].Head = nil
		}
	}
	return c, err
}
