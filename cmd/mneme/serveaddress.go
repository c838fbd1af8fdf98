package main

import (
	"errors"
	"net"
	"net/netip"
	"net/url"
	"strings"
)

// maxHostName is how many bytes the name of a host has at most, without a dot at its end (RFC 1035, 2.3.4).
const maxHostName = 253

// isHostName reports whether requests can be sent to a host of that name or address.
func isHostName(text string) bool {
	if _, err := netip.ParseAddr(text); err == nil {
		return !strings.Contains(text, "%") // which the URL of a client would have as an escape
	}
	last := ""
	for label := range strings.SplitSeq(text, ".") {
		if len(label) == 0 || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' || strings.ContainsFunc(label, isNoHostCharacter) {
			return false
		}
		last = label
	}
	return len(text) <= maxHostName && strings.Trim(last, "0123456789") != "" // else clients take it for an address
}

func isNoHostCharacter(c rune) bool { return isNoPathCharacter(c) || strings.ContainsRune(".~/", c) }

// isNoPathCharacter reports whether a path has a character only as an escape, or has it in a part of its own.
func isNoPathCharacter(c rune) bool {
	return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("-._~/", c)
}

// checkAddress returns an error if nothing can listen at a host and a port. An empty host is all addresses.
func checkAddress(host, port string) error {
	name, _, _ := strings.Cut(host, "%") // the zone of an IPv6 address
	if host != "" && !isHostName(name) {
		return errors.New("want a name or an address before the port, such as 127.0.0.1:7070 or [::1]:7070")
	}
	if _, err := net.LookupPort("tcp", port); port == "" || err != nil {
		return errors.New("want a port from 0 to 65535 behind the host, such as 127.0.0.1:7070; 0 is one that is free")
	}
	return nil
}

// defaultPorts are those that browsers leave out of an origin.
var defaultPorts = map[string]string{"http": "80", "https": "443"}

// isOrigin reports whether text is an origin as browsers send it.
func isOrigin(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Scheme == "" || u.Host == "" || text != strings.ToLower(u.Scheme+"://"+u.Host) {
		return false
	}
	if host, port, err := net.SplitHostPort(u.Host); err == nil {
		return port != defaultPorts[u.Scheme] && checkAddress(host, port) == nil
	}
	return isHostName(strings.Trim(u.Host, "[]"))
}
