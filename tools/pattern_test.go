package tools

import (
	"strings"
	"testing"

	"mneme/errkind"
)

// TestBadPattern: of a regular expression that is none it is said what is wrong, and at which
// character, and nothing of it is shown.
func TestBadPattern(t *testing.T) {
	r := newRig(t, nil)
	for pattern, want := range map[string]string{
		`(`:                       "missing closing ) at character 1",
		`(secret)(secret`:         "missing closing ) at character 9",
		`((secret)`:               "missing closing ) at character 1",
		`secret)`:                 "unexpected ) at character 7",
		`(a)b)c)`:                 "unexpected ) at character 5",
		`süß[secret`:              "missing closing ] at character 4",
		`secret**`:                "invalid nested repetition operator at character 7",
		`[**]secret**`:            "invalid nested repetition operator at character 11",
		`*secret`:                 "missing argument to repetition operator at character 1",
		`(secret\\q\q)`:           "invalid escape sequence at character 11",
		`secret{1001}`:            "invalid repeat count at character 7",
		`secret[z-a]`:             "invalid character class range at character 8",
		`secret\`:                 "trailing backslash at end of expression",
		`(?=secret)`:              "invalid or unsupported Perl syntax at character 1",
		`secret(?P<n>x)(?P<`:      "invalid or unsupported Perl syntax at character 15",
		strings.Repeat("(", 1000): "missing closing )",
	} {
		_, _, err := r.Search(t.Context(), Query{Text: NewSecret(pattern), Regexp: true})
		wantError(t, err, errkind.Invalid, "Error: The request is refused: the query is no regular expression as RE2 has them: "+want)
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("of %q: %v", pattern, err)
		}
	}
	_, _, err := r.Search(t.Context(), Query{Text: NewSecret(strings.Repeat("(a{100}", mostTried+1)), Regexp: true})
	wantError(t, err, errkind.Invalid, "Error: The request is refused: the query is no regular expression as RE2 has them: missing closing )")
}
