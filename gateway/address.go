package gateway

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"path"
	"strings"
)

// Schemes are those of the URLs that Parse takes.
var Schemes = []string{"https", "http", "http+unix"}

// Address is where a server listens.
type Address struct {
	// URL is that of the server, without a slash at its end; for a socket http+unix:// and its path.
	URL string
	// Local says that no request leaves this machine.
	Local bool
	// Plain says that requests are not encrypted.
	Plain bool

	base   string // that paths follow
	socket string // "": none
}

// Parse reads the URL of a server: https://HOST[:PORT][/BASE], http://… or
// http+unix:///path/of/a/socket. It looks at nothing.
func Parse(u *url.URL) (*Address, error) {
	switch {
	case u.User != nil:
		return nil, errors.New("it has a user name or credentials in it, which come from elsewhere")
	case u.RawQuery != "" || u.Fragment != "" || u.ForceQuery:
		return nil, errors.New("it has a query or fragment")
	case u.Opaque != "":
		return nil, errors.New("it has no //")
	}
	if u.Scheme == "http+unix" {
		if u.Host != "" || !path.IsAbs(u.Path) || path.Clean(u.Path) == "/" || strings.ContainsRune(u.Path, 0) {
			return nil, errors.New("it has no absolute path of a socket")
		}
		socket := path.Clean(u.Path)
		return &Address{URL: (&url.URL{Scheme: u.Scheme, Path: socket}).String(), Local: true, Plain: true, base: "http://localhost", socket: socket}, nil
	}
	if u.Hostname() == "" {
		return nil, errors.New("it names no host")
	}
	if port := u.Port(); port != "" {
		if n, err := net.LookupPort("tcp", port); err != nil || n == 0 {
			return nil, fmt.Errorf("%q is no port", port)
		}
	}
	clean := url.URL{Scheme: u.Scheme, Host: strings.ToLower(u.Host)}
	if base := strings.TrimRight(u.Path, "/"); base != "" {
		clean.Path = base
	}
	a := &Address{URL: clean.String(), Plain: u.Scheme == "http", base: clean.String()}
	ip := net.ParseIP(u.Hostname())
	a.Local = strings.EqualFold(u.Hostname(), "localhost") || ip != nil && ip.IsLoopback()
	return a, nil
}
