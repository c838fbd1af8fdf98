package access

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"mneme/errkind"
	"mneme/memory"
	"mneme/versionlog"
)

// requestMeta is the pair of a commit's metadata with the hash of the request that made it.
const requestMeta = "request"

var errOtherRequest = errkind.New(errkind.Exists, "the idempotency key was used for another request")

// ErrOnceRedacted says that a request was made before, and that there is no more to answer it with.
var ErrOnceRedacted = errkind.New(errkind.Exists, "the idempotency key was used before, and what it wrote was redacted since: it is not written again")

// Once is a request that may come again under a name which its client has given it, its idempotency
// key. If the request has made a commit, every server answers a repetition with that commit,
// whatever has happened since. The zero value is a request without a name.
//
// The history has two HMACs of it, whose secret only the library and the owner of the key know. The
// HMAC of the caller, its session and the name is the key of the commit, so that no other caller
// can take it first. The HMAC of the request is in the metadata, so that a reader who knows most of
// an erased request cannot guess the rest.
type Once struct {
	Key     string // of the commit
	request string
}

// Once returns what a request with a name is, of which the parts are all that it says; "" is no name.
func (c *Caller) Once(name string, parts ...string) Once {
	if name == "" {
		return Once{}
	}
	key, request := hmac.New(sha256.New, []byte(c.Key.SHA256)), hmac.New(sha256.New, []byte(c.Key.SHA256+name))
	fmt.Fprintf(key, "%s\n%s\n%s", c.Actor, c.Session, name)
	for _, part := range parts {
		fmt.Fprintf(request, "%d\n%s", len(part), part)
	}
	return Once{"once_" + hex.EncodeToString(key.Sum(nil)), hex.EncodeToString(request.Sum(nil))}
}

// Options are those of the request's commit.
func (o Once) Options() *memory.CommitOptions {
	if o.Key == "" {
		return &memory.CommitOptions{}
	}
	return &memory.CommitOptions{Key: o.Key, Meta: map[string]string{requestMeta: o.request}}
}

// Check returns an error where a commit under the key is not of this request.
func (o Once) Check(c *versionlog.Commit) error {
	switch {
	case o.Key == "" || !c.Changes() || c.Meta[requestMeta] == o.request:
		return nil
	case slices.ContainsFunc(c.Versions, func(v versionlog.Version) bool { return v.Redacted() }): // with the hash of its request
		return ErrOnceRedacted
	}
	return errOtherRequest
}
