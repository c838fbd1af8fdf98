package mcp

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mneme/errkind"
)

// maxSubscriptions bounds the resources that one client may subscribe to.
const maxSubscriptions = 1000

// watcher notifies clients of changes of resources that they have subscribed to. A store is
// followed from its first subscription to its last: one goroutine follows its commits, and
// one sends notices. A resource that changes several times while the second waits for a
// client is noticed once, so at most one notice per subscription is pending.
type watcher struct {
	*face
	follow func(ctx context.Context, store string, began func(), changed func(path string)) error
	tell   func(uri string)
	log    *slog.Logger

	mu      sync.Mutex
	clients map[*sdk.ServerSession]map[string]int // how often each resource is subscribed to
	stores  map[string]*followed                  // by slug
}

// followed is a store that is followed.
type followed struct {
	slug   string
	number int // of subscriptions; of the watcher's lock
	cancel context.CancelFunc
	began  chan struct{} // closed when commits are heard of
	ended  chan struct{} // closed when its goroutines have ended

	mu      sync.Mutex
	changed map[string]bool // resources to tell of
	wake    chan struct{}   // has one when there are
}

func newWatcher(f *face, log *slog.Logger, tell func(uri string)) *watcher {
	return &watcher{face: f, follow: f.Follow, tell: tell, log: log, clients: map[*sdk.ServerSession]map[string]int{}, stores: map[string]*followed{}}
}

// subscribe sends a client notices of a resource from now on.
func (w *watcher) subscribe(ctx context.Context, r *sdk.SubscribeRequest) error {
	uri := r.Params.URI
	if err := w.exists(ctx, uri); err != nil {
		return err
	}
	if isByHTTP(r) {
		return &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "by HTTP, changes are told on subscriptions/listen, of revision 2026-07-28"}
	}
	slug, inside, _ := parseURI(uri)
	if own := uriOf(slug, inside); own != uri { // of which alone changes are told
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "subscribe to it as " + own}
	}
	w.mu.Lock()
	own := w.clients[r.Session]
	if own == nil {
		own = map[string]int{}
		w.clients[r.Session] = own
	}
	if own[uri] == 0 && len(own) >= maxSubscriptions {
		w.mu.Unlock()
		return &jsonrpc.Error{Code: codeBusy, Message: "there are too many subscriptions; end another one"}
	}
	own[uri]++
	s := w.stores[slug]
	if s == nil {
		s = w.followLocked(slug)
	}
	s.number++
	w.mu.Unlock()
	select {
	case <-s.began:
		return nil
	case <-ctx.Done():
		w.drop(r.Session, map[string]int{uri: 1})
		return ctx.Err()
	}
}

// exists returns an error unless something is at a URI.
func (w *watcher) exists(ctx context.Context, uri string) error {
	at, isStore, err := w.locate(uri)
	if err != nil || isStore {
		return err
	}
	files, err := w.Below(ctx, at)
	if err == nil && (len(files) != 1 || files[0].Path != at) {
		return notFound(uri)
	}
	if err != nil {
		return resourceError(uri, err)
	}
	return nil
}

// unsubscribe ends one subscription.
func (w *watcher) unsubscribe(_ context.Context, r *sdk.UnsubscribeRequest) error {
	w.drop(r.Session, map[string]int{r.Params.URI: 1})
	return nil
}

// forget ends all subscriptions of a client that is gone.
func (w *watcher) forget(client *sdk.ServerSession) {
	w.mu.Lock()
	all := w.clients[client]
	w.mu.Unlock()
	if all != nil {
		w.drop(client, all)
	}
}

// drop ends subscriptions, a number of each resource. It returns when stores without
// subscriptions are no longer followed.
func (w *watcher) drop(client *sdk.ServerSession, numbers map[string]int) {
	var idle []*followed
	w.mu.Lock()
	own := w.clients[client]
	for uri, number := range numbers {
		number = min(number, own[uri])
		if number == 0 {
			continue
		}
		if own[uri] -= number; own[uri] == 0 {
			delete(own, uri)
		}
		slug, _, _ := parseURI(uri)
		s := w.stores[slug]
		if s.number -= number; s.number == 0 {
			delete(w.stores, slug)
			idle = append(idle, s)
		}
	}
	if len(own) == 0 {
		delete(w.clients, client)
	}
	w.mu.Unlock()
	for _, s := range idle {
		s.cancel()
		<-s.ended
	}
}

// close ends all subscriptions.
func (w *watcher) close() {
	w.mu.Lock()
	var clients []*sdk.ServerSession
	for client := range w.clients {
		clients = append(clients, client)
	}
	w.mu.Unlock()
	for _, client := range clients {
		w.forget(client)
	}
}

// followLocked begins to follow a store.
func (w *watcher) followLocked(slug string) *followed {
	ctx, cancel := context.WithCancel(context.Background())
	s := &followed{
		slug: slug, cancel: cancel, began: make(chan struct{}), ended: make(chan struct{}),
		changed: map[string]bool{}, wake: make(chan struct{}, 1),
	}
	w.stores[slug] = s
	var both sync.WaitGroup
	both.Go(func() { w.hear(ctx, s) })
	both.Go(func() { w.tellAll(ctx, s) })
	go func() {
		both.Wait()
		close(s.ended)
	}()
	return s
}

// hearAgain is how long a store is left alone that cannot be followed.
const hearAgain = 5 * time.Second

// hear notes the resources that commits of a store change, until ctx ends.
func (w *watcher) hear(ctx context.Context, s *followed) {
	began := sync.OnceFunc(func() { close(s.began) })
	for first := true; ; first = false {
		err := w.follow(ctx, s.slug, func() {
			began()
			if !first { // something may have been missed
				w.noteAll(s)
			}
		}, func(path string) { w.note(s, path) })
		if ctx.Err() != nil {
			return
		}
		w.log.Warn("changes are not heard of", "store", s.slug, "kind", errkind.Of(err), "err", err)
		select {
		case <-time.After(hearAgain):
		case <-ctx.Done():
			return
		}
	}
}

// note notes that a path of the tool has changed, if a client has subscribed to it.
func (w *watcher) note(s *followed, path string) {
	_, inside, found := w.store(path)
	switch {
	case !found:
		return
	case inside == "": // it may be anything in it
		w.noteAll(s)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, uri := range []string{uriOf(s.slug, inside), uriOf(s.slug, "/")} {
		for _, own := range w.clients {
			if own[uri] > 0 {
				s.add(uri)
				break
			}
		}
	}
}

// noteAll notes that everything may have changed.
func (w *watcher) noteAll(s *followed) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, own := range w.clients {
		for uri := range own {
			if slug, _, _ := parseURI(uri); slug == s.slug {
				s.add(uri)
			}
		}
	}
}

func (s *followed) add(uri string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed[uri] = true
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// tellAll sends notices of changes, until ctx ends.
func (w *watcher) tellAll(ctx context.Context, s *followed) {
	for {
		select {
		case <-s.wake:
		case <-ctx.Done():
			return
		}
		s.mu.Lock()
		changed := s.changed
		s.changed = map[string]bool{}
		s.mu.Unlock()
		for uri := range changed {
			w.tell(uri)
		}
	}
}
