package history

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"mneme/history"
	"mneme/jsonview"
	"mneme/memory"
	"mneme/server/reply"
)

// A page of differences ends after so many of them, or with the one whose patch passes so many bytes.
const (
	maxDifferences = 100
	maxPatches     = 1 << 20
)

type diffJSON struct {
	Data     []differenceJSON `json:"data"`
	FromSeq  uint64           `json:"from_seq"`
	ToSeq    uint64           `json:"to_seq"`
	NextPage *string          `json:"next_page"` // as the parameter page: what follows
}

type differenceJSON struct {
	From  *jsonview.Version `json:"from"` // null: the memory came to be
	To    *jsonview.Version `json:"to"`   // null: it is gone
	Patch string            `json:"patch,omitempty"`
	Error string            `json:"error,omitempty"` // why there is no patch
}

// diff returns what differs at and below a path between two points, by default the newest commit and
// the one before.
func diff(ctx context.Context, c *call) (any, error) {
	q := c.URL.Query()
	path, err := memory.ParsePrefix(cmp.Or(q.Get("path"), "/"))
	if err != nil {
		return nil, err
	}
	seqs, skip, err := c.points(ctx, path)
	if err != nil {
		return nil, err
	}
	from, err := c.store.At(ctx, seqs[0])
	if err != nil {
		return nil, err
	}
	to, err := c.store.At(ctx, seqs[1])
	if err != nil {
		return nil, err
	}
	all, err := history.Differences(ctx, c.store, from, to, path)
	if err != nil {
		return nil, err
	}
	page := diffJSON{Data: []differenceJSON{}, FromSeq: seqs[0], ToSeq: seqs[1]}
	all = all[min(skip, len(all)):]
	size, id := 0, c.store.Info().ID
	for p, err := range history.Patches(ctx, c.store, all[:min(len(all), maxDifferences)]) {
		if err != nil && p.From == nil && p.To == nil {
			return nil, err
		}
		one := differenceJSON{Patch: p.Text}
		if err != nil {
			one.Error = reply.Text(err)
		}
		if p.From != nil {
			v := jsonview.NewVersion(id, *p.From)
			one.From = &v
		}
		if p.To != nil {
			v := jsonview.NewVersion(id, *p.To)
			one.To = &v
		}
		page.Data = append(page.Data, one)
		if size += len(p.Text); size > maxPatches {
			break
		}
	}
	if n := len(page.Data); n < len(all) {
		next := fmt.Sprintf("%d.%d.%d.%s", seqs[0], seqs[1], skip+n, ofPath(path))
		page.NextPage = &next
	}
	return page, nil
}

// ofPath is what a page has of the path that its differences are of.
func ofPath(path string) string {
	sum := sha256.Sum256([]byte(path))
	return hex.EncodeToString(sum[:6])
}

// points returns the two points by their sequence numbers, and how many differences are on
// the pages before. The points of a page do not move with the newest commit.
func (c *call) points(ctx context.Context, path string) (seqs [2]uint64, skip int, err error) {
	q := c.URL.Query()
	if page := q.Get("page"); page != "" {
		var of string
		if n, _ := fmt.Sscanf(page, "%d.%d.%d.%s", &seqs[0], &seqs[1], &skip, &of); n != 4 || skip < 0 {
			return seqs, 0, reply.Invalidf("page: it is not what next_page was")
		}
		if of != ofPath(path) {
			return seqs, 0, reply.Invalidf("page: it is of the differences at another path; give the path that was asked for first")
		}
		return seqs, skip, nil
	}
	for i, text := range []string{cmp.Or(q.Get("from"), "HEAD~1"), cmp.Or(q.Get("to"), "HEAD")} {
		point, err := history.ParsePoint(text, c.now())
		if err == nil {
			seqs[i], err = history.ResolvePoint(ctx, c.store, point)
		}
		if err != nil {
			return seqs, 0, err
		}
	}
	return seqs, 0, nil
}
