package access

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"mneme/versionlog"
)

// The directories of the store.
const (
	keysDir    = "/keys"
	signingDir = "/signing"
	revokedDir = "/revoked"
)

// Key is a credential of a program or a person. Its secret is told once; the library keeps the
// hash of it.
type Key struct {
	ID          string           `json:"id"` // "apikey_…"
	Label       string           `json:"label"`
	SHA256      string           `json:"sha256"`           // of the secret, in hexadecimal
	Fingerprint string           `json:"fingerprint"`      // the first 12 digits of that, by which people know it
	Everywhere  Right            `json:"everywhere"`       // in each store, also in those to come
	Grants      map[string]Right `json:"grants,omitempty"` // by the id of a store
	Created     time.Time        `json:"created"`
	Expires     time.Time        `json:"expires,omitzero"`
	Disabled    bool             `json:"disabled,omitempty"`
	LastUsed    time.Time        `json:"last_used,omitzero"` // to the hour
}

// Counts reports whether the key may be used at a time.
func (k *Key) Counts(now time.Time) bool {
	return !k.Disabled && (k.Expires.IsZero() || now.Before(k.Expires))
}

// Stores returns the ids of the stores that it was granted, in byte order.
func (k *Key) Stores() []string { return slices.Sorted(maps.Keys(k.Grants)) }

const (
	keyPrefix    = "apikey_"
	secretPrefix = "mneme_"
	maxLabel     = 100 // bytes
)

func (k *Key) newSecret() string {
	secret := secretPrefix + strings.TrimPrefix(k.ID, keyPrefix) + "_" + versionlog.RandomID(30)
	sum := sha256.Sum256([]byte(secret))
	k.SHA256 = hex.EncodeToString(sum[:])
	k.Fingerprint = k.SHA256[:12]
	return secret
}

func idOf(path string) string {
	return strings.TrimSuffix(strings.TrimPrefix(path, keysDir+"/"), ".json")
}

func keyPath(id string) string { return keysDir + "/" + id + ".json" }

// isPlain reports whether an id has nothing but what ids have.
func isPlain(id string) bool {
	return id != "" && len(id) <= 64 && !strings.ContainsFunc(id, func(c rune) bool {
		return (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c != '-' && c != '_'
	})
}

// signingKey is the public half of a key that signs tokens, as the store of credentials has
// it. The private half is in the memory of the process that made it, and nowhere else: a server
// that starts makes itself a new one, and each verifies what the others sign.
type signingKey struct {
	Public  []byte    `json:"public"`  // Ed25519, 32 bytes
	Expires time.Time `json:"expires"` // when no token signed by it counts any more
}

func signingPath(kid string) string { return signingDir + "/" + kid + ".json" }

// revocation says that a token counts no more.
type revocation struct {
	Expires time.Time `json:"expires"` // when the token would have
}

func revokedPath(jti string) string { return revokedDir + "/" + jti + ".json" }

// decode reads a memory of the store. A memory with an unknown field was made by a later
// mneme, for which the field may be a restriction, so it is not valid.
func decode(path string, data []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	dir, _, _ := strings.Cut(path[1:], "/")
	switch "/" + dir {
	case keysDir:
		var k Key
		err := d.Decode(&k)
		return k, err
	case signingDir:
		var k signingKey
		err := d.Decode(&k)
		return k, err
	case revokedDir:
		var k revocation
		_ = json.Unmarshal(data, &k) // whatever stands there, the token counts no more
		return k, nil
	}
	return nil, nil
}
