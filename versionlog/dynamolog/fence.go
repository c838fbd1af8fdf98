package dynamolog

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"mneme/cas"
	"mneme/errkind"
	"mneme/internal/awsconf"
	"mneme/internal/objectversions"
	"mneme/versionlog"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// condemned are contents that a collector is about to delete. A collector is a redaction, or a collection of
// contents that no version has. A writer may have stored one of them just before, or found it stored, and be
// about to commit a version that has it. No commit may have a content that is deleted, and no writer may wait
// for collectors that have died. So:
//
//  1. "fence", in META, counts how often contents were condemned. Every commit has the condition that the fence
//     has not changed since before the writer checked that the contents of the commit are stored (asJudged). A
//     store without condemned contents has no fence, and its commits check no contents.
//  2. A collector condemns in one transaction: it puts a GONE row, with the digests and
//     "until", which is 45 minutes ahead by the clock of the servers, and adds 1 to the fence.
//  3. Then it reads META, and the commits up to that tip since it looked for versions that need the contents.
//     These include all commits that knew an earlier fence, since no such commit can succeed any longer; a row
//     of one may not be visible at once, and is waited for. Their contents are dropped from the condemned.
//  4. It deletes the others. It sends nothing later than 10 minutes after it read that clock; each request is
//     checked against that time once it is signed. It does not retry a request that may have arrived. S3
//     refuses a request that is signed for a time more than 15 minutes away, so no request takes effect after
//     40 minutes, however long a machine slept.
//  5. It removes the GONE row, if it has sent no request, or each one was answered. Otherwise the row stays,
//     and is void after "until", by the clock of the servers. No process trusts its own clock: the client
//     automatically corrects the time of signatures, so servers do not refuse requests of a process whose clock
//     is wrong. The next collector removes the row.
//  6. A writer reads the GONE rows first, strongly consistent. If one has a content of its commit, the writer
//     waits, or returns an error that the store is not available at present. Only then it checks that each
//     content is stored; its caller stores a missing one again.
//
// That suffices: the writer of a commit with the fence n read the GONE rows after the transaction that made the
// fence n. If it found the row of that collector, or of an earlier one, it waited. If it did not, the collector
// had made all its deletions, and the writer checked the contents after them. A check of the contents first,
// and then of the rows, would miss a collector that deletes and removes its row between the two.
//
// Two collectors have two rows, and each moves the fence. One content may be in both: it stays condemned until
// both are gone, since a writer reads all rows. A collector never takes over the row of another. One that wakes
// after its 10 minutes deletes nothing, whether or not its row was removed.
//
// Dropped: a mark on each content (S3 has no condition on two objects), and a lock that
// writers share (it costs each commit a write, and dead writers hold it).
type condemned struct {
	*store
	token   string
	digests []versionlog.Digest
	until   time.Time    // by the servers
	permit  func() error // nil while it may send
}

const (
	goneFor     = 45 * time.Minute // from before a GONE row is made until it means nothing
	deletesFor  = 10 * time.Minute // in which its collector sends
	clockSkew   = 5 * time.Minute  // by which the clocks of two servers differ at most
	condemnable = 256              // digests of one row
)

var (
	// errGone says that a commit needs a content that is not stored.
	errGone = fmt.Errorf("%w: the content of a change is not stored, or may not be read; it may have been erased since it was", cas.ErrNotFound)

	errBeingRemoved = errkind.New(errkind.Unavailable, "a redaction or a collection is removing a content that the change needs; it is stored again when that has ended, within 45 minutes where its process was killed")
)

func goneSort(token string) string { return gonePrefix + token }

// condemn puts a GONE row and moves the fence.
func (s *store) condemn(ctx context.Context, digests []versionlog.Digest) (*condemned, error) {
	for attempt := range 20 {
		if err := backoff(ctx, attempt); err != nil {
			return nil, err
		}
		m, err := s.log.table.meta(ctx, s.id)
		if err != nil {
			return nil, err
		}
		if m.fence == 0 {
			if err := s.log.table.raise(ctx); err != nil {
				return nil, err
			}
		}
		c := &condemned{store: s, token: rand.Text(), digests: digests, permit: permitFor(s.log.now, deletesFor)}
		now, err := s.log.serverTime(ctx)
		if err != nil {
			return nil, err
		}
		c.until = now.Add(goneFor)
		condition, names, values := m.fenceCondition()
		names["#creation"], values[":creation"], values[":fence"] = "creation", text(m.creation), number(m.fence+1)
		change := "SET #fence = :fence"
		if !m.erasing() {
			fenced := meta{fence: m.fence + 1}
			names["#now"] = fenced.archivedName()
			change += ", #now = :archived0 REMOVE #archived0"
		}
		err = s.log.transact(ctx, putNew(s.log.table.name, c.item()), types.TransactWriteItem{Update: &types.Update{
			TableName: &s.log.table.name, Key: key(s.id, metaSort), UpdateExpression: &change,
			ConditionExpression:      aws.String("#creation = :creation AND " + condition),
			ExpressionAttributeNames: names, ExpressionAttributeValues: values,
		}})
		if err == nil {
			return c, nil
		}
		there, lookErr := s.log.table.get(ctx, s.id, goneSort(c.token), false)
		switch {
		case lookErr != nil:
			return nil, errors.Join(err, lookErr)
		case there != nil: // the reply was lost
			return c, nil
		case !isConditionFailed(err):
			return nil, err
		}
	}
	return nil, errors.New("others condemn contents all the time; run it once more")
}

func (c *condemned) item() item {
	i := key(c.id, goneSort(c.token))
	digests := make([]types.AttributeValue, len(c.digests))
	for n, d := range c.digests {
		digests[n] = digestOf(d)
	}
	i["digests"], i["until"] = &types.AttributeValueMemberL{Value: digests}, microsOf(c.until)
	return i
}

// goneRow is what a GONE row says.
type goneRow struct {
	sort    string
	until   time.Time
	digests []versionlog.Digest
}

// ahead reports whether the row means something at a time of the servers. None is put further
// ahead than goneFor, but by hand; the clocks of servers differ by less than clockSkew.
func (g *goneRow) ahead(now time.Time) bool {
	left := g.until.Sub(now)
	return left > 0 && left < goneFor+clockSkew
}

// goneAhead returns the GONE rows that mean something, and those that do not.
func (s *store) goneAhead(ctx context.Context) (ahead, void []goneRow, err error) {
	rows, err := s.goneRows(ctx)
	if err != nil || len(rows) == 0 {
		return nil, nil, err
	}
	now, err := s.log.serverTime(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, g := range rows {
		if g.ahead(now) {
			ahead = append(ahead, g)
		} else {
			void = append(void, g)
		}
	}
	return ahead, void, nil
}

// has reports whether one of digests is condemned by the row.
func (g *goneRow) has(digests map[versionlog.Digest]bool) bool {
	return slices.ContainsFunc(g.digests, func(d versionlog.Digest) bool { return digests[d] })
}

func (s *store) goneRows(ctx context.Context) (rows []goneRow, err error) {
	for i, err := range s.log.table.below(ctx, s.id, gonePrefix) {
		if err != nil {
			return nil, err
		}
		r := row{item: i}
		g := goneRow{sort: sortOf(i), until: r.time("until")}
		digests, _ := i["digests"].(*types.AttributeValueMemberL)
		if digests == nil {
			r.fail("digests")
			return nil, r.err
		}
		for _, a := range digests.Value {
			one := row{item: item{"digests": a, "store_id": i["store_id"], "sk": i["sk"]}}
			g.digests = append(g.digests, one.digest("digests"))
			r.err = errors.Join(r.err, one.err)
		}
		if r.err != nil {
			return nil, r.err
		}
		rows = append(rows, g)
	}
	return rows, nil
}

// removeVoid removes the GONE rows that mean nothing any more.
func (s *store) removeVoid(ctx context.Context) error {
	_, void, err := s.goneAhead(ctx)
	if err != nil {
		return err
	}
	return s.removeGone(ctx, void)
}

func (s *store) removeGone(ctx context.Context, rows []goneRow) error {
	var gone []types.WriteRequest
	for _, g := range rows {
		gone = append(gone, deleteRequest(s.id, g.sort))
	}
	return s.log.table.write(ctx, gone)
}

// keep drops from the condemned what commits behind a sequence number have.
func (c *condemned) keep(ctx context.Context, behind uint64) error {
	m, err := c.log.table.meta(ctx, c.id)
	if err != nil {
		return err
	}
	for one, err := range c.log.commits(ctx, m, behind, m.tip.Seq) {
		if err != nil {
			return err
		}
		for i := range one.Versions {
			c.digests = slices.DeleteFunc(c.digests, func(d versionlog.Digest) bool { return d == one.Versions[i].Digest })
		}
	}
	return nil
}

// remove deletes the condemned, and what the bucket keeps of them, and removes the GONE row.
// Where old versions are left, it goes on, and the error is an objectversions.ErrLeft.
func (c *condemned) remove(ctx context.Context) error {
	bounded := awsconf.Once(awsconf.Permit(ctx, c.permit))
	blobs := c.log.blobs(c.id)
	all := map[versionlog.Digest]bool{}
	for _, d := range c.digests {
		all[d] = true
	}
	outcomes, err := inParallel(all, func(d versionlog.Digest, _ bool) (refused error, err error) {
		for _, step := range []func(context.Context, versionlog.Digest) error{blobs.Delete, blobs.DeleteOld} {
			if err := step(bounded, d); err != nil {
				if isRefusal(err) {
					return err, nil
				}
				return nil, err
			}
		}
		return nil, nil
	})
	if err != nil { // a request may be under way
		return err
	}
	refused := error(nil)
	for _, one := range outcomes {
		if one != nil && (refused == nil || errors.Is(refused, objectversions.ErrLeft)) {
			refused = one
		}
	}
	return errors.Join(refused, c.release(ctx))
}

// isRefusal reports whether an error is the answer of a server that does not do it.
func isRefusal(err error) bool {
	return errors.Is(err, objectversions.ErrLeft) || errors.Is(err, fs.ErrPermission)
}

// release removes the GONE row, also when the caller has given up.
func (c *condemned) release(ctx context.Context) error {
	return c.log.table.write(context.WithoutCancel(ctx), []types.WriteRequest{deleteRequest(c.id, goneSort(c.token))})
}

// contentsThere makes sure that a proposal's contents are there, in a store of which contents
// were condemned. It returns the fence that it knew before it looked: a commit upon that
// cannot be made once there is another. Errors: errGone, errBeingRemoved.
func (s *store) contentsThere(ctx context.Context, p *versionlog.Proposal) (fence uint64, err error) {
	s.mu.Lock()
	if s.view != nil {
		fence = s.view.meta.fence
	}
	s.mu.Unlock()
	wanted := contentsOf(p)
	if fence == 0 || len(wanted) == 0 || s.log.blobs == nil {
		return fence, nil
	}
	if err := s.awaitCollectors(ctx, wanted); err != nil {
		return 0, err
	}
	there, err := inParallel(wanted, func(d versionlog.Digest, _ bool) (bool, error) {
		has, err := s.log.blobs(s.id).Has(ctx, d)
		if errors.Is(awsconf.Explain(err), fs.ErrPermission) { // which is how S3 may say that it is missing
			return false, nil
		}
		return has, err
	})
	for _, has := range there {
		if err == nil && !has {
			err = errGone
		}
	}
	return fence, err
}

// contentsOf are the contents that a proposal brings.
func contentsOf(p *versionlog.Proposal) map[versionlog.Digest]bool {
	wanted := map[versionlog.Digest]bool{}
	for i := range p.Changes {
		if c := &p.Changes[i]; c.Puts() {
			wanted[c.Digest] = true
		}
	}
	return wanted
}

// awaitCollectors waits until no GONE row has one of the contents. errBeingRemoved.
func (s *store) awaitCollectors(ctx context.Context, wanted map[versionlog.Digest]bool) error {
	for attempt := 0; ; attempt++ {
		if attempt > 0 && backoff(ctx, attempt) != nil {
			return errBeingRemoved
		}
		ahead, _, err := s.goneAhead(ctx)
		if attempt > 0 && ctx.Err() != nil {
			return errBeingRemoved
		}
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(ahead, func(g goneRow) bool { return g.has(wanted) }) {
			return nil
		}
	}
}
