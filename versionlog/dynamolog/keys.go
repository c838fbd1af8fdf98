package dynamolog

import (
	"context"

	"mneme/versionlog"
)

// lookUp looks in the whole history for the commit that a proposal has become. When
// there is none, no commit up to absent is that; what came later, the view
// remembers. KEY rows are written behind the commits, and only then is the OUT
// row removed which has the keys of its commits until then. So it looks at
// these first: the key that has left them meanwhile has its own row.
func (s *store) lookUp(ctx context.Context, p *versionlog.Proposal) (c *versionlog.Commit, absent uint64, err error) {
	absent = s.tip()
	for i, err := range s.log.table.below(ctx, s.id, outPrefix) {
		if err != nil {
			return nil, 0, err
		}
		o, err := owedOf(i)
		if err != nil {
			return nil, 0, err
		}
		for n, k := range o.keys {
			if k != p.Key {
				continue
			}
			if c, err := s.log.commitAt(ctx, s.id, o.first+uint64(n)); err != nil || p.Became(c) {
				return c, 0, err
			}
		}
	}
	i, err := s.log.table.get(ctx, s.id, keySort(p.Key), false)
	if err != nil || i == nil {
		return nil, absent, err
	}
	r := row{item: i}
	seq := uint64(r.int("seq"))
	if r.err != nil {
		return nil, 0, r.err
	}
	if c, err = s.log.commitAt(ctx, s.id, seq); err == nil && !p.Became(c) {
		return nil, absent, nil
	}
	return c, 0, err
}
