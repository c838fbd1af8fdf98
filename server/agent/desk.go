package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"mneme/mcp"
	"mneme/plugin"
	"mneme/server/access"
	"mneme/server/reply"
	"mneme/session"
	"mneme/tools"
	"mneme/versionlog"
)

// The bounds of desks.
const (
	maxDesks    = 1000             // of all callers, a quarter of them of one key with its tokens
	maxOfCaller = 8                // of a credential
	idleFor     = 15 * time.Minute // after which one is cleared
)

var errNoDesk = reply.Unavailable("too many agents are at work; try again")

// desk is the working state of one credential: some stores with its session of each, and the
// faces over them. All requests of the credential for the same stores are at one desk, so that
// an agent's edits are judged by the versions that it has viewed.
//
// A desk is of the stores as they are described, and of the caller's rights in them. When
// those change, requests come to another one. The knowledge of its sessions is lost then, and
// when a desk is cleared: an agent that continues has viewed nothing.
type desk struct {
	name   string // a digest of the stores and rights that it is made for
	key    string // whose desk it is
	owner  string // the credential: the key, or a token of it
	memory *tools.Memory
	mcp    *mcp.Server
	plugin *plugin.Provider
	search chan struct{} // of all desks of the key: holds as many searches as run at once

	users int       // requests that are at it; of the lock of desks
	last  time.Time // when one has left; likewise
}

// close returns when nothing of the desk works any more.
func (d *desk) close() {
	d.mcp.Close()
	d.plugin.Close()
	for _, p := range d.memory.Places() {
		if p.Session != nil {
			p.Session.Close()
		}
	}
}

// desks are those of all callers.
type desks struct {
	Options
	most     int            // maxDesks
	clearing sync.WaitGroup // of desks

	mu     sync.Mutex // guards the fields below, and of each desk what says so; a leaf
	byName map[string]*desk
	search map[string]chan struct{} // of a desk, by keys
	sweep  time.Time                // when those that are idle are cleared next
	ended  bool
}

// enter returns the caller's desk with the stores that refs mean, each an id, a slug or a name;
// none means all that it sees.
func (s *desks) enter(ctx context.Context, c *access.Caller, refs []string) (d *desk, leave func(), err error) {
	stores, err := storesOf(ctx, c, refs)
	if err != nil {
		return nil, nil, err
	}
	name, err := nameOf(c, stores)
	if err != nil {
		return nil, nil, err
	}
	if d = s.join(name); d == nil {
		made, err := s.open(ctx, c, stores)
		if err != nil {
			return nil, nil, err
		}
		made.name = name
		if d = s.add(made); d == nil {
			return nil, nil, errNoDesk
		}
	}
	return d, func() { s.leave(d) }, nil
}

// nameOf tells a caller with its stores from others.
func nameOf(c *access.Caller, stores []versionlog.Store) (string, error) {
	sum := sha256.New()
	fmt.Fprintf(sum, "%q %q %q\n", c.Actor, c.Token, c.Session)
	for i := range stores {
		info, err := json.Marshal(&stores[i])
		if err != nil {
			return "", err
		}
		fmt.Fprintf(sum, "%v %s\n", c.Right(stores[i].ID), info)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// open makes a desk.
func (s *desks) open(ctx context.Context, c *access.Caller, stores []versionlog.Store) (*desk, error) {
	var places []tools.Place
	strict := c.Token != "" // it may come from a session that reads unreviewed texts
	for i := range stores {
		right := min(c.Right(stores[i].ID), access.Write)
		st, err := c.Open(ctx, stores[i].ID, right)
		if err != nil {
			return nil, err
		}
		p := tools.Place{Store: st}
		if right == access.Write {
			p.Session = session.New(st, &session.Options{ID: c.Session, Strict: strict, Name: tools.PathName(stores[i].Slug, len(stores) > 1), Logger: s.Logger})
		}
		places = append(places, p)
	}
	m := tools.New(places, &tools.Options{Logger: s.Logger})
	search := s.searchOf(c.Actor.ID)
	return &desk{
		key: c.Actor.ID, owner: c.Actor.ID + "/" + c.Token, memory: m, search: search,
		mcp:    mcp.New(m, &mcp.Options{Version: s.Version, StateKey: stateKey(c), Strict: strict, Logger: s.Logger, Searches: search}),
		plugin: plugin.New(m, &plugin.Options{MaxRequest: maxBody, Version: s.Version, Logger: s.Logger}),
	}, nil
}

// searchOf returns what bounds the searches of a key and its tokens.
func (s *desks) searchOf(key string) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.search[key] == nil {
		s.search[key] = mcp.NewSearches()
	}
	return s.search[key]
}

// stateKey signs the questions to a caller's user. It is the same at all servers, so that
// an answer may come to another one, and differs for each key. A client that has the secret
// of the key could forge an answer of the user, but it could claim that answer anyhow.
func stateKey(c *access.Caller) []byte {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%s", c.Key.SHA256, c.Token))
	return sum[:]
}

// join returns a desk for one request more; nil: there is none of that name.
func (s *desks) join(name string) *desk {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := s.Now(); now.After(s.sweep) {
		for _, d := range s.byName {
			if d.users == 0 && now.Sub(d.last) > idleFor {
				s.clearLocked(d)
			}
		}
		s.sweep = now.Add(time.Minute)
	}
	d := s.byName[name]
	if d != nil {
		d.users++
	}
	return d
}

// add adds a desk with one request at it, or returns the one of that name that was added
// meanwhile. To make room it may clear desks without requests, of the same caller if that
// has many; nil: too many desks exist, and all have requests.
func (s *desks) add(made *desk) *desk {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d := s.byName[made.name]; d != nil {
		d.users++
		return d
	}
	hasRoom := s.makeRoomLocked(maxOfCaller, func(d *desk) bool { return d.owner == made.owner }) &&
		s.makeRoomLocked(max(maxOfCaller, s.most/4), func(d *desk) bool { return d.key == made.key }) &&
		s.makeRoomLocked(s.most, func(*desk) bool { return true })
	if !hasRoom {
		return nil
	}
	made.users = 1
	s.byName[made.name] = made
	return made
}

// makeRoomLocked has fewer than most of some desks, if need be without the one that has been idle
// for the longest time. It reports false where none is idle.
func (s *desks) makeRoomLocked(most int, of func(*desk) bool) bool {
	n := 0
	var idle *desk
	for _, d := range s.byName {
		if !of(d) {
			continue
		}
		n++
		if d.users == 0 && (idle == nil || d.last.Before(idle.last)) {
			idle = d
		}
	}
	if n < most {
		return true
	}
	if idle != nil {
		s.clearLocked(idle)
	}
	return idle != nil
}

// clearLocked removes a desk without requests.
func (s *desks) clearLocked(d *desk) {
	delete(s.byName, d.name)
	isLast := true
	for _, other := range s.byName {
		isLast = isLast && other.key != d.key
	}
	if isLast {
		delete(s.search, d.key)
	}
	s.clearing.Go(d.close)
}

// leave ends a request.
func (s *desks) leave(d *desk) {
	s.mu.Lock()
	d.users--
	d.last = s.Now()
	isOver := s.ended && d.users == 0
	s.mu.Unlock()
	if isOver {
		d.close()
	}
}

// close clears all desks. A desk that still has requests is cleared when the last of them
// leaves.
func (s *desks) close() {
	s.mu.Lock()
	s.ended = true
	for _, d := range s.byName {
		if d.users == 0 {
			s.clearLocked(d)
		}
	}
	s.mu.Unlock()
	s.clearing.Wait()
}
