package backend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/user"
	"strconv"
	"strings"
	"sync"
	"time"

	"mneme/cas"
	"mneme/gateway"
	"mneme/memory"
)

// The environment variables with the credential for a server: itself, or a file that has it,
// which is read again when it changes.
const (
	TokenVariable     = "MNEME_TOKEN"
	TokenFileVariable = "MNEME_TOKEN_FILE"
)

// ServerUserVariable is the environment variable with the user whose process may be the server on
// this machine, by name or number, besides root and the caller's own; "any" is every user.
const ServerUserVariable = "MNEME_SERVER_USER"

// serverUser has a user's process be the server as the environment says.
func serverUser(o *gateway.Options) (*gateway.Options, error) {
	switch name := os.Getenv(ServerUserVariable); name {
	case "":
	case "any":
		o.AnyServer = true
	default:
		if u, err := user.Lookup(name); err == nil {
			name = u.Uid
		}
		uid, err := strconv.ParseUint(name, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("%s=%q: there is no such user", ServerUserVariable, name)
		}
		o.ServerUID = uint32(uid)
	}
	return o, nil
}

// ErrCredential says that a server does not accept the credential, or that there is none.
var ErrCredential = gateway.ErrCredential

// ErrPeer says that another user's process listens where a server of this machine should be.
var ErrPeer = gateway.ErrPeer

// gatewayServer is a server, which holds the credentials of its backend.
type gatewayServer struct{ *gateway.Address }

// locateGateway reads the URL of a server.
func locateGateway(u *url.URL) (*Location, error) {
	address, err := gateway.Parse(u)
	if err != nil {
		return nil, err
	}
	server := gatewayServer{address}
	return &Location{URL: address.URL, open: server.open, Server: server.published}, nil
}

// checkPlain returns why nothing may be sent to the server.
func (g gatewayServer) checkPlain() error {
	if insecure, _ := strconv.ParseBool(os.Getenv(InsecureVariable)); g.Plain && !g.Local && !insecure {
		return fmt.Errorf("%s: %w, or allow it with %s=1", g.URL, ErrPlainHTTP, InsecureVariable)
	}
	return nil
}

// Server asks a server by the routes that it publishes.
type Server = gateway.Published

func (g gatewayServer) published(opts *Options) (*Server, error) {
	if err := g.checkPlain(); err != nil {
		return nil, err
	}
	with, err := serverUser(&gateway.Options{Token: tokenSource(opts)})
	if err != nil {
		return nil, err
	}
	return gateway.NewPublished(g.URL, with)
}

func (g gatewayServer) open(ctx context.Context, opts *Options) (*Library, error) {
	if err := g.checkPlain(); err != nil {
		return nil, err
	}
	cacheOptions, _, err := cacheDirs(opts)
	if err != nil {
		return nil, err
	}
	with, err := serverUser(&gateway.Options{Token: tokenSource(opts), ReadOnly: opts.ReadOnly, CheckStore: memory.CheckForeign})
	if err != nil {
		return nil, err
	}
	log, err := gateway.Open(ctx, g.URL, with)
	if err != nil {
		return nil, err
	}
	caches := &blobCaches{
		backend: func(storeID string) (cas.Store, error) { return log.Blobs(storeID), nil },
		direct:  opts.Direct, options: cacheOptions,
	}
	return newLibrary(log, caches, parts{
		credential: log.Credential, forgetBehind: log.Forget,
		caller: func(context.Context) (string, error) { return log.Credential().Key, nil },
	}), nil
}

// tokenSource returns what finds the credential.
func tokenSource(opts *Options) func() (string, error) {
	if file := cmp.Or(opts.TokenFile, os.Getenv(TokenFileVariable)); file != "" {
		return (&tokenFile{path: file}).token
	}
	token := os.Getenv(TokenVariable)
	if token == "" {
		return nil
	}
	return func() (string, error) { return token, checkToken(token) }
}

// tokenFile is a file with a credential.
type tokenFile struct {
	path string

	mu   sync.Mutex // guards the fields below
	read string
	at   time.Time // of the file that was read
	size int64
}

const maxToken = 16 << 10 // bytes

// rewriteTime is how long a file may be empty while it is being rewritten.
const rewriteTime = 10 * time.Second

// token returns what the file has, without the white space around it.
func (f *tokenFile) token() (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	info, err := os.Stat(f.path)
	if err == nil && !info.Mode().IsRegular() { // such as a pipe, to which no process may ever write
		err = fmt.Errorf("%s: %w", f.path, errNoFile)
	}
	if err != nil {
		return "", err
	}
	// A file that was written a moment ago may be written again within the same tick.
	if f.read != "" && info.ModTime().Equal(f.at) && info.Size() == f.size && time.Since(f.at) > time.Second {
		return f.read, nil
	}
	file, err := os.Open(f.path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxToken+1))
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(text))
	if token == "" && f.read != "" && time.Since(info.ModTime()) < rewriteTime {
		return f.read, nil // another process is writing a new one
	}
	if err := checkToken(token); err != nil {
		return "", fmt.Errorf("%s: %w", f.path, err)
	}
	f.read, f.at, f.size = token, info.ModTime(), info.Size()
	return token, nil
}

var errNoFile = errors.New("it is no regular file, such as one that has a credential")

var errNoToken = errors.New("what it has is no credential: it is empty, too long, or has other characters than those of a line in ASCII without blanks")

// checkToken makes sure that a credential can be sent, without a word of it.
func checkToken(token string) error {
	if token == "" || len(token) > maxToken {
		return errNoToken
	}
	for i := range len(token) {
		if token[i] <= ' ' || token[i] > '~' {
			return errNoToken
		}
	}
	return nil
}
