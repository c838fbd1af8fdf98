package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"mneme/errkind"
	"mneme/gateway/wire"
	"mneme/internal/quote"
	"mneme/versionlog"
)

// client sends requests to one server.
type client struct {
	address *Address
	token   func() (string, error)
	still   bool // nothing that changes something is sent
	limit   time.Duration
	attempt time.Duration
	over    Transport
	rules   rules
	outage  outage
	refused refused
}

func newClient(rawURL string, opts *Options) (*client, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, errors.New("it is no URL") // which may hold a password
	}
	address, err := Parse(u)
	if err != nil {
		return nil, err
	}
	c := &client{address: address, token: opts.Token, still: opts.ReadOnly, limit: 25 * time.Second, attempt: 10 * time.Second, over: opts.Transport, rules: rules{opts.CheckStore}}
	if opts.Limit != 0 {
		c.limit = opts.Limit
	}
	if opts.Attempt != 0 {
		c.attempt = opts.Attempt
	}
	if c.over == nil {
		peers := newPeers(opts)
		c.over = newRenewing(func() *http.Transport { return newTransport(address, peers) })
	}
	return c, nil
}

// newTransport returns the transport to a server. Nothing of the environment leads requests
// for this machine away from it, and nothing leads any elsewhere than the address says.
// Requests without TLS to this machine go only to a process of a trusted user.
func newTransport(a *Address, p *peers) *http.Transport {
	dialer := &net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}
	t := &http.Transport{
		DialContext: dialer.DialContext, TLSHandshakeTimeout: 5 * time.Second, ForceAttemptHTTP2: true,
		MaxIdleConns: 64, MaxIdleConnsPerHost: 64, IdleConnTimeout: 90 * time.Second,
		MaxResponseHeaderBytes: 64 << 10, DisableCompression: true,
		HTTP2: &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 10 * time.Second},
	}
	if !a.Local {
		t.Proxy = http.ProxyFromEnvironment
	}
	if a.socket != "" {
		t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", a.socket)
		}
	}
	if a.Local && a.Plain {
		dial := t.DialContext
		t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dial(ctx, network, address)
			if err != nil {
				return nil, err
			}
			if err := p.check(conn); err != nil {
				return nil, errors.Join(err, conn.Close())
			}
			return conn, nil
		}
	}
	return t
}

// renew has the next requests go over new connections. Those before end when they are idle.
func (c *client) renew() {
	if t, ok := c.over.(*renewing); ok {
		t.renew()
	}
}

// renewing is a transport that is made again at will.
type renewing struct {
	make func() *http.Transport
	now  atomic.Pointer[http.Transport]
}

func newRenewing(make func() *http.Transport) *renewing {
	t := &renewing{make: make}
	t.now.Store(make())
	return t
}

// renew leaves the transport to its requests. It makes no further connections, and closes
// each that becomes idle.
func (t *renewing) renew() { t.now.Swap(t.make()).CloseIdleConnections() }

// RoundTrip is part of http.RoundTripper.
func (t *renewing) RoundTrip(r *http.Request) (*http.Response, error) {
	return t.now.Load().RoundTrip(r)
}

// CloseIdleConnections is part of Transport.
func (t *renewing) CloseIdleConnections() { t.now.Load().CloseIdleConnections() }

func (c *client) close() { c.over.CloseIdleConnections() }

// do sends a request, again and again within the limit, until handle has taken an answer: its
// error is final unless it is a *failure. fresh, which may be nil, is called before a
// repetition, for which it may change the request.
func (c *client) do(ctx context.Context, r *request, handle func(*http.Response) error, again func()) error {
	r.began = time.Now()
	if r.limit == 0 && c.outage.lasts() {
		r.limit = c.limit / briefly
	}
	for {
		err := c.once(ctx, r, handle)
		var f *failure
		if !errors.As(err, &f) {
			c.outage.over()
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		r.tries++
		r.repeated = r.repeated || !isUntried(err)
		pause := min(2*time.Second, 20*time.Millisecond<<min(r.tries, 10))
		pause = pause/2 + rand.N(pause/2)
		if r.tries == 1 { // such as on a connection that has died
			pause = 0
		}
		if r.earned = 0; r.left(c.limit) <= pause {
			c.outage.end(r)
			return f.err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
		if again != nil {
			again()
		}
	}
}

// once sends a request once.
func (c *client) once(ctx context.Context, r *request, handle func(*http.Response) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.address.base+wire.Prefix+r.op, bytes.NewReader(r.body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", wire.TypeBytes)
	for name, values := range r.header {
		req.Header[name] = values
	}
	token, err := c.sign(req)
	if err != nil {
		return unsentError{err}
	}
	if err := c.refused.mayTry(token); err != nil {
		return unsentError{err}
	}
	r.secret = token
	silence := &silence{left: func() time.Duration { return r.left(c.limit) }, limit: c.attempt, cancel: cancel}
	if r.patience != 0 {
		silence.limit = r.patience
	}
	silence.watch(req, r)
	silence.listen()
	answer, err := c.over.RoundTrip(req)
	silence.hush()
	if err != nil {
		err = c.unanswered(ctx, err)
		c.refused.tried(token, err)
		return err
	}
	defer answer.Body.Close()
	answer.Body = &heard{answer.Body, silence, r}
	if answer.StatusCode == http.StatusOK {
		err = handle(answer)
	} else {
		err = refusal(r, answer)
	}
	err = c.judged(ctx, r, token, err)
	c.refused.tried(token, err)
	return err
}

// sign says in a request who sends it, and returns the credential; "" for none.
func (c *client) sign(req *http.Request) (token string, err error) {
	req.Header.Set("User-Agent", "mneme")
	if c.token == nil {
		return "", nil
	}
	if token, err = c.token(); err != nil {
		return "", fmt.Errorf("%w: %w", ErrCredential, err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	return token, nil
}

// unanswered is the error of a request to which no answer came.
func (c *client) unanswered(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if errors.Is(err, ErrPeer) {
		return unsentError{err}
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return &failure{err}
	}
	return &failure{fmt.Errorf("%w: %s: %w", ErrUnavailable, c.address.URL, err)}
}

// judged says whether an answer is the last word.
func (c *client) judged(ctx context.Context, r *request, token string, err error) error {
	var cut *wire.CutError
	var remote *wire.RemoteError
	var conflict *versionlog.ConflictError
	var bad *wire.BadError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &conflict) && c.rules.conflict(conflict) != nil:
		return c.rules.conflict(conflict)
	case errors.As(err, &remote) && remote.Kind() == errkind.Unauthenticated:
		return c.unaccepted(r, token, fmt.Errorf("%w: %w", ErrCredential, remote))
	case errors.Is(err, ErrCredential):
		return c.unaccepted(r, token, err)
	case errors.As(err, &remote):
		if remote.Kind() == errkind.Unavailable {
			return &failure{fmt.Errorf("%w: %w", ErrUnavailable, remote)}
		}
		return err
	case errors.As(err, &bad):
		return fmt.Errorf("%w: %w", ErrProtocol, err)
	case errors.As(err, &cut):
		return c.unanswered(ctx, err)
	}
	return err
}

// unaccepted returns a *failure, which is retried, if another credential has replaced the
// one that was not accepted.
func (c *client) unaccepted(r *request, token string, err error) error {
	if c.token == nil || r.refused {
		return err
	}
	if now, tokenErr := c.token(); tokenErr != nil || now == token {
		return err
	}
	r.refused = true
	return &failure{err}
}

// refusal is the error in an answer.
func refusal(r *request, answer *http.Response) error {
	if kind, _, _ := strings.Cut(answer.Header.Get("Content-Type"), ";"); kind == wire.TypeError {
		body, err := io.ReadAll(io.LimitReader(answer.Body, mostOf(r)))
		if err != nil {
			return &wire.CutError{Err: err}
		}
		return wire.DecodeError(body)
	}
	err := fmt.Errorf("%w: status %d", ErrProtocol, answer.StatusCode)
	switch answer.StatusCode {
	case http.StatusUnauthorized:
		return fmt.Errorf("%w: status 401", ErrCredential)
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		return fmt.Errorf("%w: there is no gateway at that URL; want that of the server, with its base path if it has one, such as https://HOST/memory", err)
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout, http.StatusRequestTimeout:
		return &failure{fmt.Errorf("%w: status %d, of something in between", ErrUnavailable, answer.StatusCode)}
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return fmt.Errorf("%w: it redirects to %s, which is not followed", err, quote.Name(answer.Header.Get("Location")))
	}
	return err
}

// ask calls an operation that answers at once.
func (c *client) ask(ctx context.Context, op string, a *wire.Ask) (*wire.Answer, error) {
	r, err := newRequest(op, a)
	if err != nil {
		return nil, err
	}
	return c.answer(ctx, r, nil)
}

func newRequest(op string, a *wire.Ask) (*request, error) {
	body, err := json.Marshal(a)
	return &request{op: op, body: body}, err
}

// mostOf is how many bytes an answer that is no stream may have. The record of a commit grows
// with the proposal.
func mostOf(r *request) int64 {
	switch r.op {
	case wire.OpCommit:
		return min(wire.MaxAnswer, 1<<20+8*int64(len(r.body)))
	case wire.OpPurge, wire.OpUnpurged, wire.OpForget:
		return 8 << 20
	}
	return 1 << 20
}

// answer sends a request and returns the answer.
func (c *client) answer(ctx context.Context, r *request, again func()) (answer *wire.Answer, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if c.still && changing[r.op] {
		return nil, versionlog.ErrReadOnly
	}
	err = c.do(ctx, r, func(got *http.Response) error {
		most := mostOf(r)
		body, err := io.ReadAll(io.LimitReader(got.Body, most+1))
		if err != nil {
			return &wire.CutError{Err: err}
		}
		if int64(len(body)) > most {
			return fmt.Errorf("%w: an answer of more than %d bytes", ErrProtocol, most)
		}
		if answer, err = wire.ReadAnswer(body); err != nil {
			return fmt.Errorf("%w: %w", ErrProtocol, err)
		}
		return nil
	}, again)
	return answer, certain(r, err)
}
