package server

import (
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"time"
)

// throttle slows clients that guess credentials: for a while, which doubles, an address
// with many failures is told to stay away instead of that a credential is not valid. A
// valid credential passes all the same: secrets have 240 random bits, and one client must
// not lock out the others at an address.
type throttle struct {
	now func() time.Time

	mu       sync.Mutex // guards the fields below; a leaf
	failures map[string]*failures
}

type failures struct {
	n     int
	until time.Time
	last  time.Time
}

const (
	freeFailures = 10               // of an address, before it waits
	maxWait      = 30 * time.Second // of an address
	forgetAfter  = 10 * time.Minute // without a failure
	maxKnown     = 50_000           // addresses
)

// bucket is what counts as one address: of IPv6 the network of 64 bits that one customer has.
func bucket(from string) string {
	addr, err := netip.ParseAddr(from)
	if err == nil && addr.Is6() && !addr.Is4In6() {
		p, _ := addr.WithZone("").Prefix(64)
		return p.String()
	}
	return from
}

// failed notes a credential that did not count, and returns for how long its address is to stay away.
func (t *throttle) failed(from string) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	now, from := t.now(), bucket(from)
	f := t.failures[from]
	if f == nil || now.Sub(f.last) > forgetAfter {
		if len(t.failures) >= maxKnown || t.failures == nil {
			t.failures = map[string]*failures{} // all start again
		}
		f = &failures{}
		t.failures[from] = f
	}
	f.last = now
	if wait := f.until.Sub(now); wait > 0 {
		return wait
	}
	f.n++
	if n := f.n - freeFailures; n >= 0 {
		f.until = now.Add(min(maxWait, time.Second<<min(n, 10)))
	}
	return 0
}

func retryAfter(w http.ResponseWriter, d time.Duration) {
	w.Header().Set("Retry-After", strconv.Itoa(int((d+time.Second-1)/time.Second)))
}
