package witness

import (
	"errors"
	"os"
	"strings"
	"testing"

	signednote "golang.org/x/mod/sumdb/note"

	"mneme/cas"
	"mneme/versionlog"
)

// A pair of keys for tests, another one's, and a tip.
const (
	testSecret   = "PRIVATE+KEY+mneme+a95627d3+AWH1JeQZWHZsQxQPMoF2GlB1EFbkAtm4ZGcPL4wtU6Im"
	testVerifier = "mneme+a95627d3+AY0KUMTZ6VqcSB6XVC6yayNAa1yf+ZmasOA2UTxBcnoe"
	otherSecret  = "PRIVATE+KEY+mneme+07a28c21+AQLS7n16v1VgNxCpN1E1r8bLLFfzSpmYDIF/+t4cylfZ"
)

var tip41 = SignedTip{"memstore_06h19f2fabyq297eccqk462hpg", versionlog.Tip{Seq: 41, Digest: cas.Sum([]byte("41"))}}

func signed(t testing.TB, s SignedTip, secret string) string {
	t.Helper()
	data, err := Sign(s, secret)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// signedText is a note of any text.
func signedText(t testing.TB, text string) string {
	t.Helper()
	signer, err := signednote.NewSigner(testSecret)
	if err != nil {
		t.Fatal(err)
	}
	data, err := signednote.Sign(&signednote.Note{Text: text}, signer)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestNoteGolden: what is signed is a format; Ed25519 signs the same text with the same
// bytes always.
func TestNoteGolden(t *testing.T) {
	want, err := os.ReadFile("testdata/note-v1")
	if err != nil {
		t.Fatal(err)
	}
	if got := signed(t, tip41, testSecret); got != string(want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, err := ReadNote(want, testVerifier); err != nil || got != tip41 {
		t.Errorf("read: %+v, %v", got, err)
	}
}

func TestNewKey(t *testing.T) {
	secret, verifier, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := ReadNote([]byte(signed(t, tip41, secret)), verifier); err != nil || got != tip41 {
		t.Errorf("read: %+v, %v", got, err)
	}
	again, _, err := NewKey()
	if err != nil || again == secret {
		t.Errorf("two keys are one, %v", err)
	}
}

func TestNoteProvesNothing(t *testing.T) {
	good, text := signed(t, tip41, testSecret), tip41.text()
	for _, test := range []struct{ name, data, want string }{
		{"empty", "", "it is no signed note"},
		{"not signed", text, "it is no signed note"},
		{"no signature", text + "\n", "it is no signed note"},
		{"another key's", signed(t, tip41, otherSecret), `it is signed by key "mneme+07a28c21", not by key "mneme+a95627d3"`},
		{"another number", strings.Replace(good, "\n41\n", "\n42\n", 1), "is of another text, so it was changed"},
		{"another store", strings.Replace(good, "memstore_0", "memstore_1", 1), "is of another text, so it was changed"},
		{"another digest", strings.Replace(good, tip41.Tip.Digest.String(), cas.Sum(nil).String(), 1), "is of another text, so it was changed"},
		{"other text", signedText(t, "go.sum database tree\n41\nx\n"), "is about something else"},
		{"a later format", signedText(t, strings.Replace(text, "v1", "v2", 1)), "is about something else"},
		{"more lines", signedText(t, text+"more\n"), "is about something else"},
		{"number 0", signedText(t, strings.Replace(text, "\n41\n", "\n0\n", 1)), "is about something else"},
		{"number in another form", signedText(t, strings.Replace(text, "\n41\n", "\n041\n", 1)), "is about something else"},
		{"no number", signedText(t, strings.Replace(text, "\n41\n", "\n-1\n", 1)), "is about something else"},
		{"no store", signedText(t, strings.Replace(text, tip41.StoreID, "", 1)), "is about something else"},
		{"no digest", signedText(t, strings.Replace(text, tip41.Tip.Digest.String(), "", 1)), "is about something else"},
		{"digest in another form", signedText(t, strings.Replace(text, tip41.Tip.Digest.String(), strings.ToUpper(tip41.Tip.Digest.String()), 1)), "is about something else"},
		{"control characters", strings.Replace(good, "v1", "\x1b[2J", 1), "it is no signed note"},
		{"too long", strings.Repeat("x\n", MaxNote/2) + good, "more than 65536 bytes"},
		{"names of signers", text + "\n— a\u202e AAAAAAAAAAA=\n— b BBBBAAAAAAA=\n", `it is signed by key "a\u202e+00000000" and 1 more, not by`},
	} {
		got, err := ReadNote([]byte(test.data), testVerifier)
		if !errors.Is(err, ErrNote) || !strings.Contains(err.Error(), test.want) || got != (SignedTip{}) {
			t.Errorf("%s: %+v, %v; want %s", test.name, got, err, test.want)
		}
	}
}

// TestWrongKeys: an error does not repeat the text, which may be the secret key.
func TestWrongKeys(t *testing.T) {
	good := signed(t, tip41, testSecret)
	for _, key := range []string{"", "x", testSecret, testVerifier + "x", strings.Replace(testVerifier, "mneme", "other", 1)} {
		if _, err := ReadNote([]byte(good), key); !errors.Is(err, ErrKey) || key != "" && strings.Contains(err.Error(), key) {
			t.Errorf("to verify with %q: %v", key, err)
		}
	}
	for _, key := range []string{"", "xyz", testVerifier, testSecret + "x"} {
		if _, err := Sign(tip41, key); !errors.Is(err, ErrKey) || key != "" && strings.Contains(err.Error(), key) {
			t.Errorf("to sign with %q: %v", key, err)
		}
	}
}

// FuzzReadNote: a note that is believed says what was signed.
func FuzzReadNote(f *testing.F) {
	good := signed(f, tip41, testSecret)
	for _, seed := range []string{good, "", tip41.text() + "\n", signed(f, tip41, otherSecret), strings.Replace(good, "41", "42", 1), good + good} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := ReadNote(data, testVerifier)
		if err == nil && got != tip41 {
			t.Errorf("%q is taken for %+v", data, got)
		}
		if err != nil && (len(err.Error()) > 1000 || strings.ContainsAny(err.Error(), "\n\x1b")) {
			t.Errorf("error %q", err)
		}
		if got, ok := parseText(string(data)); ok && got.text() != string(data) {
			t.Errorf("%q is not what %+v is written as", data, got)
		}
	})
}
