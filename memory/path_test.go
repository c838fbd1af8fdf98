package memory

import (
	"errors"
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

// FuzzParsePath holds the published rules of a path against whatever comes out.
func FuzzParsePath(f *testing.F) {
	for _, seed := range []string{"/a", "/a/b", "/e\u0301", "/..", "/a\x00", "/\xff", "/\u200b", strings.Repeat("/x", 21), "/\u1100\u1161\u11a8", "/\u212b"} {
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
				return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029'
			}) {
				t.Errorf("ParsePath(%q) = %q: segment %q", in, got, s)
			}
		}
	})
}
