package memory

import (
	"errors"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

func TestParsePath(t *testing.T) {
	deep := strings.Repeat("/d", MaxSegments)
	long := strings.Repeat("/"+strings.Repeat("x", 127), 8) // 1,024 bytes
	for _, tc := range []struct {
		in, want string
		err      error
	}{
		{"/a", "/a", nil},
		{"/a/b.md", "/a/b.md", nil},
		{"/ with space/ünïcode/日本", "/ with space/ünïcode/日本", nil},
		{"/e\u0301", "/\u00e9", nil},
		{"/.hidden/..x/...", "/.hidden/..x/...", nil},
		{"/sub/.mneme", "/sub/.mneme", nil},
		{"/.mnemex", "/.mnemex", nil},
		{deep, deep, nil},
		{long, long, nil},
		{"", "", ErrBadPath},
		{"a", "", ErrBadPath},
		{"/", "", ErrBadPath},
		{"//a", "", ErrBadPath},
		{"/a/", "", ErrBadPath},
		{"/a//b", "", ErrBadPath},
		{"/.", "", ErrBadPath},
		{"/a/../b", "", ErrBadPath},
		{"/a/..", "", ErrBadPath},
		{"/.mneme", "", ErrBadPath},
		{"/.mneme/status", "", ErrBadPath},
		{"/a\x00b", "", ErrBadPath},
		{"/a\nb", "", ErrBadPath},
		{"/a\x7fb", "", ErrBadPath},
		{"/a\u0085b", "", ErrBadPath},
		{"/a\u200bb", "", ErrBadPath},
		{"/a\u202eb", "", ErrBadPath},
		{"/👩\u200d🚀", "/👩\u200d🚀", nil},
		{"/family 👨\u200d👩\u200d👧\u200d👦.md", "/family 👨\u200d👩\u200d👧\u200d👦.md", nil},
		{"/👩🏽\u200d🚀", "/👩🏽\u200d🚀", nil},
		{"/🏳\ufe0f\u200d🌈", "/🏳\ufe0f\u200d🌈", nil},
		{"/❤\ufe0f\u200d🔥", "/❤\ufe0f\u200d🔥", nil},
		{"/🏃🏾\u200d♀\ufe0f\u200d➡\ufe0f", "/🏃🏾\u200d♀\ufe0f\u200d➡\ufe0f", nil},
		{"/🙂\u200d↔\ufe0f", "/🙂\u200d↔\ufe0f", nil},
		{"/می\u200cخواهم.md", "/می\u200cخواهم.md", nil},         // Persian: I want
		{"/نامه\u200cهای ایرانی", "/نامه\u200cهای ایرانی", nil}, // Persian: Iranian letters
		{"/क्\u200dष", "/क्\u200dष", nil},                       // Hindi: half a letter
		{"/क्\u200cष", "/क्\u200cष", nil},                       // Hindi: with its virama seen
		{"/ශ්\u200dරී ලංකා", "/ශ්\u200dරී ලංකා", nil},           // Sinhala: Sri Lanka
		{"/അവന്\u200d.txt", "/അവന്\u200d.txt", nil},             // Malayalam: a letter without a vowel
		{"/a\u200db", "", ErrBadPath},
		{"/a\u200cb", "", ErrBadPath},
		{"/\u200da", "", ErrBadPath},
		{"/a\u200d", "", ErrBadPath},
		{"/\u200d", "", ErrBadPath},
		{"/👩\u200d", "", ErrBadPath},
		{"/\u200d👩", "", ErrBadPath},
		{"/👩\u200d\u200d🚀", "", ErrBadPath},
		{"/👩\u200c🚀", "", ErrBadPath},
		{"/👩\u200da", "", ErrBadPath},
		{"/1\u200d🚀", "", ErrBadPath},
		{"/\ufe0f\u200d🚀", "", ErrBadPath},
		{"/می\u200c", "", ErrBadPath},
		{"/می\u200c.md", "", ErrBadPath},
		{"/می\u200c\u200cخواهم", "", ErrBadPath},
		{"/می\u200dخواهم", "", ErrBadPath}, // what is joined anyway
		{"/\u200cخواهم", "", ErrBadPath},
		{"/क्\u200c", "", ErrBadPath},
		{"/क\u200dष", "", ErrBadPath},
		{"/д\u200cд", "", ErrBadPath},
		{"/\ufeffa", "", ErrBadPath},
		{"/a\u2028b", "", ErrBadPath},
		{"/a\u2029b", "", ErrBadPath},
		{"/a\xffb", "", ErrPathEncoding},
		{deep + "/d", "", ErrPathTooLong},
		{long + "y", "", ErrPathTooLong},
		{"/" + strings.Repeat("x", 255), "/" + strings.Repeat("x", 255), nil},
		{"/" + strings.Repeat("x", 256), "", ErrPathTooLong},
		// 381 bytes in NFD, 254 in NFC.
		{"/" + strings.Repeat("e\u0301", 127), "/" + strings.Repeat("\u00e9", 127), nil},
	} {
		got, err := ParsePath(tc.in)
		if got != tc.want || !errors.Is(err, tc.err) {
			t.Errorf("ParsePath(%q) = %q, %v; want %q, %v", tc.in, got, err, tc.want, tc.err)
		}
	}
}

func TestParsePrefix(t *testing.T) {
	for in, want := range map[string]string{"": "/", "/": "/", "/a": "/a", "/a/": "/a"} {
		if got, err := ParsePrefix(in); got != want || err != nil {
			t.Errorf("ParsePrefix(%q) = %q, %v; want %q", in, got, err, want)
		}
	}
	if _, err := ParsePrefix("/a//"); !errors.Is(err, ErrBadPath) {
		t.Errorf("ParsePrefix(/a//) = %v, want ErrBadPath", err)
	}
}

// plain is a joiner next to an ASCII letter or digit, except one that may follow half a
// letter.
var plain = regexp.MustCompile("[A-Za-z0-9][\u200c\u200d]|\u200c[\x00-\x7f]")

// unseen is what no new name has: fillers, noncharacters, and variation selectors
// at the beginning, behind letters of the usual scripts, or behind one another.
var unseen = regexp.MustCompile("[\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\ufdd0-\ufdef\ufffe\uffff\U000e0000-\U000e00ff]|" +
	"(^|[A-Za-z .-]|\\p{Greek}|\\p{Cyrillic}|\\p{Hangul}|" + selectors + ")" + selectors)

const selectors = "[\ufe00-\ufe0f\u180b-\u180d\U000e0100-\U000e01ef]"

// FuzzParsePath holds the published rules of a path against whatever comes out.
func FuzzParsePath(f *testing.F) {
	for _, seed := range []string{"/a", "/a/b", "/e\u0301", "/..", "/a\x00", "/\xff", "/\u200b", "/👩\u200d🚀", "/می\u200cخ", "/क्\u200d", "/e\u200d\u0301", strings.Repeat("/x", 21), "/\u1100\u1161\u11a8", "/\u212b",
		"/a\u3164", "/\ufe0fa", "/❤\ufe0f", "/\uffff", "/a\U000e0100", "/辻\U000e0100", "/\u180b"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		got, err := ParsePath(in)
		if err != nil {
			if got != "" {
				t.Errorf("ParsePath(%q) = %q with the error %v", in, got, err)
			}
			return
		}
		if again, err := ParsePath(got); again != got || err != nil {
			t.Errorf("ParsePath(%q) = %q, which parses to %q, %v", in, got, again, err)
		}
		if !utf8.ValidString(got) || !norm.NFC.IsNormalString(got) || norm.NFC.String(in) != got {
			t.Errorf("ParsePath(%q) = %q: not the NFC of it", in, got)
		}
		segments := strings.Split(got, "/")[1:]
		if len(got) > 1024 || len(segments) > 20 || len(segments) == 0 {
			t.Errorf("ParsePath(%q) = %q: too long", in, got)
		}
		for _, s := range segments {
			if s == "" || s == "." || s == ".." || len(s) > 255 || strings.ContainsFunc(s, func(r rune) bool {
				if r == '\u200c' || r == '\u200d' { // leading, trailing or beside ASCII they would be unseen
					return strings.HasPrefix(s, string(r)) || strings.HasSuffix(s, "\u200c") || plain.MatchString(s)
				}
				return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029'
			}) {
				t.Errorf("ParsePath(%q) = %q: segment %q", in, got, s)
			}
			if CheckNew(s) == nil && unseen.MatchString(s) {
				t.Errorf("%q may be new, and has a character that cannot be seen", s)
			}
		}
	})
}
