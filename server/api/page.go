package api

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"strings"

	"mneme/server/reply"
)

// pageJSON is one page of a list.
type pageJSON struct {
	Data     []any   `json:"data"`
	NextPage *string `json:"next_page"`
}

const cursorPrefix = "page_"

// cursor is the item after which a page begins. Writes meanwhile do not move it: it is a
// place in an order, not a number of items.
type cursor struct {
	After string `json:"a"`           // a slug, a path, or the id of a version
	Of    string `json:"o,omitempty"` // what the list was asked for
}

// query is what a list is asked for, apart from the page.
func (c *call) query() string {
	q := c.URL.Query()
	for _, of := range []string{"page", "limit", "view", "beta"} {
		q.Del(of)
	}
	sum := sha256.Sum256([]byte(c.route.Name + " " + c.PathValue("store") + " " + q.Encode()))
	return base64.RawURLEncoding.EncodeToString(sum[:9])
}

// after is behind what the page begins that is asked for; "" is the first.
func (c *call) after() (string, error) {
	text := c.URL.Query().Get("page")
	if text == "" {
		return "", nil
	}
	var at cursor
	data, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(text, cursorPrefix))
	if err == nil {
		err = json.Unmarshal(data, &at)
	}
	switch {
	case err != nil || at.After == "" || !strings.HasPrefix(text, cursorPrefix):
		return "", reply.Invalidf("page: it is not what next_page was")
	case at.Of != c.query():
		return "", reply.Invalidf("page: it is of a list with other parameters")
	}
	return at.After, nil
}

// pager collects a page.
type pager struct {
	of    string
	limit int
	page  pageJSON
	last  string
}

func (c *call) newPager(limit int) *pager {
	return &pager{of: c.query(), limit: limit, page: pageJSON{Data: []any{}}}
}

// full reports whether another thing is of the next page; then it ends the page.
func (p *pager) full() bool {
	if len(p.page.Data) < p.limit {
		return false
	}
	data, err := json.Marshal(cursor{p.last, p.of})
	if err != nil {
		panic(err) // of two strings
	}
	next := cursorPrefix + base64.RawURLEncoding.EncodeToString(data)
	p.page.NextPage = &next
	return true
}

// add adds what has a place in the order.
func (p *pager) add(place string, one any) {
	p.page.Data = append(p.page.Data, one)
	p.last = place
}
