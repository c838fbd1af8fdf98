package witness

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"

	signednote "golang.org/x/mod/sumdb/note"

	"mneme/cas"
	"mneme/errkind"
	"mneme/internal/quote"
	"mneme/versionlog"
)

// MaxNote is the size of the longest note, in bytes.
const MaxNote = 64 << 10

// noteHeader begins every note, so that no other text that the key signs is one.
const noteHeader = "mneme tip v1"

// keyName is how notes call their signer; what tells keys apart is the hash beside it.
const keyName = "mneme"

var (
	// ErrNote says that a note proves nothing: it is damaged, or not signed by the key.
	ErrNote = errkind.New(errkind.Corrupt, "the note proves nothing")
	// ErrKey says that a text is no key.
	ErrKey = errkind.New(errkind.Invalid, "no key")
)

// SignedTip is what a note says: the tip that a store had.
type SignedTip struct {
	StoreID string
	Tip     versionlog.Tip // without its time
}

// NewKey makes a pair of Ed25519 keys: the secret one, with which notes are signed,
// and the one by which they are verified. Both are one line of text.
func NewKey() (secret, verifier string, err error) {
	return signednote.GenerateKey(rand.Reader, keyName)
}

// Sign returns a note of the tip, signed with a secret key. It is text of several
// lines. ErrKey when the key is none.
func Sign(t SignedTip, secret string) ([]byte, error) {
	signer, err := signednote.NewSigner(secret)
	if err != nil { // which does not repeat the key
		return nil, fmt.Errorf("%w to sign with: %w", ErrKey, err)
	}
	return signednote.Sign(&signednote.Note{Text: t.text()}, signer)
}

func (t SignedTip) text() string {
	return fmt.Sprintf("%s\n%s\n%d\n%v\n", noteHeader, t.StoreID, t.Tip.Seq, t.Tip.Digest)
}

// ReadNote returns what a note says, if it is signed with the key that belongs to
// verifier. Other signatures are not looked at. ErrKey when verifier is no key,
// ErrNote when the note is not to be believed.
func ReadNote(data []byte, verifier string) (SignedTip, error) {
	v, err := signednote.NewVerifier(verifier)
	if err != nil {
		return SignedTip{}, fmt.Errorf("%w to verify with: %w", ErrKey, err)
	}
	if len(data) > MaxNote {
		return SignedTip{}, fmt.Errorf("%w: it has more than %d bytes", ErrNote, MaxNote)
	}
	signed, err := signednote.Open(data, signednote.VerifierList(v))
	if err != nil {
		return SignedTip{}, fmt.Errorf("%w: %s", ErrNote, whyNot(err, v))
	}
	t, ok := parseText(signed.Text)
	if !ok {
		return SignedTip{}, fmt.Errorf("%w: it is signed with the key, and is about something else than the tip of a store", ErrNote)
	}
	return t, nil
}

// whyNot says why the library does not believe a note.
func whyNot(err error, v signednote.Verifier) string {
	key := func(name string, hash uint32) string { return quote.Name(fmt.Sprintf("%s+%08x", name, hash)) }
	mine := key(v.Name(), v.KeyHash())
	if invalid := (*signednote.InvalidSignatureError)(nil); errors.As(err, &invalid) {
		return fmt.Sprintf("the signature of key %s is of another text, so it was changed", mine)
	}
	if unverified := (*signednote.UnverifiedNoteError)(nil); errors.As(err, &unverified) {
		by := "nobody"
		if sigs := unverified.Note.UnverifiedSigs; len(sigs) > 0 {
			by = "key " + key(sigs[0].Name, sigs[0].Hash)
			if len(sigs) > 1 {
				by += fmt.Sprintf(" and %d more", len(sigs)-1)
			}
		}
		return fmt.Sprintf("it is signed by %s, not by key %s", by, mine)
	}
	return "it is no signed note: text, an empty line, and signatures"
}

// parseText reads what text writes, and nothing else.
func parseText(text string) (t SignedTip, ok bool) {
	lines := strings.Split(text, "\n")
	if len(lines) != 5 {
		return t, false
	}
	t.StoreID = lines[1]
	var errSeq, errDigest error
	t.Tip.Seq, errSeq = strconv.ParseUint(lines[2], 10, 64)
	t.Tip.Digest, errDigest = cas.ParseDigest(lines[3])
	return t, errSeq == nil && errDigest == nil && t.Tip.Seq > 0 && t.StoreID != "" && t.text() == text
}
