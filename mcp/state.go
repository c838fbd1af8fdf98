package mcp

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"time"
)

// state is what a question to the client is about. It goes to the client and back, so it is
// signed: what comes back is what this server has asked, a short time ago.
type state struct {
	expiry  int64             // Unix seconds
	call    [sha256.Size]byte // what was called
	subject [sha256.Size]byte // the operation and its subject
}

// stateLife is how long an answer to a question is taken.
const stateLife = 10 * time.Minute

// stateVersion is the first byte of every state.
const stateVersion = 1

// stateSize is that of a state in bytes, signed.
const stateSize = 1 + 8 + 2*sha256.Size + sha256.Size

// sign returns s for the client.
func (s *state) sign(key []byte) string {
	data := binary.BigEndian.AppendUint64([]byte{stateVersion}, uint64(s.expiry))
	data = append(append(data, s.call[:]...), s.subject[:]...)
	return base64.RawURLEncoding.EncodeToString(append(data, seal(key, data)...))
}

// openState returns the state that sign has made with a key; false if it is none, or of
// another time.
func openState(key []byte, text string, now time.Time) (s state, valid bool) {
	data, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(data) != stateSize || data[0] != stateVersion {
		return s, false
	}
	signed, sum := data[:stateSize-sha256.Size], data[stateSize-sha256.Size:]
	if !hmac.Equal(sum, seal(key, signed)) {
		return s, false
	}
	s.expiry = int64(binary.BigEndian.Uint64(signed[1:]))
	copy(s.call[:], signed[9:])
	copy(s.subject[:], signed[9+sha256.Size:])
	return s, now.Unix() <= s.expiry
}

func seal(key, data []byte) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("mneme mcp request state\x00"))
	mac.Write(data)
	return mac.Sum(nil)
}
