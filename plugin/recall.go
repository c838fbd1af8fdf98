package plugin

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"mneme/errkind"
	"mneme/internal/plural"
	"mneme/memory"
	"mneme/tools"
)

// Recall returns the memories that have words of QueryText, the best first; without a QueryText,
// the newest. It looks through the newest version of every memory of every store, the newest
// first, until its deadline, and Diagnostics report the part that it has not looked at.
//
// The score of a memory is that of BM25 (k1 1.2, b 0.75), and half the weight of each word that
// is in its path. If two have the same score, the newer comes first.
func (p *Provider) Recall(ctx context.Context, r Request) (answer Recall) {
	began := time.Now()
	defer p.catch(func() { answer = p.noRecall(began, Later, reasonPanic) })
	defer func() { p.logCall("recall", &answer.Diagnostics) }()
	if err := r.check(); err != nil {
		return p.noRecall(began, Never, "invalid: "+err.Error())
	}
	pass := p.newPass(&r)
	return within(ctx, p, func(ctx context.Context) Recall {
		pass.run(ctx)
		return pass.answer(began, "")
	}, func(reason string) Recall { return pass.answer(began, reason) })
}

// noRecall is an answer without items.
func (p *Provider) noRecall(began time.Time, retry Retry, reason string) Recall {
	d := p.diagnostics(began, reason)
	d.Retry, d.Coverage = retry, &Coverage{}
	return Recall{Items: []Item{}, Facts: []any{}, Summaries: []any{}, Provider: p.about(), Diagnostics: d}
}

// pass is one look through all stores.
type pass struct {
	p       *Provider
	limits  Limits
	query   *query
	bounds  []bound // of limits, those that are others than were given
	unused  bool    // there is a QueryText, and it has no words
	room    int     // characters of one item
	shelves []*shelf
	begun   atomic.Bool
}

// The bounds of one item, in characters. Between them it has its share of all.
const (
	leastRoom = 400
	mostRoom  = 4000
	leastCut  = 40 // of an item that does not fit any more
)

func (p *Provider) newPass(r *Request) *pass {
	s := &pass{p: p, query: newQuery(r.QueryText)}
	s.limits, s.bounds = r.limits()
	s.unused = len(s.query.words) == 0 && strings.TrimSpace(r.QueryText) != ""
	s.room = min(max(leastRoom, s.limits.MaxChars/s.limits.MaxItems), mostRoom)
	for _, place := range p.memory.Places() {
		s.shelves = append(s.shelves, &shelf{pass: s, slug: place.Store.Info().Slug, has: make([]int, len(s.query.words))})
	}
	return s
}

// run looks through the stores, all at once, so that one that hangs does not keep the others.
func (s *pass) run(ctx context.Context) {
	s.begun.Store(true)
	var all sync.WaitGroup
	for _, one := range s.shelves {
		all.Go(func() {
			defer s.p.catch(func() { one.end(reasonPanic) })
			one.run(ctx)
		})
	}
	all.Wait()
}

// shelf has the results of a pass in one store.
type shelf struct {
	pass *pass
	slug string

	mu       sync.Mutex // guards the fields below; nothing is called with it that waits
	coverage Coverage
	words    int   // of all texts
	has      []int // in how many texts each word of the query is
	found    []*candidate
	reason   string // why it is not all
	isFinal  bool   // the reason does not pass
	ended    bool
}

// candidate is a memory that has a word of the query.
type candidate struct {
	shelf *shelf
	head  *memory.Head
	words int
	hits  []hits
	text  string // its best part
	part  bool
	score float64
}

// Of more than maxFound candidates of a store the better keptFound are kept.
const (
	maxFound  = 1024
	keptFound = 512
)

func (s *shelf) run(ctx context.Context) {
	heads, err := s.pass.p.memory.Newest(ctx, s.slug)
	if err != nil {
		s.fail(err)
		return
	}
	s.count(len(heads))
	var why string
	if len(s.pass.query.words) == 0 {
		why, err = s.scanNewest(ctx, heads)
	} else {
		why, err = tools.Scan(ctx, s.pass.p.memory, s.slug, heads, s.look, s.take)
	}
	switch {
	case err != nil:
		s.fail(err)
	case why != "":
		s.endEarly(why)
	default:
		s.end("")
	}
}

// scanNewest takes the newest memories that are text, as many as can be items.
func (s *shelf) scanNewest(ctx context.Context, heads []*memory.Head) (why string, err error) {
	why, err = tools.Scan(ctx, s.pass.p.memory, s.slug, heads, s.look, func(h *memory.Head, one *looked) bool {
		s.take(h, one)
		return len(s.found) < s.pass.limits.MaxItems
	})
	if why == "limit" {
		why = ""
	}
	return why, err
}

// count notes how many memories there are.
func (s *shelf) count(memories int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.coverage.Memories = memories
}

// end notes that nothing more is found, and why that is not all; "" is that it is.
func (s *shelf) end(reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reason, s.ended = reason, true
}

// fail notes that the store has an error.
func (s *shelf) fail(err error) {
	reason := s.pass.p.reasonOf(s.slug, "recall", err)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reason, s.ended, s.isFinal = reason, true, retryOf(errkind.Of(err)) == Never
}

func (s *shelf) endEarly(why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reason, s.ended = s.endedEarlyLocked(why), true
}

// looked has the results of a worker in a memory.
type looked struct {
	candidate
	isRead, isText bool
}

// look finds the words of the query in a memory. It is called by several goroutines.
func (s *shelf) look(h *memory.Head, text []byte, isRead bool) *looked {
	one := &looked{candidate: candidate{shelf: s, head: h}, isRead: isRead, isText: text != nil}
	if text == nil {
		return one
	}
	var counts [maxTerms]hits
	var places []place
	body := frontMatter(text)
	q := s.pass.query
	one.words = q.find(text, func(term uint8, at int) {
		counts[term].number++
		if at >= body && len(places) < maxPlaces {
			places = append(places, place{term, at - body})
		}
	})
	q.find([]byte(h.Path()), func(term uint8, _ int) { counts[term].inPath = true })
	for term := range q.words {
		if c := counts[term]; c.number > 0 || c.inPath {
			c.term = uint8(term)
			one.hits = append(one.hits, c)
		}
	}
	if len(one.hits) > 0 || len(q.words) == 0 {
		part, isPart := bestPart(string(text[body:]), places, s.pass.room)
		one.text, one.part = strings.Clone(part), isPart // the rest is not kept
	}
	return one
}

// take notes the results in a memory, in the order of the scan.
func (s *shelf) take(_ *memory.Head, one *looked) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.coverage.Searched++
	switch {
	case !one.isRead:
		s.coverage.Damaged++
		return true
	case !one.isText:
		s.coverage.NotText++
		return true
	}
	s.words += one.words
	for _, h := range one.hits {
		if h.number > 0 {
			s.has[h.term]++
		}
	}
	if one.text == "" && len(one.hits) == 0 {
		return true
	}
	s.coverage.Found++
	own := one.candidate
	if s.found = append(s.found, &own); len(s.found) > maxFound {
		rank(s.found, s.weightsLocked())
		clear(s.found[keptFound:])
		s.found = s.found[:keptFound]
	}
	return true
}

// weightsLocked returns what the texts of the store say of the words.
func (s *shelf) weightsLocked() weights {
	return weights{texts: s.coverage.Searched - s.coverage.NotText - s.coverage.Damaged, words: s.words, has: s.has}
}

// findings are the results in all stores.
type findings struct {
	found    []*candidate
	weights  weights
	coverage Coverage
	reasons  []string
	canPass  bool // one of the reasons can
}

// addTo adds the results so far. If the shelf has not ended, its time is over.
func (s *shelf) addTo(all *findings) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, found := range s.found {
		own := *found
		all.found = append(all.found, &own)
	}
	all.weights.add(s.weightsLocked())
	all.coverage.add(s.coverage)
	switch {
	case s.reason != "":
		all.reasons, all.canPass = append(all.reasons, s.reason), all.canPass || !s.isFinal
	case !s.ended && s.pass.begun.Load():
		all.reasons, all.canPass = append(all.reasons, s.endedEarlyLocked("deadline")), true
	}
}

// endedEarlyLocked says how far the search has come.
func (s *shelf) endedEarlyLocked(why string) string {
	return fmt.Sprintf("%s: %d of %s of store %s were searched, the newest first", why, s.coverage.Searched, plural.Of(s.coverage.Memories, "memory"), s.slug)
}

// answer has the results so far. It may be called while run works.
func (s *pass) answer(began time.Time, reason string) Recall {
	all := findings{weights: weights{has: make([]int, len(s.query.words))}}
	if reason != "" {
		all.reasons, all.canPass = append(all.reasons, reason), true
	}
	for _, one := range s.shelves {
		one.addTo(&all)
	}
	rank(all.found, all.weights)
	if c := &all.coverage; c.Damaged > 0 {
		all.reasons, all.canPass = append(all.reasons, fmt.Sprintf("corrupt: %s cannot be read", plural.Of(c.Damaged, "memory"))), true
	}
	items, isAll := s.items(all.found)
	reasons, notes := s.reasons(isAll)
	d := s.p.diagnostics(began, append(all.reasons, reasons...)...)
	d.Notes = notes
	if d.Coverage = &all.coverage; all.canPass {
		d.Retry = Later
	} else if d.Degraded {
		d.Retry = Never
	}
	return Recall{Items: items, Facts: []any{}, Summaries: []any{}, Provider: s.p.about(), Diagnostics: d}
}

// reasons are those that are about the request. A bound that left nothing out is a note.
func (s *pass) reasons(isAll bool) (all, notes []string) {
	for _, b := range s.bounds {
		if b.isLower && !isAll {
			all = append(all, b.text)
		} else {
			notes = append(notes, b.text)
		}
	}
	if s.unused {
		all = append(all, "no words: query_text has none to search for; these are the newest memories")
	}
	if s.query.left > 0 {
		all = append(all, fmt.Sprintf("too many words: the first %d different words of query_text were searched for, and %d not", maxTerms, s.query.left))
	}
	return all, notes
}

func (c *Coverage) add(more Coverage) {
	c.Memories += more.Memories
	c.Searched += more.Searched
	c.Found += more.Found
	c.NotText += more.NotText
	c.Damaged += more.Damaged
}

// items returns the best candidates as far as the limits go, and whether these are all, uncut.
func (s *pass) items(best []*candidate) (items []Item, isAll bool) {
	items, isAll = []Item{}, true
	left := s.limits.MaxChars
	for _, one := range best {
		if len(items) == s.limits.MaxItems || left == 0 {
			isAll = false
			break
		}
		text, part := one.text, one.part
		if n := utf8.RuneCountInString(text); n > left {
			isAll = false
			if left < leastCut && len(items) > 0 {
				break
			}
			text, part = cutRunes(text, left), true
		}
		left -= utf8.RuneCountInString(text)
		h := one.head
		items = append(items, Item{
			ID: h.MemoryID(), Store: one.shelf.slug, Path: h.Path(), Version: h.ID(), Seq: h.Seq(),
			Text: text, Part: part, Score: one.score, Updated: h.Time(),
		})
	}
	return items, isAll
}

// rank sorts candidates, the best first.
func rank(all []*candidate, w weights) {
	for _, one := range all {
		one.score = w.score(one.hits, one.words)
	}
	slices.SortFunc(all, func(a, b *candidate) int {
		return cmp.Or(cmp.Compare(b.score, a.score), b.head.Time().Compare(a.head.Time()), strings.Compare(a.shelf.slug, b.shelf.slug), cmp.Compare(b.head.Seq(), a.head.Seq()), strings.Compare(a.head.Path(), b.head.Path()))
	})
}
