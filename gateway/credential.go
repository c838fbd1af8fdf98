package gateway

import "strings"

// Credential describes the credential that a Log is used with, by the server's answer; the
// zero value is that of a server which does not describe it.
type Credential struct {
	Key     string // id of the key that it is, or was made with
	Session string // of a token, in whose name all is written; "": that of the client

	told   bool
	rights map[string]string // by the id of a store
	always string            // the right in each store
}

// MayWrite reports whether the credential may write to a store, in a session of the client.
func (c *Credential) MayWrite(storeID, session string) bool {
	if !c.told {
		return true // as far as is known
	}
	if c.Session != "" && session != "" && c.Session != session {
		return false
	}
	return writes(c.always) || writes(c.rights[storeID])
}

// writes reports whether a right includes to write, as one does that is not known here.
func writes(right string) bool { return right != "" && right != "none" && right != "read" }

// known is a Credential, and the secret that it is of.
type known struct {
	Credential
	secret string
}

// maxWord is how many bytes an id of a key or a session has at most.
const maxWord = 128

// isWord reports whether a text can be the id of a key or a session, which is shown as it is.
func isWord(text string) bool {
	return text != "" && len(text) <= maxWord && !strings.ContainsFunc(text, func(c rune) bool { return c <= ' ' || c > '~' })
}
