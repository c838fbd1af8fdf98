// Package listen checks addresses to listen at, and serves the metrics of a process. It
// uses app for errors about flags. Read address.go first.
package listen

import (
	"errors"
	"net"
	"net/netip"
	"net/url"
	"strings"
)

// maxHostName is the length in bytes of the longest host name, without a final dot (RFC
// 1035, 2.3.4).
const maxHostName = 253

// IsHostName reports whether a client can send requests to a host of that name or address.
func IsHostName(text string) bool {
	if _, err := netip.ParseAddr(text); err == nil {
		return !strings.Contains(text, "%") // a client's URL would escape it
	}
	last := ""
	for label := range strings.SplitSeq(text, ".") {
		if len(label) == 0 || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' || strings.ContainsFunc(label, isNoHostCharacter) {
			return false
		}
		last = label
	}
	return len(text) <= maxHostName && strings.Trim(last, "0123456789") != "" // else clients read it as an address
}

func isNoHostCharacter(c rune) bool { return IsNoPathCharacter(c) || strings.ContainsRune(".~/", c) }

// IsNoPathCharacter reports whether a path contains the character only as an escape.
func IsNoPathCharacter(c rune) bool {
	return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("-._~/", c)
}

// CheckAddress returns an error if no process can listen at a host and a port. An empty
// host means all addresses.
func CheckAddress(host, port string) error {
	name, _, _ := strings.Cut(host, "%") // the zone of an IPv6 address
	if host != "" && !IsHostName(name) {
		return errors.New("want a name or an address before the port, such as 127.0.0.1:7070 or [::1]:7070")
	}
	if _, err := net.LookupPort("tcp", port); port == "" || err != nil {
		return errors.New("want a port from 0 to 65535 behind the host, such as 127.0.0.1:7070; 0 is one that is free")
	}
	return nil
}

// defaultPorts are the ports that browsers omit from an origin.
var defaultPorts = map[string]string{"http": "80", "https": "443"}

// IsOrigin reports whether text is an origin as browsers send it.
func IsOrigin(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Scheme == "" || u.Host == "" || text != strings.ToLower(u.Scheme+"://"+u.Host) {
		return false
	}
	if host, port, err := net.SplitHostPort(u.Host); err == nil {
		return port != defaultPorts[u.Scheme] && CheckAddress(host, port) == nil
	}
	return IsHostName(strings.Trim(u.Host, "[]"))
}
