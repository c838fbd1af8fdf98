// Package serving holds the commands about a server: serve, and the keys and tokens for it. It
// uses app, sessions, listen and package server. Read serve.go first, then key.go.
package serving

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"os"
	"os/signal"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"mneme/backend"
	"mneme/cmd/mneme/app"
	"mneme/cmd/mneme/listen"
	"mneme/cmd/mneme/sessions"
	"mneme/daemon"
	"mneme/memory"
	"mneme/server"
)

// serveBallast is the size of a ballast as for a mount, in bytes: a server holds a few
// megabytes, and would collect every 250 requests.
const serveBallast = 64 << 20

// ServeCmd is the command `mneme serve`.
type ServeCmd struct {
	Listen         []string `default:"127.0.0.1:7070" placeholder:"ADDRESS" help:"Where to listen: HOST:PORT, or unix:/path of a socket. May be given several times. Default: ${default}."`
	TLSCert        string   `name:"tls-cert" type:"path" placeholder:"FILE" help:"Speak TLS with the certificates of a PEM file, the server's first. Read again when it changes."`
	TLSKey         string   `name:"tls-key" type:"path" placeholder:"FILE" help:"The key of --tls-cert, a PEM file."`
	InsecureListen bool     `help:"Listen at addresses that other machines reach without TLS, such as behind a proxy that speaks it."`
	Host           []string `placeholder:"NAME" help:"A name by which requests may reach the server besides those of --listen. May be given several times."`
	Origin         []string `placeholder:"ORIGIN" help:"An origin whose web pages may use the server, such as https://console.example. Default: none."`
	TrustedProxy   []string `placeholder:"NETWORK" help:"A network of reverse proxies whose X-Forwarded-For is believed, such as 10.0.0.0/8. Default: none."`
	BasePath       string   `placeholder:"PATH" help:"Answer below a path only, such as /memory."`
	MetricsAddr    string   `placeholder:"HOST:PORT" help:"Serve the metrics at an address of its own, too, as 'mneme mount' does."`
}

func (c *ServeCmd) Help() string {
	return `Serves the stores over HTTP, to programs that have no credentials but a key or a token of this server: the memory-stores API below /v1/memory_stores, keys and session tokens below /v1/mneme, agents at /mcp, /v1/mneme/tools/memory and /v1/mneme/plugin. Every request has a key or a token, as "Authorization: Bearer" or "x-api-key"; 'mneme key create' makes a key. /healthz, /readyz and /openapi.json, which describes them all, answer without one. /metrics takes a key that is an admin's.

If systemd hands sockets over (LISTEN_FDS), it listens at these, and --listen counts for nothing.

By default only programs of this machine reach it. An address that others reach takes TLS, or --insecure-listen. Requests by a host name that is neither that of --listen nor of --host are refused, and so are web pages of origins that were not allowed.

One line of JSON for each request goes to standard error, without contents, paths of memories and credentials. SIGINT and SIGTERM end the server when what is under way is done, after 10 s at the latest.

Examples:

    mneme serve
    mneme serve --listen unix:/run/mneme.sock
    mneme serve --listen 0.0.0.0:7070 --tls-cert cert.pem --tls-key key.pem --host memory.internal`
}

func (c *ServeCmd) Run(ctx context.Context, a *app.App) error {
	if err := sessions.OverwriteFreed(true); err != nil {
		return err
	}
	given, err := daemon.HandedOver()
	if err != nil {
		return err
	}
	if len(given) > 0 {
		c.Listen = nil
	}
	for _, l := range given {
		address := l.Addr().String()
		if l.Addr().Network() == "unix" {
			address = server.UnixPrefix + address
		}
		c.Listen = append(c.Listen, address)
	}
	opts, err := c.options()
	if err != nil {
		return err
	}
	at, err := app.Locate(a.URL)
	if err != nil {
		return err
	}
	if at.Server != nil {
		return app.Usagef("%s is a server already; serve takes the URL of the stores themselves, such as file:///path or aws://BUCKET?table=TABLE", at.URL)
	}
	opts.Logger = slog.New(slog.NewJSONHandler(a.Err, nil))
	var config *tls.Config
	if c.TLSCert != "" {
		config, err = server.TLS(c.TLSCert, c.TLSKey, func(err error) { opts.Logger.Error("the certificate was not read again", "err", err) })
		if err != nil {
			return err
		}
	}
	until, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if os.Getenv("GOGC") == "" {
		defer runtime.KeepAlive(make([]byte, serveBallast))
	}
	return a.WithLibrary(ctx, app.Serving, func(lib *backend.Library) error {
		opts.Machine = app.MachineOf(lib)
		s, err := server.New(ctx, lib.Library, opts)
		if err != nil {
			return err
		}
		defer s.Close()
		listeners, urls, err := c.listen(given, config)
		if err != nil {
			return err
		}
		defer closeAll(listeners)
		metrics, err := c.serveMetrics(s)
		if err != nil {
			return err
		}
		if err := c.announce(a, lib.Location.URL, urls); err != nil {
			return err
		}
		if err := daemon.NotifyService(daemon.ServiceReady); err != nil {
			a.Warn(err.Error())
		}
		err = s.Serve(until, listeners...)
		_ = daemon.NotifyService(daemon.ServiceStopping)
		return errors.Join(err, metrics.Close())
	})
}

// listen returns the listener, which a service manager passed or listen opens, and its
// URLs.
func (c *ServeCmd) listen(given []net.Listener, config *tls.Config) (listeners []net.Listener, urls []string, err error) {
	for i, address := range c.Listen {
		var l net.Listener
		if len(given) > 0 {
			l = given[i]
		} else if l, err = server.Listen(address); err != nil {
			closeAll(listeners)
			return nil, nil, fmt.Errorf("--listen %s: %w", address, err)
		}
		if config != nil && l.Addr().Network() != "unix" {
			l = tls.NewListener(l, config)
		}
		listeners = append(listeners, l)
		urls = append(urls, c.urlOf(l))
	}
	return listeners, urls, nil
}

func closeAll(listeners []net.Listener) {
	for _, l := range listeners {
		l.Close()
	}
}

// options checks the flags.
func (c *ServeCmd) options() (*server.Options, error) {
	o := &server.Options{Hosts: c.Host, Origins: c.Origin, BasePath: c.BasePath, Version: app.Version(), Author: &memory.Author{Actor: app.UserActor()}}
	if (c.TLSCert == "") != (c.TLSKey == "") {
		return nil, app.Usagef("--tls-cert and --tls-key go together")
	}
	isLocal := true
	for _, address := range c.Listen {
		if socket, isUnix := strings.CutPrefix(address, server.UnixPrefix); isUnix {
			if socket == "" {
				return nil, app.Usagef("--listen %q: want unix:/path of a socket", address)
			}
			continue
		}
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, app.Usagef("--listen %q: want HOST:PORT, or unix:/path of a socket", address)
		}
		if err := listen.CheckAddress(host, port); err != nil {
			return nil, app.Usagef("--listen %q: %w", address, err)
		}
		if listen.IsLoopback(host) {
			o.Hosts = append(o.Hosts, host)
			continue
		}
		isLocal = false
		if c.TLSCert == "" && !c.InsecureListen {
			return nil, app.Usagef("--listen %q can be reached by other machines, which would send their keys in the open; give --tls-cert and --tls-key, or --insecure-listen behind a proxy that speaks TLS", address)
		}
		if ip := net.ParseIP(host); host != "" && (ip == nil || !ip.IsUnspecified()) {
			o.Hosts = append(o.Hosts, host)
		}
	}
	switch {
	case isLocal:
		o.Hosts = append(o.Hosts, "localhost", listen.Loopback, "::1")
	case len(c.Host) == 0:
		o.Hosts = nil // the caller did not say which names the machine has
	}
	for _, host := range c.Host {
		if !listen.IsHostName(host) {
			return nil, app.Usagef("--host %q: want a name or an address alone, such as memory.internal or 10.0.0.7: no scheme, no port, no *; a name has labels of 1 to 63 letters, digits, - and _ with dots between them, 253 bytes at most", host)
		}
	}
	if base := strings.TrimSuffix(c.BasePath, "/"); base != "" && (path.Clean("/"+base) != base || strings.ContainsFunc(base, listen.IsNoPathCharacter)) {
		return nil, app.Usagef("--base-path %q: want a path such as /memory, of letters, digits and - . _ ~ /, without . and .. as names", c.BasePath)
	}
	for _, text := range c.Origin {
		if !listen.IsOrigin(text) {
			return nil, app.Usagef("--origin %q: want an origin as browsers send it, such as https://console.example or http://localhost:3000: in lower case, without a path, and without :443 of https and :80 of http", text)
		}
	}
	for _, text := range c.TrustedProxy {
		p, err := netip.ParsePrefix(text)
		if addr, errAddr := netip.ParseAddr(text); errAddr == nil {
			p, err = addr.Prefix(addr.BitLen())
		}
		if err != nil {
			return nil, app.Usagef("--trusted-proxy %q: want a network such as 10.0.0.0/8", text)
		}
		o.Proxies = append(o.Proxies, p)
	}
	return o, nil
}

// urlOf is the URL of a listener for clients, as for --url.
func (c *ServeCmd) urlOf(l net.Listener) string {
	switch {
	case l.Addr().Network() == "unix":
		socket, err := filepath.Abs(l.Addr().String())
		if err != nil { // the directory that it is in has been removed
			socket = l.Addr().String()
		}
		return (&url.URL{Scheme: "http+unix", Path: socket}).String()
	case c.TLSCert != "":
		return "https://" + l.Addr().String() + c.BasePath
	}
	return "http://" + l.Addr().String() + c.BasePath
}

func (c *ServeCmd) serveMetrics(s *server.Server) (*listen.MetricsServer, error) {
	if c.MetricsAddr == "" {
		return nil, nil
	}
	return listen.ServeMetrics(c.MetricsAddr, s.Metrics())
}

// announce prints the URL of the server, once it accepts requests.
func (c *ServeCmd) announce(a *app.App, library string, urls []string) error {
	if a.JSON {
		if err := a.PrintJSON(struct {
			Library string   `json:"library"`
			URLs    []string `json:"urls"`
		}{library, urls}); err != nil {
			return err
		}
		return a.Out.Flush()
	}
	a.Printf("mneme serves %s at %s\n", library, strings.Join(urls, " and "))
	a.Printf("A program needs a key: mneme key create LABEL --grant STORE\n")
	return a.Out.Flush()
}
