package server

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// proxies are the networks of reverse proxies that are believed.
type proxies []netip.Prefix

// address is where a request comes from: the connection or, behind proxies that are believed,
// the last hop that is none of them.
func (p proxies) address(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return "unix"
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for p.has(host) && len(hops) > 0 {
		hop := strings.TrimSpace(hops[len(hops)-1])
		hops = hops[:len(hops)-1]
		if addr, err := netip.ParseAddr(hop); err != nil {
			break
		} else {
			host = addr.Unmap().String()
		}
	}
	return host
}

func (p proxies) has(host string) bool {
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	for _, network := range p {
		if network.Contains(addr.Unmap()) {
			return true
		}
	}
	return false
}
