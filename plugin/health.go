package plugin

import (
	"context"
	"sync"
	"time"

	"mneme/tools"
)

// Health asks each store for its newest commit.
func (p *Provider) Health(ctx context.Context) (answer Health) {
	began := time.Now()
	defer p.catch(func() { answer = p.newCheck().answer(began, reasonPanic) })
	defer func() { p.logCall("health", &answer.Diagnostics) }()
	c := p.newCheck()
	return within(ctx, p, func(ctx context.Context) Health {
		c.run(ctx)
		return c.answer(began, "")
	}, func(reason string) Health { return c.answer(began, reason) })
}

// check is one look at how the stores are.
type check struct {
	p      *Provider
	mu     sync.Mutex // guards the fields below
	stores []StoreHealth
}

func (p *Provider) newCheck() *check {
	c := &check{p: p, stores: []StoreHealth{}}
	takes := p.takes()
	for _, place := range p.memory.Places() {
		c.stores = append(c.stores, StoreHealth{
			Store: place.Store.Info().Slug, ReadOnly: !mayWrite(&place), Takes: takes != nil && takes.Session == place.Session,
			Reason: "deadline: it has not answered",
		})
	}
	return c
}

func (c *check) run(ctx context.Context) {
	var all sync.WaitGroup
	for i, place := range c.p.memory.Places() {
		all.Go(func() {
			defer c.p.catch(func() { c.note(i, func(s *StoreHealth) { s.Reason = reasonPanic }) })
			c.ask(ctx, i, place)
		})
	}
	all.Wait()
}

func (c *check) ask(ctx context.Context, i int, place tools.Place) {
	tip, err := place.Store.Tip(ctx)
	c.note(i, func(s *StoreHealth) {
		if err != nil {
			s.Reason = c.p.reasonOf(s.Store, "health", err)
			return
		}
		s.OK, s.Reason, s.Seq, s.Memories = true, "", tip.Seq, tip.Totals.Memories
	})
}

func (c *check) note(i int, change func(*StoreHealth)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(&c.stores[i])
}

// answer has the answers of the stores so far.
func (c *check) answer(began time.Time, reason string) Health {
	c.mu.Lock()
	defer c.mu.Unlock()
	var reasons []string
	if reason != "" {
		reasons = append(reasons, reason)
	}
	answer := Health{OK: reason == "", Provider: c.p.about(), Stores: append([]StoreHealth{}, c.stores...)}
	for _, s := range c.stores {
		if !s.OK {
			answer.OK, reasons = false, append(reasons, s.Store+": "+s.Reason)
		}
	}
	answer.Diagnostics = c.p.diagnostics(began, reasons...)
	if answer.Diagnostics.Degraded {
		answer.Diagnostics.Retry = Later
	}
	return answer
}
